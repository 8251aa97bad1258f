// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"bytes"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce/rc"
	"verbena/internal/simnet"
	"verbena/internal/testkit/oracle"
)

// weather is the quality of the network.
type weather int

const (
	calm  weather = iota // nothing goes wrong
	mild                 // a few packets of a hundred
	storm                // many, and hosts are parted: retries may run out
)

// build makes up a scenario from the seed.
func (w *world) build() {
	sky := weather(w.rnd(3))
	w.net.Faults = w.faults(sky)
	w.calm, w.lenient = sky == calm, sky == storm
	for range 2 + w.rnd(2) {
		n := w.newNode()
		if w.rnd(4) == 0 {
			n.srq = w.newShared(n)
		}
	}
	qpn := ib.QPN(0x11)
	number := func() ib.QPN { qpn++; return qpn }
	for range 1 + w.rnd(2) {
		w.buildPair(ib.QPTypeRC, ib.QPTypeRC, number)
	}
	if w.rnd(2) == 0 {
		w.buildPair(ib.QPTypeUC, ib.QPTypeUC, number)
	}
	for range w.rnd(3) {
		w.buildPair(ib.QPTypeXRCSend, ib.QPTypeXRCRecv, number)
	}
	for range 2 * w.rnd(2) {
		e := w.newEndpoint(w.anyNode(), ib.QPTypeUD, number(), ib.MTU256)
		w.datagrams = append(w.datagrams, e)
		e.connect(nil, ib.QPAttr{QKey: qkey, SQPSN: w.psn()})
	}
	for _, e := range w.endpoints {
		if e.typ != ib.QPTypeXRCRecv {
			e.makePlan(5 + w.rnd(30))
		}
	}
	w.plantWindows()
	w.plantError()
	w.planReceives()
	w.seal()
	w.plantTrouble(sky)
	for _, e := range w.endpoints {
		if !reliable(e.typ) && e.pool.srq == nil {
			e.pool.post(w, cqDepth)
		}
	}
	for _, e := range w.endpoints {
		w.net.After(monotime.Duration(w.rnd(int(monotime.Millisecond))), e.tick)
	}
}

func (w *world) faults(sky weather) simnet.Faults {
	f := simnet.Faults{Delay: monotime.Duration(1+w.rnd(50)) * monotime.Microsecond}
	switch sky {
	case mild:
		f.Loss, f.Duplicate, f.Reorder, f.BitFlip, f.Truncate = w.rnd(20), w.rnd(20), w.rnd(20),
			w.rnd(10), w.rnd(10)
		f.Jitter = monotime.Duration(1+w.rnd(200)) * monotime.Microsecond
	case storm:
		f.Loss, f.Duplicate, f.Reorder, f.BitFlip, f.Truncate = w.rnd(200), w.rnd(200), w.rnd(200),
			w.rnd(100), w.rnd(100)
		f.Jitter = monotime.Duration(1+w.rnd(5000)) * monotime.Microsecond
	}
	return f
}

func (w *world) anyNode() *node { return w.nodes[w.rnd(len(w.nodes))] }

// psn likes to wrap.
func (w *world) psn() ib.PSN {
	if w.rnd(2) == 0 {
		return ib.NewPSN(uint32(-w.rnd(20)))
	}
	return ib.NewPSN(w.net.Rand.Uint32())
}

func (w *world) buildPair(ta, tb ib.QPType, number func() ib.QPN) {
	mtu := ib.MTU256 + ib.MTU(w.rnd(2))
	a, b := w.newEndpoint(w.anyNode(), ta, number(), mtu), w.newEndpoint(w.anyNode(), tb,
		number(), mtu)
	depth := uint8(1 + w.rnd(8))
	at := ib.QPAttr{
		PathMTU: mtu, AccessFlags: targetAccess, MaxRdAtomic: depth, MaxDestRdAtomic: depth,
		MinRNRTimer: uint8(1 + w.rnd(14)), Timeout: uint8(10 + w.rnd(5)), RetryCnt: 7, RNRRetry: 7,
	}
	pa, pb := w.psn(), w.psn()
	at.SQPSN, at.RQPSN = pa, pb
	a.connect(b, at)
	at.SQPSN, at.RQPSN = pb, pa
	b.connect(a, at)
}

