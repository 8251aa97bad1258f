// SPDX-License-Identifier: BSD-2-Clause

// Package trace writes RoCEv2 and iWARP packets as text, one line each, in the words of Wireshark's
// columns. So our line and tshark's line about the same packet read the same:
//
//	14    0.002828 10.77.0.2 → 10.77.0.3 RRoCE 1098 RC RDMA Write First QP=0x000011  PSN=… VA=… RKey=… DMALen=… Len=1024
//
// Up to the two spaces, that is frame number, seconds, addresses, bytes on the
// link and info, it is Wireshark's; behind them stand the header fields.
//
// A Formatter is a value; it keeps nothing between packets. It takes parsed packets from the wire
// packages and reads captures by way of package pcap.
//
// iWARP is in TCP streams, an FPDU usually but not always in one segment.
// Streams puts them together again, within bounds, and yields an Item for each
// MPA frame and FPDU, which the Formatter then writes.
package trace
