// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"bytes"
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/ntb/channel"
	"verbena/internal/ntb/window"
	"verbena/internal/qp"
	"verbena/internal/queue"
	wire "verbena/internal/wire/ntb"
)

const (
	pd        mem.PD = 7
	base      uint64 = 0x10000
	memBytes         = 1 << 20
	untouched        = 0xee
	allAccess        = ib.AccessLocalWrite | ib.AccessRemote | ib.AccessMWBind
)

// completions is a completion queue of any length.
type completions struct {
	list      []ib.WC
	solicited []bool
}

func (c *completions) Push(wc *ib.WC, solicited bool) bool {
	c.list, c.solicited = append(c.list, *wc), append(c.solicited, solicited)
	return true
}

// side is one node with its memory.
type side struct {
	t     testing.TB
	name  string
	node  *Node
	own   *window.Window
	batch *channel.Batch
	table *mem.Table
	mr    *mem.Region
	bytes []byte
	attr  ib.QPAttr
	world *pair
}

// pair is two sides whose writes arrive at once.
type pair struct {
	t    testing.TB
	now  monotime.Time
	a, b *side
}

type options struct {
	windowBytes int
	access      ib.Access
	attr        ib.QPAttr
}

func newPair(t testing.TB, change ...func(*options)) *pair {
	o := options{windowBytes: 1 << 20, access: allAccess, attr: ib.QPAttr{AccessFlags: allAccess, MaxRdAtomic: 4, MaxDestRdAtomic: 4, MinRNRTimer: 12, Timeout: 14, RetryCnt: 3, RNRRetry: 3}}
	for _, c := range change {
		c(&o)
	}
	p := &pair{t: t}
	p.a, p.b = newSide(t, "a", o), newSide(t, "b", o)
	p.a.world, p.b.world = p, p
	p.a.node.Attach(0, p.a.own, p.b.own.Len())
	p.b.node.Attach(0, p.b.own, p.a.own.Len())
	p.carry()
	if !p.a.node.Up() || !p.b.node.Up() {
		t.Fatalf("the link is not up: %v and %v", p.a.node.ch.State(), p.b.node.ch.State())
	}
	return p
}

func newSide(t testing.TB, name string, o options) *side {
	seed := uint32(name[0])
	next := func() uint32 { seed = seed*1664525 + 1013904223; return seed }
	s := &side{t: t, name: name, bytes: bytes.Repeat([]byte{untouched}, memBytes), own: window.New(make([]byte, o.windowBytes)), batch: channel.NewBatch(), table: mem.NewTable(next), attr: o.attr}
	s.node = New(s.table, func() uint64 { return uint64(next())<<32 | uint64(next()) })
	var err error
	if s.mr, err = s.table.Register(pd, s.bytes, base, o.access); err != nil {
		t.Fatal(err)
	}
	return s
}

// carry moves writes until neither side has any.
func (p *pair) carry() {
	p.t.Helper()
	for range 100000 {
		if p.step() {
			continue
		}
		if !p.a.node.Owes() && !p.b.node.Owes() {
			return
		}
		p.a.node.Settle()
		p.b.node.Settle()
	}
	p.t.Fatal("the two write for ever")
}

// step lets each side write one batch and look.
func (p *pair) step() (busy bool) {
	for _, s := range []*side{p.a, p.b} {
		to := p.b
		if s == p.b {
			to = p.a
		}
		s.node.Handle(p.now)
		if s.node.PollOutput(p.now, s.batch) {
			busy = true
			switch err := s.batch.Apply(to.own.Far()); err {
			case nil:
			case channel.ErrFault:
				s.batch.Reset()
				s.node.HandleFault(p.now)
			default:
				p.t.Fatalf("%s: %v", s.name, err)
			}
		}
		s.batch.Reset()
		to.node.Handle(p.now)
	}
	return busy
}

// pass lets time go by, with all that is due in it.
func (p *pair) pass(d monotime.Duration) {
	p.t.Helper()
	for end := p.now.Add(d); ; {
		p.carry()
		next := min(p.a.node.NextTimeout(), p.b.node.NextTimeout())
		if next > end {
			p.now = end
			return
		}
		p.now = max(next, p.now)
		p.a.node.HandleTimeout(p.now)
		p.b.node.HandleTimeout(p.now)
	}
}

