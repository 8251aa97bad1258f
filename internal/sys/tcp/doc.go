// SPDX-License-Identifier: BSD-2-Clause

// Package tcp provides TCP sockets for an engine: raw descriptors that never block and stay out of
// the runtime's poller. They are read by readv straight to where bytes belong and written from
// where they are. It knows no protocol.
//
//	Listen ─ Accept ─┐
//	Dial ─ Finish ───┴─► Conn: Readv, Writev, CloseWrite, Close or Abort
//	                     Set: which of many have something to do
//
// The owner of a Conn sees to it that nobody uses it while or after it is
// closed: the descriptor's number is someone else's then. Readv is for one
// goroutine at a time, and Writev for one.
//
// Only Linux has it; elsewhere every call says so.
package tcp
