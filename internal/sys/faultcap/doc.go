// SPDX-License-Identifier: BSD-2-Clause

// Package faultcap stands between an engine and a socket. It loses, repeats, reorders, damages and
// delays sent packets, and shows all packets to a capture.
//
//	engine ── WriteBatch ──► faults ──► capture ──► socket
//	engine ◄── ReadBatch ── capture ◄────────────── socket
//
// So a capture of the sender shows the packets that the peer was really sent. Faults are applied to
// each datagram on its own, and bursts are cut for that. Their effect depends only on the seed, the
// stream and the position of the datagram: the same traffic meets the same faults.
//
// A Stream does so for a TCP connection, with those faults that TCP does not repair.
//
// Delayed datagrams wait in the tap. Its owner calls HandleTimeout at
// NextTimeout, or lets Drive do so. A Tap may be used by several goroutines.
package faultcap
