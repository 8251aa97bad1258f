// SPDX-License-Identifier: BSD-2-Clause

// Package roce is the part that the three RoCEv2 machines (rc, uc, ud) share; package qp is for all
// transports. It has the path of a queue pair, the burst of datagrams that a machine fills, and the
// facts that arrive beside a packet. It also has counters and the contract with the engine.
//
// A machine is sans-IO: single-threaded, without clock, lock, socket or
// goroutine. Its caller serialises all calls and passes the time:
//
//	HandleInput(now, packet, meta)   a datagram that passed ICRC and demultiplexing
//	Doorbell(now)                    the send or receive queue has new work
//	HandleTimeout(now)               NextTimeout has come
//	Modify(now, …)                   a legal ibv_modify_qp, checked by the object layer
//	PollOutput(now, *Burst) bool     fills one burst; call until it returns false
//	PollEvent() (event, bool)        asynchronous events for the application
//	NextTimeout() Time               when to call HandleTimeout; last
//
// Completions go straight to the Completer given at construction.
//
// Spec: IBTA vol. 1 chapter 9 (transport), annex A17 (RoCEv2).
package roce
