// SPDX-License-Identifier: BSD-2-Clause

package raw

import (
	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	"verbena/internal/queue"
	"verbena/internal/roce"
)

// HeaderBytes is the length of the shortest frame: the Ethernet header.
const HeaderBytes = 14

// QP is the state of one raw packet queue pair.
type QP struct {
	roce.Core
	maxFrame int
	spans    []mem.Span // scratch
}

var _ qp.Machine = (*QP)(nil)

// New returns a queue pair in the RESET state that sends frames of up to maxFrame bytes.
func New(c roce.Config, maxFrame int) *QP {
	q := &QP{Core: roce.NewCore(c), maxFrame: maxFrame}
	q.MTU = maxFrame
	return q
}

// SetMaxFrame changes the length of the longest frame: the interface's MTU may have changed.
func (q *QP) SetMaxFrame(n int) { q.maxFrame, q.MTU = n, n }

// Query fills the attributes that the queue pair owns.
func (q *QP) Query(attr *ib.QPAttr) {
	*attr = q.Attr
	attr.State, attr.CurState = q.State(), q.State()
}

// Modify applies a legal modification.
func (q *QP) Modify(_ monotime.Time, a *ib.QPAttr, mask ib.QPAttrMask) {
	var psn ib.PSN // it has none
	q.ModifySending(a, mask&^(ib.QPPathMTU|ib.QPAV), nil, &psn, q.setState)
}

// setState enters a state that the object layer chose.
func (q *QP) setState(s ib.QPState) {
	q.Enter(s)
	switch s {
	case ib.QPReset:
		q.Reset()
		q.MTU = q.maxFrame
	case ib.QPSQD: // no frame is ever half sent
		q.SQDrained()
	case ib.QPErr:
		q.Flush()
	}
}

// Doorbell handles posted work.
func (q *QP) Doorbell(monotime.Time) { q.FlushPosted() }

// PollFrame copies the next frame into b, which has room for the longest, and returns its length;
// ok is false if there is none to send now.
func (q *QP) PollFrame(now monotime.Time, b []byte) (n int, ok bool) {
	for q.State() == ib.QPRTS && q.SQ.Len() > 0 && !q.Rate.Holds(now) {
		w := q.SQ.At(0)
		if s, v := q.frame(w, b); s != ib.WCSuccess {
			q.FailSend(w, s, v)
			continue
		}
		n := int(w.Length)
		q.Rate.Sent(now, n)
		q.Count[roce.SentPackets]++
		q.Count[roce.SentBytes] += uint64(n)
		q.Count[roce.SentMessages]++
		q.FinishSend(w)
		return n, true
	}
	return 0, false
}

// frame copies the frame of a work request into b.
func (q *QP) frame(w *queue.SendWQE, b []byte) (ib.WCStatus, ib.VendorErr) {
	switch {
	case w.Opcode != ib.WRSend:
		return ib.WCLocQPOpErr, ib.VendorOpcode
	case w.Length < HeaderBytes:
		return ib.WCLocLenErr, ib.VendorLength
	case w.Length > uint32(min(q.maxFrame, len(b))):
		return ib.WCLocLenErr, ib.VendorMTU
	}
	if w.Flags&ib.SendInline != 0 {
		copy(b, w.Inline[:w.Length])
		return ib.WCSuccess, ib.VendorNone
	}
	spans, s, v := q.Gather(q.spans[:0], w, 0, int(w.Length))
	if s != ib.WCSuccess {
		return s, v
	}
	q.spans = spans
	defer qp.Release(spans)
	for i := range spans {
		n := spans[i].Len()
		if !spans[i].CopyOut(0, b[:n]) {
			return ib.WCLocProtErr, ib.VendorFault
		}
		b = b[n:]
	}
	return ib.WCSuccess, ib.VendorNone
}

// HandleFrame takes a frame for this queue pair. One that finds no receive, or none that is long
// enough, is dropped: a stranger must not be able to stop the queue pair.
func (q *QP) HandleFrame(_ monotime.Time, frame []byte, tag uint32) {
	n := len(frame)
	q.Count[roce.RcvdPackets]++
	q.Count[roce.RcvdBytes] += uint64(n)
	switch {
	case q.State() < ib.QPRTR || q.State() == ib.QPErr:
		q.Count[roce.DroppedState]++
		return
	case !q.TakeRecv():
		q.Count[roce.DroppedNoRecv]++
		return
	case uint64(n) > uint64(q.Recv.Length):
		q.Count[roce.DroppedMessage]++
		return
	}
	if s, v := q.ScatterRecv(0, frame); s != ib.WCSuccess {
		q.FailRecv(s, v)
		q.Stop(ib.EventQPFatal)
		return
	}
	q.Count[roce.RcvdMessages]++
	wc := q.WC()
	*wc = ib.WC{Opcode: ib.WCRecv, ByteLen: uint32(n), TagHigh: tag}
	q.CompleteRecv(wc, false)
}

// NextTimeout returns when the limit of the rate lets the next frame go.
func (q *QP) NextTimeout() monotime.Time { return q.Rate.Due() }

// HandleTimeout lets the frame go that the limit of the rate held.
func (q *QP) HandleTimeout(now monotime.Time) { q.Rate.HandleTimeout(now) }
