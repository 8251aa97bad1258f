// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"fmt"
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/queue"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	wire "verbena/internal/wire/roce"
)

// wired connects two machines back to back: each takes the other's output, without sockets and
// without waiting.
type wired struct {
	a, b  *end
	burst *roce.Burst
	flat  []byte
	now   monotime.Time
	cut   uint32 // bytes of the first entry of a list; 0: there is one entry
	runs  bool   // packets are taken in runs, as a port takes them
}

type end struct {
	qp  *rc.QP
	sq  *queue.SendQueue
	rq  *queue.RecvQueue
	cq  *queue.CQ
	buf []byte
	mem *mem.Table
	mr  *mem.Region
}

const (
	speedPD  mem.PD = 1
	speedVA  uint64 = 0x1000
	speedBuf        = 1 << 20
)

func newWired(tb testing.TB, mtu ib.MTU) *wired {
	w := &wired{burst: roce.NewBurst(), flat: make([]byte, 0, 1<<17)}
	addr := [2]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}
	var ends [2]*end
	for i := range ends {
		seed := uint32(i)
		t := mem.NewTable(func() uint32 { seed = seed*1664525 + 1013904223; return seed })
		e := &end{mem: t, sq: queue.NewSendQueue(128, 4, 64), rq: queue.NewRecvQueue(128, 4), cq: queue.NewCQ(512), buf: make([]byte, speedBuf)}
		var err error
		if e.mr, err = t.Register(speedPD, e.buf, speedVA, ib.AccessLocalWrite|ib.AccessRemote); err != nil {
			tb.Fatal(err)
		}
		e.qp = rc.New(roce.Config{QPN: ib.QPN(0x11 + i), PD: speedPD, Mem: t, SQ: e.sq, RQ: e.rq, SendCQ: e.cq, RecvCQ: e.cq})
		a := ib.QPAttr{
			PathMTU: mtu, DestQPN: ib.QPN(0x12 - i), AccessFlags: ib.AccessRemote, RQPSN: 1, SQPSN: 1,
			MaxRdAtomic: 16, MaxDestRdAtomic: 16, Timeout: 14, RetryCnt: 7, RNRRetry: 7,
		}
		path := roce.NewPath(addr[i], 0xc000, &ib.GRH{DGID: ib.GIDFromAddr(addr[1-i])})
		for s := ib.QPInit; s <= ib.QPRTS; s++ {
			a.State = s
			mask := ib.QPStateAttr
			if s == ib.QPRTR {
				mask = ^ib.QPEnSQDAsyncNotify
			}
			e.qp.Modify(0, &a, mask, path)
		}
		ends[i] = e
	}
	w.a, w.b = ends[0], ends[1]
	return w
}

// run carries packets both ways until neither end has any.
func (w *wired) run() {
	for w.carry(w.a, w.b) || w.carry(w.b, w.a) {
	}
}

func (w *wired) carry(from, to *end) bool {
	any := false
	var p wire.Packet
	for from.qp.PollOutput(w.now, w.burst) {
		any = true
		w.burst.Seal()
		w.flat = w.flat[:0]
		for _, v := range w.burst.Iov() {
			w.flat = append(w.flat, v...)
		}
		path := w.burst.Path()
		meta := roce.Meta{Src: path.Src, Dst: path.Dst, SrcPort: path.SrcPort}
		size := w.burst.SegmentBytes()
		for i, b := 0, w.flat; len(b) > 0; {
			n := min(len(b), size)
			if p.Parse(b[:n]) != wire.WellFormed || !path.Pseudo.VerifyWithID(b[:n], uint16(i)) {
				panic("bad packet")
			}
			k := 1
			for w.runs && p.Info.Middle && len(b) >= (k+1)*n && wire.Follows(b[k*n:], b[(k-1)*n:]) {
				if !path.Pseudo.VerifyWithID(b[k*n:(k+1)*n], uint16(i+k)) {
					panic("bad packet in a run")
				}
				k++
			}
			if k > 1 {
				to.qp.HandleRun(w.now, &p, &meta, roce.Run{Data: b[:k*n], Bytes: n})
			} else {
				to.qp.HandleInput(w.now, &p, &meta)
			}
			b, i = b[k*n:], i+k
		}
		w.burst.Reset()
	}
	// A lone acknowledgement may wait a little for company.
	if at := from.qp.NextTimeout(); !any && to.sq.Len() > 0 && at != monotime.Never && at < w.now.Add(monotime.Millisecond) {
		w.now = max(w.now, at)
		from.qp.HandleTimeout(w.now)
		return true
	}
	return any
}

