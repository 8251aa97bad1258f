// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"verbena/ib"
	"verbena/verbs"
)

// BenchmarkNTBWrite keeps a window of WRITEs to memory in the peer's window
// outstanding; both ends are this thread's.
func BenchmarkNTBWrite(b *testing.B) {
	for _, n := range []int{8, 4096, 65536, 1 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x, y := ntbEnds(b, "shm", n)
			y.inWindow()
			flood := newFlood(x, y, n)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				flood.one(b)
			}
			flood.finish(b)
		})
	}
}

// flood is a queue pair that is kept busy with WRITEs.
type flood struct {
	x            *end
	wr           []verbs.SendWR
	wc           []ib.WC
	posted, done int
}

func newFlood(x, y *end, n int) *flood {
	f := &flood{x: x, wc: make([]ib.WC, 64)}
	f.wr = []verbs.SendWR{{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{x.mr.SGE(0, n)}, RemoteAddr: y.mr.Addr(), RKey: y.mr.RKey()}}
	return f
}

func (f *flood) one(t testing.TB) {
	for f.posted-f.done >= 64 {
		f.poll(t)
	}
	if _, err := f.x.qp.PostSend(f.wr...); err != nil {
		t.Fatal(err)
	}
	f.posted++
}

func (f *flood) poll(t testing.TB) {
	k, err := f.x.cq.Poll(f.wc) // of both ends: they have one engine
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.wc[:k] {
		if f.wc[i].Status != ib.WCSuccess {
			t.Fatalf("%+v", f.wc[i])
		}
	}
	f.done += k
}

func (f *flood) finish(t testing.TB) {
	for f.done < f.posted {
		f.poll(t)
	}
}

// BenchmarkNTBPingPong is two WRITEs of 8 bytes, one after the other, each end looking
// at its memory for the other's.
func BenchmarkNTBPingPong(b *testing.B) {
	x, y := ntbEnds(b, "shm", 64)
	x.inWindow()
	y.inWindow()
	ends := [2]*flood{newFlood(x, y, 8), newFlood(y, x, 8)}
	var sent, come [2]*uint64
	for i, e := range []*end{x, y} {
		sent[i], come[i] = e.word(0), e.word(8)
		ends[i].wr[0].RemoteAddr += 8
	}
	n := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		n++
		for side, f := range ends {
			*sent[side] = n
			if _, err := f.x.qp.PostSend(f.wr...); err != nil {
				b.Fatal(err)
			}
			f.posted++
			for atomic.LoadUint64(come[1-side]) != n {
				f.poll(b)
			}
			f.poll(b)
		}
	}
	for _, f := range ends {
		f.finish(b)
	}
}

// BenchmarkNTBPost measures a post and an empty poll where neither waits for anything.
func BenchmarkNTBPost(b *testing.B) {
	x, y := ntbEnds(b, "shm", 64)
	y.inWindow()
	f := newFlood(x, y, 8)
	for x.counter("sent_placed_bytes") == 0 { // the peer has not granted it yet
		f.one(b)
		f.finish(b)
	}
	for name, wr := range map[string]verbs.SendWR{
		"inline": {Opcode: ib.WRRDMAWrite, Flags: ib.SendInline, Inline: make([]byte, 8), RemoteAddr: y.mr.Addr(), RKey: y.mr.RKey()},
		"region": {Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{x.mr.SGE(0, 8)}, RemoteAddr: y.mr.Addr(), RKey: y.mr.RKey()},
	} {
		list := []verbs.SendWR{wr}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := x.qp.PostSend(list...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("poll", func(b *testing.B) {
		for b.Loop() {
			if _, err := x.cq.Poll(f.wc); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkNTBSends is a SEND of 8 bytes by one end and the other in turns: posted, received
// and its receive posted again by one thread.
func BenchmarkNTBSends(b *testing.B) {
	x, y := ntbEnds(b, "shm", 64)
	ends := [2]*end{x, y}
	wr := []verbs.SendWR{{Opcode: ib.WRSend, Flags: ib.SendSignaled}}
	wc := make([]ib.WC, 16)
	var recv [2][]verbs.RecvWR
	var list [2][]ib.SGE
	for i, e := range ends {
		list[i] = []ib.SGE{e.mr.SGE(0, 8)}
		recv[i] = []verbs.RecvWR{{SGList: []ib.SGE{e.mr.SGE(0, 64)}}}
		_, err := e.qp.PostRecv(recv[i]...)
		check(b, err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		to := 1 - i&1
		wr[0].SGList = list[i&1]
		if _, err := ends[i&1].qp.PostSend(wr...); err != nil {
			b.Fatal(err)
		}
		for come := false; !come; {
			k, err := ends[to].cq.Poll(wc)
			if err != nil {
				b.Fatal(err)
			}
			for j := range wc[:k] {
				come = come || wc[j].Opcode == ib.WCRecv
			}
		}
		if _, err := ends[to].qp.PostRecv(recv[to]...); err != nil {
			b.Fatal(err)
		}
	}
}

// TestNTBAllocatesNothing posts and completes.
func TestNTBAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates: run without -race")
	}
	x, y := ntbEnds(t, "shm", 1<<17)
	for _, window := range []bool{false, true} {
		if window {
			y.inWindow()
		}
		for _, n := range []int{8, 4096, 1 << 17} {
			f := newFlood(x, y, n)
			for range 200 {
				f.one(t)
			}
			if a := testing.AllocsPerRun(500, func() { f.one(t); f.finish(t) }); a != 0 {
				t.Errorf("a WRITE of %d bytes, window %v: %v allocations", n, window, a)
			}
		}
	}
}
