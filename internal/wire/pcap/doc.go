// SPDX-License-Identifier: BSD-2-Clause

// Package pcap reads and writes capture files of RoCEv2 traffic, and reads those
// of iWARP over TCP: pcap and pcapng in, pcapng out. The file formats are those of gopacket's pcapgo; what
// is here is the way from a frame to a UDP datagram and back.
//
// A Reader walks a capture and yields the datagrams sent to the RoCEv2 port and
// the segments of TCP, whatever the link layer; other frames are counted and
// passed over. A Writer
// takes datagrams as a UDP socket sees them, without link or IP header, and
// writes frames of link type "raw IP" with the headers that the ICRC stands
// for, so that Wireshark dissects them, ICRC included.
//
// A Reader belongs to one goroutine. A Writer may be shared.
package pcap
