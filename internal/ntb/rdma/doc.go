// Package rdma is verbs over a link of windows: a Node is one end of a link,
// with its reliable connected queue pairs. Sans-IO and single-threaded: its
// caller owns the Node and all its queue pairs and serialises every call.
//
//	requester (QP)                                  responder (far half: RQP)
//	SQ ─ gather ─► arena  ══ data ════════════════►  ─ check ─► the peer's memory
//	     └ WQEs ─► ring   ══ WQEs, posted, bell ══►  executed in order
//	CQ ◄─ scatter ◄ place ◄══ data of READs ══════   ◄ gather ─ the peer's memory
//	      └◄ CQEs ◄ ring  ◄══ CQEs, done, bell ═══   one for each WQE
//
// A queue pair that leaves RESET asks the peer by the command ring for its far
// half, an RQP with a WQE ring in the peer's window; going to RTS it says which
// queue pair that one works for. The RQP works only while that queue pair names
// it in return, and expects the PSN that the connection begins with: what is left
// in the ring of a connection before is not executed for the next one. Requests are executed in order, READs and atomics by the
// responder, which writes the answer back: only writes cross the link.
//
// A doorbell says which queue pairs have news; of those the CQE rings are looked
// at, and what is found goes to their completion queues.
//
// A READ is answered when its batch is written: a WRITE behind it may be there
// before, unless it is fenced.
//
// All that comes from the peer is judged where the memory is: the owner checks
// queue pair, key, domain, rights and bounds when it executes, and copies from
// its window into the memory. A region that itself lies in its owner's window
// is announced (its shadow is an RMR): WRITEs then go straight to their place,
// and the owner checks after; but not while a message before them is not at its
// own. Such a region is open to the peer's stores for
// as long as it is announced; that is what putting it there means.
//
// A message is cut into pieces; each has a WQE, and its bytes lie in the WQE,
// if they are few, or in the arena, a part of the peer's window that the
// requester manages by itself. A piece's room is free again when its CQE comes.
// A message that finds no receive, or a queue pair not ready, is taken up
// again later from that piece on, in a new generation of the ring: nothing of
// it waits in the peer's window, so that no queue pair holds up another.
//
// When the link goes down every connected queue pair goes to the error state and all its work is flushed.
// Regions and queue pairs stay, and are announced again when the link is back.
//
// Spec: IBTA vol. 1, 9.7 (reliable service), 10.3 (states), 10.6 (memory).
package rdma
