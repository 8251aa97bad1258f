// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"verbena/ib"
	"verbena/internal/queue"
)

// UC and UD have no acknowledgement. So a send is complete when its last packet is in a burst, and
// the oldest work request is always the one being sent.
//
// Its bytes are copied into the burst. They belong to the application again
// once the completion is there, which is before the burst is written.

// ModifySending applies the part of a legal modification that UC and UD have in common: the
// attributes, the PSN to send with next, and last the state.
func (q *Core) ModifySending(a *ib.QPAttr, mask ib.QPAttrMask, path *Path, psn *ib.PSN,
	setState func(ib.QPState)) {
	q.Apply(a, mask, path)
	if mask&ib.QPSQPSN != 0 {
		*psn = a.SQPSN
	}
	if mask&ib.QPStateAttr != 0 && a.State != q.State() {
		setState(a.State)
	}
}

// FinishSend completes the oldest work request and takes it off the queue.
func (q *Core) FinishSend(w *queue.SendWQE) {
	q.CompleteSend(w, ib.WCSuccess, ib.VendorNone)
	q.SQ.PopFront()
}

// FailSend completes the oldest work request with an error and stops the send
// queue; receiving goes on.
//
// Spec: IBTA vol. 1, 10.3.1.6 (Send Queue Error state).
func (q *Core) FailSend(w *queue.SendWQE, s ib.WCStatus, v ib.VendorErr) {
	q.CompleteSend(w, s, v)
	q.SQ.PopFront()
	q.Enter(ib.QPSQE)
	q.FlushSends()
}

// FlushPosted flushes work posted in a state that does not carry it out.
func (q *Core) FlushPosted() {
	switch q.State() {
	case ib.QPSQE:
		q.FlushSends()
	case ib.QPErr:
		q.FlushSends()
		q.FlushRecvs()
	}
}

// SQDrained raises the event, if the application asked for it, that a queue in SQD has nothing more
// to send.
func (q *Core) SQDrained() {
	if q.State() == ib.QPSQD && q.Attr.EnSQDAsyncNotify {
		q.Raise(ib.EventSQDrained)
	}
}

// Stop takes the queue pair to the error state after a local fault of a receive, and notifies the
// application.
func (q *Core) Stop(e ib.EventType) {
	q.Raise(e)
	q.Enter(ib.QPErr)
	q.Flush()
}
