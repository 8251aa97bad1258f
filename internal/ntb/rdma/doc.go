// SPDX-License-Identifier: BSD-2-Clause

// Package rdma is verbs over an NTB link: a Node is one end of a link,
// with its reliable connected queue pairs. Sans-IO and single-threaded: its
// caller owns the Node and all its queue pairs and serialises every call.
//
//	requester (QP)                                  responder (far half: RQP)
//	SQ ─ gather ─► arena  ══ data ════════════════►  ─ check ─► the peer's memory
//	     └ WQEs ─► ring   ══ WQEs, marks, bell ═══►  executed in order
//	CQ ◄─ scatter ◄ place ◄══ data of READs ══════   ◄ gather ─ the peer's memory
//	      └◄ CQEs ◄ ring  ◄══ CQEs, words, bell ══   CQEs of atomics and errors alone
//
// A queue pair that leaves RESET asks the peer by the command ring for its far half: an RQP with a
// WQE ring in the peer's window. Going to RTS it says which queue pair that one works for. The RQP
// works only while that queue pair names it in return, and expects the PSN that the connection
// begins with. So nothing left in the ring of a connection before is executed for the next one.
// Requests are executed in order, READs and atomics by the responder, which writes the answer back:
// only writes cross the link.
//
// A doorbell names the queue pairs that have new WQEs or CQEs. The node reads their words and CQE
// rings, and completes to their completion queues. Where both nodes map the windows, the rings used
// last are polled without a doorbell: line.go.
//
// A READ is answered when its batch is written: a WRITE behind it may be there
// before, unless it is fenced.
//
// Everything that comes from the peer is judged where the memory is: the owner checks queue pair,
// key, domain, rights and bounds when it executes, and copies from its window into the memory. A
// region that itself lies in its owner's window is announced (its shadow is an RMR). A queue pair
// may have a QP_GRANT, for which the owner has checked domain, right, and that it is connected.
// Then its WRITEs go straight to their place, once all earlier messages have been placed. A hostile
// peer may store there for as long as the region is announced: its owner permits that by putting it
// there.
//
// If the sender maps the window no message announces such a WRITE: it is a store, made and
// completed when it is posted. Else a WQE announces it, and the owner checks after. A WRITE that
// the owner would refuse, such as one with a bad key or bounds, goes to the owner, so that it does.
// When a region is withdrawn, or a queue pair takes back its grant, the response tells the owner
// that no such write is under way.
//
// A message is cut into pieces, each with a WQE. A few bytes lie in the WQE, more in the arena, a
// part of the peer's window that the requester manages by itself. A piece's room is free again when
// its CQE comes. A message that finds no receive, or a queue pair not ready, is taken up again
// later from that piece on. It goes in a new generation of the ring. Nothing of it waits in the
// peer's window, so that no queue pair holds up another.
//
// When the link goes down every connected queue pair goes to the error state and all its work is
// flushed. Regions and queue pairs stay, and are announced again when the link is back.
//
// Spec: IBTA vol. 1, 9.7 (reliable service), 10.3 (states), 10.6 (memory).
package rdma