// end is one queue pair with its queues.
type end struct {
	*side
	q     *QP
	sq    *queue.SendQueue
	rq    *queue.RecvQueue
	sends completions
	recvs completions
	wrid  uint64
}

func (s *side) newEnd(n ib.QPN, change ...func(*qp.Config)) *end {
	e := &end{side: s, sq: queue.NewSendQueue(64, 8, 256), rq: queue.NewRecvQueue(64, 8)}
	c := qp.Config{QPN: n, PD: pd, Mem: s.table, SQ: e.sq, RQ: e.rq, SendCQ: &e.sends, RecvCQ: &e.recvs, SignalAll: true}
	for _, f := range change {
		f(&c)
	}
	e.q = s.node.NewQP(c)
	return e
}

const connectMask = ib.QPStateAttr | ib.QPRQPSN | ib.QPSQPSN | ib.QPAccessFlags | ib.QPDestQPN | ib.QPMaxQPRdAtomic | ib.QPMaxDestRdAtomic | ib.QPMinRNRTimer | ib.QPTimeout | ib.QPRetryCnt | ib.QPRNRRetry

func (e *end) modify(to ib.QPState, dest ib.QPN) {
	a := e.attr
	a.State, a.DestQPN = to, dest
	e.q.Modify(e.world.now, &a, connectMask)
}

func (e *end) connect(dest ib.QPN) {
	for _, s := range []ib.QPState{ib.QPInit, ib.QPRTR, ib.QPRTS} {
		e.modify(s, dest)
	}
}

// connected returns two queue pairs that are connected.
func (p *pair) connected(n ib.QPN) (*end, *end) {
	x, y := p.a.newEnd(n), p.b.newEnd(n+0x1000)
	x.connect(n + 0x1000)
	y.connect(n)
	p.carry()
	return x, y
}

func (e *end) fatalf(format string, args ...any) {
	e.t.Helper()
	e.t.Fatalf("%s: "+format, append([]any{e.name}, args...)...)
}

func (s *side) sge(off, n int) ib.SGE {
	return ib.SGE{Addr: base + uint64(off), Length: uint32(n), LKey: s.mr.LKey()}
}

// post posts work requests, numbered from 1.
func (e *end) post(list ...queue.SendWQE) {
	e.t.Helper()
	e.push(list...)
	e.world.carry()
}

// push is post, with nothing written yet.
func (e *end) push(list ...queue.SendWQE) {
	e.t.Helper()
	for _, w := range list {
		slot, ok := e.sq.Reserve()
		if !ok {
			e.fatalf("send queue full")
		}
		sge, inline := slot.SGE, slot.Inline
		e.wrid++
		*slot = w
		slot.WRID = e.wrid
		slot.SGE, slot.Inline = append(sge, w.SGE...), append(inline, w.Inline...)
		e.sq.Commit()
	}
	e.q.Doorbell(e.world.now)
}

func (e *end) postRecv(id uint64, list ...ib.SGE) {
	e.t.Helper()
	w, ok := e.rq.Reserve()
	if !ok {
		e.fatalf("receive queue full")
	}
	w.WRID, w.SGE = id, append(w.SGE, list...)
	w.Length, _ = queue.TotalLength(list)
	e.rq.Commit()
	e.q.Doorbell(e.world.now)
}

// Work requests.

func (s *side) send(off, n int) queue.SendWQE {
	return queue.SendWQE{Opcode: ib.WRSend, Length: uint32(n), SGE: []ib.SGE{s.sge(off, n)}}
}

func (s *side) write(off, n int, to *end, at int) queue.SendWQE {
	return queue.SendWQE{Opcode: ib.WRRDMAWrite, Length: uint32(n), SGE: []ib.SGE{s.sge(off, n)}, RemoteAddr: base + uint64(at), RKey: to.mr.RKey()}
}

func (s *side) read(off, n int, from *end, at int) queue.SendWQE {
	return queue.SendWQE{Opcode: ib.WRRDMARead, Length: uint32(n), SGE: []ib.SGE{s.sge(off, n)}, RemoteAddr: base + uint64(at), RKey: from.mr.RKey()}
}

