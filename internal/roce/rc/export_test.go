// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"testing"

	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/monotime"
	"verbena/internal/queue"
)

// Expect sets the PSN that the responder expects, as if it had received what lies before.
func (q *QP) Expect(psn ib.PSN) { q.resp.epsn = psn }

// EntryLeft is entryLeft.
var EntryLeft = entryLeft

// Expected returns the PSN that the responder expects, and whether it is inside a message.
func (q *QP) Expected() (psn ib.PSN, inside bool) { return q.resp.epsn, q.resp.in != inNone }

// Widen has the window begin as that within a host.
func (q *QP) Widen() { q.req.loss.Widen() }

// Settle has the window be that of a queue pair that has sent for a while.
func (q *QP) Settle() {
	for l := &q.req.loss; l.Bytes() < congestion.Ordinary; {
		l.Acked(0, l.Bytes())
	}
}

// Check finds that the requester's and the responder's positions and lists hold together.
func (q *QP) Check(t testing.TB) {
	t.Helper()
	r, b, k := &q.req, &q.req.board, &q.resp.kept
	if q.State() == ib.QPErr {
		if k.count != 0 || k.bytes != 0 || q.NextTimeout() != monotime.Never {
			t.Fatalf("in ERR %d requests are kept, and a timer is set", k.count)
		}
		return
	}
	if r.una.After(r.next) || r.next.After(r.max) || r.known.Before(r.una) || r.known.After(r.max) {
		t.Fatalf("una %v, known %v, next %v, max %v", r.una, r.known, r.next, r.max)
	}
	if b.inUse() {
		if b.executed.Before(r.una) || b.upper.Before(b.executed) || b.upper.After(r.max) {
			t.Fatalf("una %v, executed %v, upper %v, max %v", r.una, b.executed, b.upper, r.max)
		}
		b.check(t, r.una)
	}
	end := r.una
	for i, e := range r.reads {
		if e.last.Before(end) || e.last.Before(e.first) || i > 0 && e.first.Before(end) {
			t.Fatalf("READ %d of PSNs %v to %v, those before end at %v", i, e.first, e.last, end)
		}
		end = e.last.Add(1)
	}
	if n := int(q.Attr.MaxRdAtomic); len(r.reads) > n || end.After(r.max) {
		t.Fatalf("%d READs of %d; the last ends at %v, max %v", len(r.reads), n, end, r.max)
	}
	if out := r.outstanding(); r.una != r.max && r.rnrTimer == monotime.Never &&
		r.timer == monotime.Never && out > 0 {
		t.Fatalf("%d PSNs are outstanding, and no timer is set", out)
	}
	count, bytes, at := 0, len(k.slots)*slotBytes, q.resp.epsn
	for _, e := range k.slots {
		if e != nil {
			count, bytes = count+1, bytes+e.bytes
			if d := e.packet.PSN.Diff(at); d < 0 || int(d) >= len(k.slots) {
				t.Fatalf("%v is kept, %v is expected", e.packet.PSN, at)
			}
		}
	}
	if count != k.count || bytes != k.bytes || len(k.gaps) > maxGaps+1 || len(k.slots) > maxKept {
		t.Fatalf("%d requests kept of %d bytes, counted %d, %d; %d gaps, %d slots", count, bytes,
			k.count, k.bytes, len(k.gaps), len(k.slots))
	}
	if len(q.resp.out) > maxResponses || len(q.resp.saved) > int(q.Attr.MaxDestRdAtomic) {
		t.Fatalf("%d responses, %d saved", len(q.resp.out), len(q.resp.saved))
	}
}

// Sent is a request that was sent, or a part of one: what an honest responder answers.
type Sent struct {
	First, Last  ib.PSN
	MSN          ib.MSN
	Read, Atomic bool
	wqe          *queue.SendWQE
	mtu          int
}

// Bytes returns how many bytes of a READ the response at psn has.
func (s *Sent) Bytes(psn ib.PSN) int {
	return min(int(s.wqe.Length)-int(psn.Diff(s.wqe.FirstPSN))*s.mtu, s.mtu)
}

// Outstanding returns the requests without a whole answer, in their order.
func (q *QP) Outstanding() (list []Sent) {
	r := &q.req
	for i := q.SQ.Head(); i < q.SQ.Tail(); i++ {
		w := q.SQ.AtAbs(i)
		if w.State != wqeSent {
			continue
		}
		for _, e := range r.reads {
			if e.wqe == i {
				list = append(list, Sent{First: e.first, Last: e.last, Read: true,
					Atomic: w.Opcode != ib.WRRDMARead, wqe: w, mtu: q.MTU})
			}
		}
		last := w.LastPSN
		if !last.Before(r.max) {
			last = r.max.Prev()
		}
		if !isRead(w.Opcode) && !last.Before(w.FirstPSN) {
			list = append(list, Sent{First: w.FirstPSN, Last: last, MSN: w.MSN})
		}
	}
	return list
}

// SpanBytes has the window grow to most bytes, and returns how much the responder may have to keep
// behind the oldest missing PSN.
func (q *QP) SpanBytes(most int) int {
	const trip = 200 * monotime.Millisecond
	for now, l := monotime.Time(0), &q.req.loss; l.Bytes() < most; now = now.Add(trip) {
		l.Sample(now, trip, l.Bytes(), true)
		l.Acked(now, l.Bytes())
	}
	q.req.ordered = q.req.una.Add(1)
	n := q.spanPackets()
	return n*(q.MTU+requestBytes) + 2*n*slotBytes
}
