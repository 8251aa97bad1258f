// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"testing"

	"verbena/ib"
)

// ring is a completion queue that forgets.
type ring struct{ n int }

func (r *ring) Push(*ib.WC, bool) bool { r.n++; return true }

// ends returns two ends whose completions are only counted. carry takes one work request from one
// to the other; only the machines copy bytes.
func speedPair(t testing.TB, o options) (a, b *end, step func()) {
	a, b = newEnd(t, "a", o, true), newEnd(t, "bb", o, false)
	a.s.SendCQ, b.s.RecvCQ, b.s.SendCQ, a.s.RecvCQ = &ring{}, &ring{}, &ring{}, &ring{}
	move := func(from, to *end) {
		for from.s.PollOutput(0, from.burst) {
			n := from.burst.Bytes()
			for _, p := range from.burst.Iov() {
				to.s.HandleInput(0, p)
			}
			from.burst.Reset()
			from.s.HandleWritten(0, n)
		}
	}
	return a, b, func() {
		move(a, b)
		move(b, a)
	}
}

// TestDataPathDoesNotAllocate posts, sends, places and completes.
func TestDataPathDoesNotAllocate(t *testing.T) {
	a, b, step := speedPair(t, defaults())
	run := func(name string, post func()) {
		post()
		step()
		if n := testing.AllocsPerRun(100, func() { post(); step() }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	sge := []ib.SGE{a.sge(0, 5000)}
	request := func(op ib.WROpcode, n uint32) {
		w, _ := a.sq.Reserve()
		w.Opcode, w.Length, w.SGE, w.RemoteAddr, w.RKey = op, n, append(w.SGE, ib.SGE{Addr: base, Length: n, LKey: sge[0].LKey}), base, b.mr.RKey()
		a.sq.Commit()
		a.s.Doorbell(0)
	}
	recv := []ib.SGE{b.sge(6000, 5000)}
	run("WRITE", func() { request(ib.WRRDMAWrite, 5000) })
	run("READ", func() { request(ib.WRRDMARead, 5000) })
	run("FETCH_ADD", func() { request(ib.WRAtomicFetchAndAdd, 8) })
	run("SEND", func() { b.postRecv(1, recv[0]); request(ib.WRSend, 5000) })
	if a.s.State() != ib.QPRTS || b.s.State() != ib.QPRTS {
		t.Errorf("%v, %v", a.s.State(), b.s.State())
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, crc := range []bool{false, true} {
		for _, mss := range []int{1448, 65483} {
			b.Run(name("crc", crc, "mss", mss), func(b *testing.B) {
				o := defaults()
				o.crc, o.mss = crc, mss
				x, y, step := speedPair(b, o)
				const n = 1 << 18
				b.SetBytes(n)
				b.ReportAllocs()
				for b.Loop() {
					w, _ := x.sq.Reserve()
					w.Opcode, w.Length, w.SGE, w.RemoteAddr, w.RKey = ib.WRRDMAWrite, n, append(w.SGE, x.sge(0, n)), base, y.mr.RKey()
					x.sq.Commit()
					step()
				}
			})
		}
	}
}
