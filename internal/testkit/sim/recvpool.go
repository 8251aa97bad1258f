// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"verbena/ib"
	"verbena/internal/qp"
	"verbena/internal/queue"
)

// recvPool is the receives of one endpoint, or of all that share a queue.
type recvPool struct {
	owner  *endpoint // nil if shared
	area   *area
	rq     *queue.RecvQueue
	srq    *queue.SRQ
	pieces []piece // by work request number
	used   []bool
	posted int
	bytes  int // of each receive
	done   int // own queue: receives complete in this order
}

const (
	cqDepth  = 256 // no endpoint gets more receives than this
	poolArea = 48 << 10
)

// newRecvPool returns the pool of one endpoint. UC and UD lose messages without a posted receive,
// so they have room for all from the start.
func newRecvPool(e *endpoint, a *area) *recvPool {
	depth := rqDepth
	if !reliable(e.typ) {
		depth = cqDepth
	}
	return &recvPool{owner: e, area: a, rq: queue.NewRecvQueue(depth, 8)}
}

// newShared returns a pool with memory of its own.
func (w *world) newShared(n *node) *recvPool {
	a := &arena{bytes: make([]byte, poolArea+2*guardBytes)}
	w.fill(a.bytes)
	w.arenas = append(w.arenas, a)
	return &recvPool{area: a.newArea(n.mem, ib.AccessLocalWrite),
		srq: queue.NewSRQ(rqDepth, 8, nil)}
}

func (p *recvPool) source() qp.RecvSource {
	if p.srq != nil {
		return p.srq
	}
	return p.rq
}

// reserve plans n more receives of the pool's size, as far as memory goes, and
// returns how many.
func (p *recvPool) reserve(n int) int {
	for i := range n {
		b, ok := p.area.take(p.bytes)
		if !ok || len(p.pieces) == cqDepth {
			return i
		}
		p.pieces = append(p.pieces, b)
		p.used = append(p.used, false)
	}
	return n
}

// post posts up to n planned receives.
func (p *recvPool) post(w *world, n int) {
	for ; n > 0 && p.posted < len(p.pieces); n-- {
		b := p.pieces[p.posted]
		cut := 0
		if b.n > 0 {
			cut = w.rnd(b.n)
		}
		list := []ib.SGE{b.part(0, cut).sge(), b.part(cut, b.n).sge()}
		if p.srq != nil {
			if p.srq.Post(uint64(p.posted), list) != nil {
				return
			}
		} else {
			r, ok := p.rq.Reserve()
			if !ok {
				return
			}
			r.WRID, r.Length, r.SGE = uint64(p.posted), uint32(b.n), append(r.SGE, list...)
			p.rq.Commit()
			p.owner.machine.Doorbell(w.net.Now())
		}
		p.posted++
	}
}
