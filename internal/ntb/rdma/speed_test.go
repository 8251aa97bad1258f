// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"testing"

	"verbena/ib"
	"verbena/internal/qp"
)

var _ qp.Machine = (*QP)(nil)

// ring is a completion queue that forgets.
type ring struct{ n int }

func (r *ring) Push(*ib.WC, bool) bool { r.n++; return true }

func (e *end) postQuietly(op ib.WROpcode, n, at int, to *end) {
	s, _ := e.sq.Reserve()
	s.Opcode, s.Length, s.RemoteAddr, s.RKey = op, uint32(n), base+uint64(at), to.mr.RKey()
	s.SGE = append(s.SGE, e.sge(0, n))
	e.sq.Commit()
}

// Both ends run on one thread: the cost of the two machines, with the copies into the window and
// out of it.
func benchmark(b *testing.B, op ib.WROpcode, n, depth int) {
	p := newPair(b, func(o *options) { o.windowBytes = 8 << 20; o.attr.MaxRdAtomic = 16 })
	x, y := p.connected(0x11)
	c := &ring{}
	x.q.SendCQ = c
	b.SetBytes(int64(n))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		x.postQuietly(op, n, 1<<19, y)
		if (i+1)%depth == 0 {
			x.q.Doorbell(p.now)
			for p.step() {
			}
		}
	}
	if x.q.State() != ib.QPRTS || c.n == 0 && b.N > depth {
		b.Fatal(x.q.State(), c.n)
	}
}

func BenchmarkWrite8(b *testing.B)        { benchmark(b, ib.WRRDMAWrite, 8, 1) }
func BenchmarkWrite8Batch(b *testing.B)   { benchmark(b, ib.WRRDMAWrite, 8, 16) }
func BenchmarkWrite64K(b *testing.B)      { benchmark(b, ib.WRRDMAWrite, 64<<10, 4) }
func BenchmarkRead64K(b *testing.B)       { benchmark(b, ib.WRRDMARead, 64<<10, 4) }
func BenchmarkFetchAddAlone(b *testing.B) { benchmark(b, ib.WRAtomicFetchAndAdd, 8, 1) }
