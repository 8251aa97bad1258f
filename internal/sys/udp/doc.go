// SPDX-License-Identifier: BSD-2-Clause

// Package udp sends and receives many datagrams per system call. The kernel cuts
// its bursts (UDP_SEGMENT) and joins them (UDP_GRO). The application's bytes are
// gathered in place.
//
//	Datagrams{Iov: h0 p0 c0 h1 p1 c1 … , SegmentSize: s}      WriteBatch
//	   └ concatenated, cut every s bytes ──► datagram 0, 1, 2 … of one send
//
//	ReadBatch ──► Message{Data, SegmentSize}                   RxBatch
//	   └ Segment(i): datagram i of a burst, a view into the batch's buffer
//
// It does not know what a datagram means, never blocks in ReadBatch and
// WriteBatch, and starts no goroutine for a socket on Linux. A Socket may be
// used by several goroutines at once; an RxBatch belongs to one reader at a
// time. Data of a Message is valid until the batch is read into again.
//
// # The IPv4 headers of an unprivileged sender
//
// RoCEv2's ICRC covers the identification and fragment fields, which no UDP
// socket shows or sets. An unconnected socket with IP_MTU_DISCOVER =
// IP_PMTUDISC_DO sends identification 0 and DF; segment i of one UDP_SEGMENT
// send has identification i. So sockets here are never connected, and a caller
// counts segments from 0 in each Datagrams. Where bursts are not cut by the
// kernel (Socket.CutsBursts is false) every datagram has identification 0.
//
// # Elsewhere than Linux
//
// The same API works over package net, one datagram at a time; Options.Portable
// forces that on Linux too. TOS and TTL are then the system's defaults.
package udp
