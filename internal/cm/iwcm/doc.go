// SPDX-License-Identifier: BSD-2-Clause

// Package iwcm is iWARP's connection manager. It stands between an application that connects,
// accepts or rejects, and the set-up of a TCP stream (package mpa). In Linux iw_cm and a driver do
// the same.
//
// A Conn is one connection. It is sans-IO and single-threaded: its caller opens
// and closes the stream, serialises all calls and passes the time.
//
//	active                                    passive
//	Dial       Connecting ─── SYN ──────▶     Listener.Take      Awaiting
//	HandleConnected
//	           Requesting ─── Request ──▶ HandleInput            Requested   Listener.Next
//	                                          Accept             Answered
//	EventReply Replied ◀───── Reply ─────     HandOver
//	HandOver, Establish
//	           Established ── first FPDU ─▶ HandleReady  EventEstablished
//	HandleEnd  Closed         EventDisconnected                  Closed
//
// Reject, and every failure, end in Closed too, with EventRejected or EventFailed on a side that
// has asked or accepted. An accepted peer is established with its first FPDU if the two settled on
// a ready-to-receive message, else at once: then the passive application waits for it in the queue
// pair.
//
// From HandOver on the stream is the queue pair's, which calls HandleReady and HandleEnd. There is
// no time-wait: TCP has its own.
//
// A peer that speaks revision 1 only is asked again with it, on a new stream. One that refuses the
// stream is asked again for a while: Want says WantRedial.
//
// A Listener bounds the memory that peers may take. Requests that the application has not answered
// are at most the backlog. Those beyond, and connections that have not sent their Request, are at
// most maxStrangers, half of them from one address, for 20 s: the oldest gives way.
//
// Spec: RFC 5044, 7; RFC 6581. The outcomes are those of cma_iw_handler in
// Linux, which package rdmacm turns into events.
package iwcm
