// SPDX-License-Identifier: BSD-2-Clause

// Package queue holds the rings that verbs calls and protocol machines meet
// at: send queue, receive queue, shared receive queue and completion queue.
//
//	     PostSend            requester                    CQ.Poll
//	        ↓                ↓       ↓                       ↑
//	SQ  [ tail …  next to send …  sent, not acknowledged … head ] → CQ
//	     PostRecv → RQ [ tail … head ] → responder ─────────────── → CQ
//
// SendQueue and RecvQueue have no lock: the lock of the connection they belong
// to guards them. SRQ and CQ, which several connections share, have their own.
// Nothing allocates once a ring has its memory, which send and receive queues
// get when they are first posted to: an idle queue pair has none.
//
// The rings keep work requests as they are. The callers that post decide which are legal, the
// protocol machines how they execute.
//
// Spec: IBTA vol. 1, 10.2.9 (SRQ), 10.8 (work requests and completions),
// 11.4.2 (completion queue verbs).
package queue