func (w *wired) post(op ib.WROpcode, n uint32) {
	s, ok := w.a.sq.Reserve()
	if !ok {
		panic("full")
	}
	s.Opcode, s.Length, s.Flags = op, n, ib.SendSignaled
	s.SGE = w.list(s.SGE, w.a, n)
	s.RemoteAddr, s.RKey = speedVA, w.b.mr.RKey()
	w.a.sq.Commit()
}

// list appends n bytes of an end's memory.
func (w *wired) list(l []ib.SGE, e *end, n uint32) []ib.SGE {
	g := ib.SGE{Addr: speedVA, Length: n, LKey: e.mr.LKey()}
	if w.cut == 0 || w.cut >= n {
		return append(l, g)
	}
	first := g
	first.Length = w.cut
	g.Addr, g.Length = g.Addr+uint64(w.cut), n-w.cut
	return append(l, first, g)
}

func (w *wired) postRecv(n uint32) {
	r, ok := w.b.rq.Reserve()
	if !ok {
		panic("full")
	}
	r.SGE, r.Length = w.list(r.SGE, w.b, n), n
	w.b.rq.Commit()
}

// once is a whole exchange: post, send, execute, acknowledge, complete, poll.
func (w *wired) once(op ib.WROpcode, n uint32) {
	var wc [4]ib.WC
	if op == ib.WRSend {
		w.postRecv(n)
	}
	w.post(op, n)
	w.a.qp.Doorbell(w.now)
	w.run()
	if got := w.a.cq.Poll(wc[:]); got != 1 || wc[0].Status != ib.WCSuccess {
		panic("no completion")
	}
	w.b.cq.Poll(wc[:])
}

// TestNoAllocations: nothing from posting to polling allocates, on either side.
func TestNoAllocations(t *testing.T) {
	for _, runs := range []bool{false, true} {
		noAllocations(t, runs)
	}
}

func noAllocations(t *testing.T, runs bool) {
	w := newWired(t, ib.MTU1024)
	w.runs = runs
	for name, c := range map[string]struct {
		op ib.WROpcode
		n  uint32
	}{
		"WRITE 8 B": {ib.WRRDMAWrite, 8}, "WRITE 64 KiB": {ib.WRRDMAWrite, 64 << 10}, "SEND 2 B": {ib.WRSend, 2}, "SEND 10 KiB": {ib.WRSend, 10 << 10},
		"READ 8 B": {ib.WRRDMARead, 8}, "READ 64 KiB": {ib.WRRDMARead, 64 << 10}, "fetch-and-add": {ib.WRAtomicFetchAndAdd, 8},
		"compare-and-swap": {ib.WRAtomicCmpAndSwp, 8}, "ATOMIC WRITE": {ib.WRAtomicWrite, 8},
	} {
		for range 10 {
			w.once(c.op, c.n)
		}
		if n := testing.AllocsPerRun(100, func() { w.once(c.op, c.n) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func benchmark(b *testing.B, op ib.WROpcode, n uint32, mtu ib.MTU) {
	w := newWired(b, mtu)
	b.SetBytes(int64(n))
	b.ReportAllocs()
	for b.Loop() {
		w.once(op, n)
	}
}

// BenchmarkTake has a receiver take messages of 64 KiB: their packets one by one, or in runs.
func BenchmarkTake(b *testing.B) {
	for _, op := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRSend, ib.WRRDMARead} {
		for _, runs := range []bool{false, true} {
			b.Run(fmt.Sprintf("%v/runs=%v", op, runs), func(b *testing.B) {
				w := newWired(b, ib.MTU1024)
				w.runs = runs
				b.ReportAllocs()
				for b.Loop() {
					w.once(op, 64<<10)
				}
			})
		}
	}
}

func BenchmarkWrite8(b *testing.B)   { benchmark(b, ib.WRRDMAWrite, 8, ib.MTU4096) }
func BenchmarkWrite64K(b *testing.B) { benchmark(b, ib.WRRDMAWrite, 64<<10, ib.MTU4096) }
func BenchmarkSend8(b *testing.B)    { benchmark(b, ib.WRSend, 8, ib.MTU4096) }
func BenchmarkRead64K(b *testing.B)  { benchmark(b, ib.WRRDMARead, 64<<10, ib.MTU4096) }
func BenchmarkFetchAdd(b *testing.B) { benchmark(b, ib.WRAtomicFetchAndAdd, 8, ib.MTU4096) }

// BenchmarkWrite8Deep keeps 64 WRITEs outstanding.
func BenchmarkWrite8Deep(b *testing.B) {
	w := newWired(b, ib.MTU4096)
	var wc [64]ib.WC
	b.ReportAllocs()
	for i := 0; i < b.N; i += 64 {
		for range 64 {
			w.post(ib.WRRDMAWrite, 8)
		}
		w.a.qp.Doorbell(w.now)
		w.run()
		if w.a.cq.Poll(wc[:]) != 64 {
			b.Fatal("completions missing")
		}
	}
}