// plantWindows has some RC endpoints bind a window over their target, which
// the peer uses and sometimes invalidates.
func (w *world) plantWindows() {
	for _, e := range w.endpoints {
		if e.typ != ib.QPTypeRC || w.rnd(3) != 0 {
			continue
		}
		e.window, _ = e.node.mem.AllocWindow(domain, ib.MWType2)
		e.windowKey = e.window.RKey()&^0xff | ib.RKey(w.rnd(256))
		bind := &item{wr: oracle.WR{Opcode: ib.WRBindMW}, flags: ib.SendSignaled, to: e.peer}
		e.plan = append([]*item{bind}, e.plan...)
		e.number()

		p := e.peer
		until := len(p.plan)
		if w.rnd(2) == 0 && len(p.plan) > 2 {
			until = 1 + w.rnd(len(p.plan)-1)
			inv := &item{wr: oracle.WR{Opcode: ib.WRSendWithInv, InvKey: e.windowKey},
				flags: ib.SendFence, to: e}
			p.plan = append(p.plan[:until:until], append([]*item{inv}, p.plan[until:]...)...)
			p.number()
		}
		for _, it := range p.plan[:until] {
			if it.wr.Key != 0 && w.rnd(2) == 0 {
				it.wr.Key = e.windowKey
			}
		}
	}
}

// number gives the plan its work request numbers.
func (e *endpoint) number() {
	for i, it := range e.plan {
		it.wr.ID = uint64(i + 1)
	}
}

// plantError spoils one work request of a reliable endpoint, in some runs.
func (w *world) plantError() {
	if w.rnd(4) != 0 {
		return
	}
	for _, e := range w.endpoints {
		if !reliable(e.typ) || len(e.plan) == 0 || w.rnd(3) == 0 {
			continue
		}
		it := e.plan[w.rnd(len(e.plan))]
		switch it.wr.Opcode {
		case ib.WRBindMW, ib.WRSendWithInv, ib.WRSend, ib.WRSendWithImm:
			continue
		}
		switch t := it.to.target; w.rnd(3) {
		case 0:
			it.wr.Key ^= 0x1000
		case 1:
			it.wr.Addr = ^uint64(0) - 7 // and 8 bytes more wrap around
		case 2: // the last byte is one beyond
			it.wr.Addr = virtual + uint64(t.off+t.n) - uint64(max(len(it.wr.Data),
				int(it.wr.Length))) + 1
			if it.result.n == 8 || it.wr.Opcode == ib.WRAtomicWrite {
				it.wr.Addr = virtual + uint64(t.off+t.n) // an aligned word
			}
		}
		e.peer.exact = false // its queue pair ends with ours
		return
	}
}

// planReceives gives every message that takes a receive one, and some more.
func (w *world) planReceives() {
	want := map[*recvPool]int{}
	var pools []*recvPool
	for _, e := range w.endpoints {
		if want[e.pool] == 0 && e.typ != ib.QPTypeXRCSend {
			pools = append(pools, e.pool)
			want[e.pool] = 2
		}
	}
	for _, e := range w.endpoints {
		for _, it := range e.plan {
			if !it.consumes() {
				continue
			}
			p := it.to.pool
			want[p]++
			n := len(it.wr.Data)
			if it.to.typ == ib.QPTypeUD {
				n += grhBytes
			}
			p.bytes = max(p.bytes, n)
		}
	}
	for _, p := range pools {
		if got := p.reserve(want[p]); got < want[p] {
			w.trim(p, want[p]-got)
		}
	}
}

// trim takes messages out of the plans that the pool has no receives for.
func (w *world) trim(p *recvPool, n int) {
	for _, e := range w.endpoints {
		for i := len(e.plan) - 1; i >= 0 && n > 0; i-- {
			if it := e.plan[i]; it.consumes() && it.to.pool == p &&
				it.wr.Opcode != ib.WRSendWithInv {
				e.plan = append(e.plan[:i], e.plan[i+1:]...)
				n--
			}
		}
		if len(e.plan) > 0 {
			e.plan[len(e.plan)-1].flags |= ib.SendSignaled
		}
		e.number()
	}
}

