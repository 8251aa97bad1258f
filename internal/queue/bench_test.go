// SPDX-License-Identifier: BSD-2-Clause

package queue

import (
	"testing"

	"verbena/ib"
)

func TestNoAllocations(t *testing.T) {
	sq, rq, srq, cq := NewSendQueue(16, 4, 64), NewRecvQueue(16, 4), NewSRQ(16, 4, nil), NewCQ(16)
	sq.Reserve()
	rq.Reserve()
	sge := make([]ib.SGE, 4)
	if err := srq.Post(1, sge); err != nil {
		t.Fatal(err)
	}
	recv := RecvWQE{SGE: make([]ib.SGE, 0, 4)}
	data := make([]byte, 64)
	wcs := make([]ib.WC, 4)
	wc := ib.WC{WRID: 1}
	for what, f := range map[string]func(){
		"send": func() {
			w, _ := sq.Reserve()
			w.SGE, w.Inline = append(w.SGE, sge...), append(w.Inline, data...)
			sq.Commit()
			sq.AtAbs(sq.Head()).Sent++
			sq.PopFront()
		},
		"receive": func() {
			postRecv(rq, 1, sge)
			rq.Pop(&recv)
		},
		"shared receive": func() {
			if err := srq.Post(1, sge); err != nil {
				t.Error(err)
			}
			srq.Pop(&recv)
		},
		"completion": func() {
			cq.Arm(true)
			cq.Push(&wc, true)
			cq.Poll(wcs)
		},
		"empty poll": func() { cq.Poll(wcs) },
	} {
		if n := testing.AllocsPerRun(200, f); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
}

func BenchmarkSendQueue(b *testing.B) {
	q := NewSendQueue(16, 4, 64)
	b.ReportAllocs()
	for b.Loop() {
		w, _ := q.Reserve()
		w.SGE = append(w.SGE, ib.SGE{Length: 1})
		q.Commit()
		q.PopFront()
	}
}

func BenchmarkRecvQueue(b *testing.B) {
	q := NewRecvQueue(16, 4)
	sge := make([]ib.SGE, 1)
	var dst RecvWQE
	b.ReportAllocs()
	for b.Loop() {
		postRecv(q, 1, sge)
		q.Pop(&dst)
	}
}

func BenchmarkCQPushPoll(b *testing.B) {
	q := NewCQ(64)
	var wc ib.WC
	dst := make([]ib.WC, 1)
	b.ReportAllocs()
	for b.Loop() {
		// as machines make them, field by field
		wc = ib.WC{Opcode: ib.WCRecv, ByteLen: 8, SrcQP: 5}
		wc.WRID, wc.QPN = 1, 7
		q.Push(&wc, false)
		q.Poll(dst)
	}
}

// A batch shares the cost of the poller's lock.
func BenchmarkCQPushPoll16(b *testing.B) {
	q := NewCQ(64)
	wc := ib.WC{WRID: 1}
	dst := make([]ib.WC, 16)
	for b.Loop() {
		for range 16 {
			q.Push(&wc, false)
		}
		q.Poll(dst)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/16, "ns/completion")
}

func BenchmarkCQEmptyPoll(b *testing.B) {
	q := NewCQ(64)
	dst := make([]ib.WC, 16)
	for b.Loop() {
		q.Poll(dst)
	}
}
