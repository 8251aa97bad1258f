// SPDX-License-Identifier: BSD-2-Clause

// Package pcapread reads capture files, pcap and pcapng: the datagrams of RoCEv2
// and of TRP, and the TCP segments of iWARP.
//
// A Reader walks a capture, whatever its link layer, and passes over all other
// frames. It belongs to one goroutine. The formats are gopacket's, which only
// tools and tests link in: package pcap writes without it.
package pcapread
