// SPDX-License-Identifier: BSD-2-Clause

package uc_test

import (
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/queue"
	"verbena/internal/roce"
	"verbena/internal/roce/uc"
	wire "verbena/internal/wire/roce"
)

// loop is a queue pair that talks to itself.
type loop struct {
	qp    *uc.QP
	sq    *queue.SendQueue
	rq    *queue.RecvQueue
	cq    *queue.CQ
	mr    *mem.Region
	burst *roce.Burst
	flat  []byte
}

func newLoop(tb testing.TB) *loop {
	l := &loop{
		sq: queue.NewSendQueue(16, 2, 0), rq: queue.NewRecvQueue(16, 2), cq: queue.NewCQ(64), burst: roce.NewBurst(), flat: make([]byte, 0, 1<<17),
	}
	seed := uint32(1)
	t := mem.NewTable(func() uint32 { seed = seed*1664525 + 1013904223; return seed })
	var err error
	if l.mr, err = t.Register(1, make([]byte, 1<<17), 0x1000, ib.AccessLocalWrite|ib.AccessRemoteWrite); err != nil {
		tb.Fatal(err)
	}
	l.qp = uc.New(roce.Config{QPN: 0x11, PD: 1, Mem: t, SQ: l.sq, RQ: l.rq, SendCQ: l.cq, RecvCQ: l.cq})
	me := netip.MustParseAddr("192.0.2.1")
	for s := ib.QPInit; s <= ib.QPRTS; s++ {
		mask := ib.QPStateAttr
		if s == ib.QPRTR {
			mask = ^ib.QPEnSQDAsyncNotify
		}
		l.qp.Modify(0, &ib.QPAttr{State: s, PathMTU: ib.MTU4096, DestQPN: 0x11, AccessFlags: ib.AccessRemoteWrite}, mask,
			roce.NewPath(me, 0xc000, &ib.GRH{DGID: ib.GIDFromAddr(me)}))
	}
	return l
}

// once posts a message of n bytes, carries it round and polls.
func (l *loop) once(op ib.WROpcode, n uint32) {
	sge := ib.SGE{Addr: 0x1000, Length: n, LKey: l.mr.LKey()}
	want := 1
	if op == ib.WRSend {
		want = 2
		r, _ := l.rq.Reserve()
		r.SGE, r.Length = append(r.SGE, sge), n
		l.rq.Commit()
	}
	w, _ := l.sq.Reserve()
	w.Opcode, w.Length, w.Flags, w.RemoteAddr, w.RKey, w.SGE = op, n, ib.SendSignaled, 0x1000, l.mr.RKey(), append(w.SGE, sge)
	l.sq.Commit()
	l.qp.Doorbell(0)
	var p wire.Packet
	for l.qp.PollOutput(0, l.burst) {
		l.burst.Seal()
		l.flat = l.flat[:0]
		for _, v := range l.burst.Iov() {
			l.flat = append(l.flat, v...)
		}
		path := l.burst.Path()
		for b := l.flat; len(b) > 0; {
			k := min(len(b), l.burst.SegmentBytes())
			p.Parse(b[:k])
			l.qp.HandleInput(0, &p, &roce.Meta{Src: path.Src, Dst: path.Dst})
			b = b[k:]
		}
		l.burst.Reset()
	}
	var wc [4]ib.WC
	if l.cq.Poll(wc[:]) != want {
		panic("completions missing")
	}
}

// TestNoAllocations: nothing from posting to polling allocates.
func TestNoAllocations(t *testing.T) {
	l := newLoop(t)
	for _, op := range []ib.WROpcode{ib.WRSend, ib.WRRDMAWrite} {
		for _, n := range []uint32{8, 64 << 10} {
			l.once(op, n)
			if a := testing.AllocsPerRun(100, func() { l.once(op, n) }); a != 0 {
				t.Errorf("%v of %d bytes: %v allocations", op, n, a)
			}
		}
	}
}

func BenchmarkWrite64K(b *testing.B) {
	l := newLoop(b)
	b.SetBytes(64 << 10)
	b.ReportAllocs()
	for b.Loop() {
		l.once(ib.WRRDMAWrite, 64<<10)
	}
}