// seal remembers all memory and asks the oracle for the outcome.
func (w *world) seal() {
	for _, e := range w.endpoints {
		e.mem.start = bytes.Clone(e.mem.bytes)
	}
	for _, a := range w.arenas {
		a.start = bytes.Clone(a.bytes)
	}
	for _, e := range w.endpoints {
		if e.peer != nil {
			e.consult()
		}
	}
}

// plantTrouble kills queue pairs, takes keys away and parts hosts.
func (w *world) plantTrouble(sky weather) {
	when := func() monotime.Time { return monotime.Time(w.rnd(int(faultyTime / 6))) }
	if sky == storm && w.rnd(2) == 0 {
		a, b := w.anyNode(), w.anyNode()
		from := when()
		w.net.At(from, func() { w.net.Part(a.addr, b.addr, true) })
		w.net.At(from.Add(monotime.Duration(w.rnd(int(50*monotime.Millisecond)))), func() {
			w.net.Part(a.addr, b.addr, false)
		})
	}
	e := w.endpoints[w.rnd(len(w.endpoints))]
	switch w.rnd(8) {
	case 0:
		w.net.At(when(), e.kill)
	case 1:
		w.net.At(when(), e.destroy)
	case 2:
		if e.window == nil && e.typ != ib.QPTypeUD {
			w.net.At(when(), e.revoke)
		}
	case 3, 4:
		from := when()
		w.net.At(from, func() { e.modify(ib.QPRTS, ib.QPSQD) })
		w.net.At(from.Add(monotime.Duration(w.rnd(int(5*monotime.Millisecond)))), func() {
			e.modify(ib.QPSQD, ib.QPRTS)
		})
	case 5:
		if e.typ == ib.QPTypeXRCRecv {
			w.net.At(when(), e.destroySRQ)
		}
	}
}

// modify changes the state, if it is from: draining a send queue and going on does not change the
// outcome.
func (e *endpoint) modify(from, to ib.QPState) {
	if e.gone || e.state != from {
		return
	}
	e.machine.Modify(e.world.net.Now(), &ib.QPAttr{State: to, EnSQDAsyncNotify: true},
		ib.QPStateAttr|ib.QPEnSQDAsyncNotify, nil)
	e.pump()
}

// inexact says that the oracle cannot know how e and its peer end.
func (e *endpoint) inexact() {
	e.exact, e.sure = false, false
	if e.peer != nil {
		e.peer.exact, e.peer.sure = false, false
		return
	}
	for _, d := range e.world.datagrams { // a node that is gone sends nobody anything
		d.sure = false
	}
}

func (e *endpoint) kill() {
	if e.gone || e.state == ib.QPErr {
		return
	}
	e.inexact()
	e.world.Outcomes.Kills++
	e.machine.Modify(e.world.net.Now(), &ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr, nil)
	e.pump()
}

// destroy takes the queue pair away with all its work; the peer hears nothing.
func (e *endpoint) destroy() {
	e.inexact()
	e.world.Outcomes.Kills++
	e.gone = true
	delete(e.node.qps, e.qpn)
	e.machine.Modify(e.world.net.Now(), &ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr, nil)
	if e.sq.Len() != 0 {
		e.world.fail("QP %v was reset and has work", e.qpn)
	}
}

// destroySRQ takes the shared receive queue of an XRC target away.
func (e *endpoint) destroySRQ() {
	if e.gone {
		return
	}
	e.inexact()
	e.world.Outcomes.Kills++
	n := e.srqn
	e.srqn = 0
	e.machine.(*rc.QP).Forget(n)
}

// revoke takes the key of e's target away under whatever uses it.
func (e *endpoint) revoke() {
	if e.gone {
		return
	}
	e.inexact()
	e.world.Outcomes.Revoked++
	if err := e.node.mem.Deregister(e.target.mr); err != nil {
		e.world.fail("deregister: %v", err)
	}
	e.revoked = bytes.Clone(e.mem.bytes[e.target.off : e.target.off+e.target.n])
}
