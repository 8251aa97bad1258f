// SPDX-License-Identifier: BSD-2-Clause

// Package ibcm is the connection manager's state machine of the InfiniBand specification. It
// exchanges REQ, REP, RTU and the other messages, and gives both sides the attributes that connect
// their queue pairs.
//
// One Agent holds all connections of one process on one port. It is sans-IO and single-threaded:
// the caller serialises all calls, and passes the time and the random numbers. The caller takes
// output from PollOutput and events from PollEvent, and calls HandleTimeout when NextTimeout has
// come.
//
//	active                                    passive
//	Connect    ReqSent ────── REQ ──────▶              held
//	           ReqSent ◀──── DREQ ───────              challenge: for this connection, and for none
//	           ReqSent ───── DREP ──────▶ ReqRcvd      EventRequest: the peer denies the second alone
//	              │ ◀─ MRA: MRAReqRcvd ─── MRAReqSent  (on a duplicate REQ)
//	EventReply RepRcvd ◀───── REP ─────── RepSent      Accept
//	           MRARepSent ─── MRA ──────▶ MRARepRcvd   (on a duplicate REP)
//	Establish  Established ── RTU ──────▶ Established  EventEstablished
//	Disconnect DreqSent ───── DREQ ─────▶ DreqRcvd     EventDisconnected
//	EventDisconnected Timewait ◀ DREP ─── Timewait     Disconnect
//	EventTimewaitExit Closed              Closed       EventTimewaitExit
//
// Either side may do the same as the other from Established on. A message that is not answered is
// sent again after its response time-out, at most MaxCMRetries times. Datagram services have no
// connection: SIDR_REQ asks and SIDR_REP answers with a queue pair number and Q_Key. When the
// caller learns that a path is lost, Lose ends its connections without waiting.
//
// Requests come from addresses that anybody can write into a packet. An Agent holds
// each request in a table of its own until the peer has shown that it sent it: the
// application hears of no other (held.go, probe.go).
//
// Private data are delivered as they lie in the message, padded with zeros; the
// IP addressing header in front of them is the business of package rdmacm.
//
// A connection that has ended keeps its ConnID until Destroy. Destroy may be called in every state;
// it sends the message that the state requires.
//
// Spec: IBTA vol. 1, chapter 12; state diagrams in 12.9.5 to 12.9.7.
package ibcm
