// SPDX-License-Identifier: BSD-2-Clause

// Package timeline finds in captures what became of each connection: its packets and how they
// fared, its operations, round trips and bytes in flight, and what went wrong.
//
//	frames ── pcapread ──► RoCEv2: flows to a queue pair, paired by CM or by PSN ─┐
//	                       iWARP:  TCP streams, trace.Streams                     ├─► Timeline
//	                       TRP:    datagrams between a client and its server     ─┘
//
// It reads a capture once, from the front, and keeps for each packet a row of columns and its
// compressed header fields. Named constants bound all else, whatever hosts send. It draws nothing:
// WriteSummary writes text, and package view makes the page.
//
// Captures of a connection's two ends become one: a packet has its time from the sender's and its
// flight from the receiver's, on one clock.
//
// A space is the sequence numbers of one end's requests: PSNs, or offsets in a TCP stream. Numbers
// count from the first that the capture has.
package timeline