func (s *side) fadd(off int, at *end, to int, add uint64) queue.SendWQE {
	w := s.read(off, 8, at, to)
	w.Opcode, w.CompareAdd = ib.WRAtomicFetchAndAdd, add
	return w
}

func (s *side) cas(off int, at *end, to int, compare, swap uint64) queue.SendWQE {
	w := s.read(off, 8, at, to)
	w.Opcode, w.CompareAdd, w.Swap = ib.WRAtomicCmpAndSwp, compare, swap
	return w
}

// fill writes a pattern that depends on seed.
func (s *side) fill(off, n, seed int) []byte {
	p := s.bytes[off : off+n]
	for i := range p {
		p[i] = byte(i*131 + i>>8 + seed)
	}
	return p
}

// Expectations.

func (e *end) wantWC(why string, id uint64, status ib.WCStatus) ib.WC {
	e.t.Helper()
	return e.want(why, &e.sends, id, status)
}

func (e *end) wantRecv(why string, id uint64, status ib.WCStatus) ib.WC {
	e.t.Helper()
	return e.want(why, &e.recvs, id, status)
}

func (e *end) want(why string, c *completions, id uint64, status ib.WCStatus) ib.WC {
	e.t.Helper()
	if len(c.list) == 0 {
		e.fatalf("%s: no completion, want WR %d (%v); state %v", why, id, status, e.q.State())
	}
	wc := c.list[0]
	c.list, c.solicited = c.list[1:], c.solicited[1:]
	if wc.WRID != id || wc.Status != status {
		e.fatalf("%s: WR %d (%v, %v), want %d (%v)", why, wc.WRID, wc.Status, wc.VendorErr, id, status)
	}
	return wc
}

func (e *end) wantQuiet(why string) {
	e.t.Helper()
	for _, c := range []*completions{&e.sends, &e.recvs} {
		if len(c.list) > 0 {
			e.fatalf("%s: WR %d completed (%v)", why, c.list[0].WRID, c.list[0].Status)
		}
	}
}

func (s *side) wantBytes(why string, off int, want []byte) {
	s.t.Helper()
	got := s.bytes[off : off+len(want)]
	for i := range want {
		if got[i] != want[i] {
			s.t.Fatalf("%s: %s: byte %d of %d is %#x, want %#x", s.name, why, i, len(want), got[i], want[i])
		}
	}
}

func (s *side) wantUntouched(why string, off, n int) {
	s.t.Helper()
	s.wantBytes(why, off, bytes.Repeat([]byte{untouched}, n))
}

func (e *end) wantEvent(why string, want ib.EventType) {
	e.t.Helper()
	if got, ok := e.q.PollEvent(); !ok || got != want {
		e.fatalf("%s: event %v (%v), want %v", why, got, ok, want)
	}
}

func (e *end) wantState(why string, want ib.QPState) {
	e.t.Helper()
	if e.q.State() != want {
		e.fatalf("%s: %v, want %v", why, e.q.State(), want)
	}
}

// wantAllGiven checks that no room is left in use but that of the n queue pairs' rings, with their
// halves.
func (p *pair) wantAllGiven(why string, n int) {
	p.t.Helper()
	for _, s := range []*side{p.a, p.b} {
		if got, all := s.node.arena.left, newArena(s.node.peer.ArenaAt, s.node.peer.ArenaBytes).left; got != all {
			p.t.Errorf("%s: %s: %d bytes of the arena are not given back", why, s.name, all-got)
		}
		all := newArena(s.node.own.res.ArenaAt+s.node.own.res.ArenaBytes, s.own.Len()-s.node.own.res.ArenaAt-s.node.own.res.ArenaBytes).left
		all -= roundUp(commandCap*wire.CommandBytes + 8)
		all -= uint64(n) * (roundUp(64*wire.CQEBytes+wire.WordsBytes) + roundUp(64*wire.WQEBytes))
		if got := s.node.own.pool.left; got != all {
			p.t.Errorf("%s: %s: %d bytes of the window are not given back", why, s.name, int64(all-got))
		}
		if !s.mr.Idle() {
			p.t.Errorf("%s: %s: memory is held", why, s.name)
		}
	}
}
