// SPDX-License-Identifier: BSD-2-Clause

// Package iwarp is the transport of iWARP over TCP: a socket a queue pair, whose stream a
// connection manager sets up (Dial, Listen) and hands over (Conn.Connect). One epoll set has
// all sockets; a few streams are read without asking it.
//
//	Stream ─ Connect ─► Conn ── read:        Place, readv, HandlePlaced, HandleInput
//	                       │     FlushOutput: PollOutput, writev, HandleWritten
//	                       └──► leave: closed or reset when the machine says so
//
// Lock order: input.rxMu → Conn → input.mu; Stream.use.mu → input.mu.
package iwarp
