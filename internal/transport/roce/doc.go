// SPDX-License-Identifier: BSD-2-Clause

// Package roce is the transport of RoCEv2: it shares UDP port 4791 with other processes,
// demultiplexes datagrams by queue pair number, and sends bursts of them from sockets of each
// queue pair. It is also QP1: management datagrams come and go here. Packets between queue
// pairs of one host go by the rings of package shm instead, but for those to a group.
//
//	Port.read ─► datagram ─► ICRC ─► lock ─► Machine.HandleInput ─► leaveUnlock
//	ringReader.Burst ─────► packet ────┘
//	FlushOutput ─► flushSockets: PollOutput fills bursts ─► unlock ─► one sendmmsg writes them
//	            ├► flushRing: PollOutput writes into the ring
//	            └► flushDatagrams: one or the other for each burst of UD
//
// Lock order: Port.rxMu or shm.In.rxMu → Conn → shm.Out.mu → queue.CQ and queue.SRQ →
// mem.Table. Transport.mu and groups.mu stand above Engine.inputsMu.
//
// Spec: IBTA vol. 1, annexes A16 and A17.
package roce
