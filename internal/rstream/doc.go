// SPDX-License-Identifier: BSD-2-Clause

// Package rstream is the machine of an rsocket stream: a stream of bytes over one RC queue pair.
// It decides where bytes are written, and which may be read. Package rsocket posts its work
// requests and gives it the completions.
//
//	sender                                      receiver
//	  send buffer ──RDMA WRITE with immediate──►  receive buffer: two halves, a ring
//	  table [2]   ◄──RDMA WRITE with immediate──  which half may be written next
//
// Each side owns a receive buffer of two halves. It grants the peer a free half by writing a Window
// into the peer's table. Data fills one half to its last byte before it goes on in the next. So the
// received bytes form a ring, and a message only says how many bytes came.
//
// A second limit, credits, keeps the sender from having more messages under way than there are
// receives posted. Control messages need no credit. Up to ControlSlots of them are under way, and a
// receiver short of receives answers RNR until it has some. iWARP has no RNR. There a message is a
// SEND behind its WRITE, a receiver has receives to spare, and a sender of data leaves credits.
//
//	Connected ─► Disconnected    both halves are shut
//	    └──────► Failed          Err says why
//
// The machine does no I/O and has no lock. Its caller serialises all calls.
//
// Source: rsocket(7). cabi/rsocket is the C library's implementation.
package rstream
