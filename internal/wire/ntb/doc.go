// SPDX-License-Identifier: BSD-2-Clause

// Package ntb has as Go values the data that two nodes write into each other's memory, over a
// non-transparent bridge or a substitute for one.
//
// Each node owns a window, memory that the other one writes and never reads.
// Addresses are offsets into a window. A window of node B, as node A fills it:
//
//	0        0x1000
//	+--------+------------------------------------------------------------+
//	| info   | doorbells, command ring, responses, WQE and CQE rings,     |
//	| page   | datagram rings for MADs and Ethernet frames, arena for     |
//	|        | A's data, places for what A brings back of READs           |
//	+--------+------------------------------------------------------------+
//
// The info page is at the same place for ever; where the rest is B says in the
// hello phases and in responses to commands.
//
// The shapes are those of the original, NTRDMA: a hello in phases, command ring, virtual doorbells,
// WQE and CQE rings in parallel, a stream of destination and data over TCP. Differences:
//   - all is little-endian by definition and every message has its size: the
//     original sends C structures as the machine has them;
//   - places are offsets into a window, which both ends check, not addresses;
//   - keys of regions are the table's, whatever their number: no index;
//   - ring indices count on modulo 2^32 and capacities are powers of two, where
//     the original counts modulo twice the capacity;
//   - a WQE is of fixed size and describes one piece of a message, with its bytes
//     if there are few; gather lists do not cross the link;
//   - a WQE has a mark, written last, that says which one it is: no index of the ring
//     is written. It may tell how far its writer is with the requests of the other way;
//   - only a WQE with more to report than success has a CQE;
//   - a session number tells one life of the link from the next.
//
// Everything here is a value without state: nothing allocates, panics on input
// or keeps a pointer into a buffer, except that Management.MAD aliases it.
//
// Source: github.com/ntrdma/ntrdma-ext, tags v0.1 and v0.2-rc4, facts only.
package ntb
