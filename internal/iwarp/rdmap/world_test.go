// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"verbena/ib"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	"verbena/internal/queue"
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

// end is one queue pair with its memory and queues.
type end struct {
	t     testing.TB
	name  string
	s     *Stream
	table *mem.Table
	mr    *mem.Region
	bytes []byte
	sq    *queue.SendQueue
	rq    *queue.RecvQueue
	sends completions
	recvs completions
	wrid  uint64
	now   monotime.Time

	burst   *mpa.Burst
	gaps    [GapsBytes]byte
	out     []byte // written and not carried
	nothing bool   // output is left in the machine
}

// options of a pair of ends.
type options struct {
	crc, markers bool
	rtr          mpa.RTR
	mss          int
	ird, ord     uint8
	extensions   bool
	access       ib.Access // of the memory and the queue pairs
	signalAll    bool
	memory       int
	srqPD        mem.PD // of the receives, which are shared then
}

func newEnd(t testing.TB, name string, o options, initiator bool) *end {
	seed := uint32(len(name)) * 77
	e := &end{t: t, name: name, bytes: bytes.Repeat([]byte{untouched}, o.memory), burst: mpa.NewBurst(), sq: queue.NewSendQueue(64, 8, 256), rq: queue.NewRecvQueue(64, 8),
		table: mem.NewTable(func() uint32 { seed = seed*1664525 + 1013904223; return seed })}
	var err error
	if e.mr, err = e.table.Register(pd, e.bytes, base, o.access); err != nil {
		t.Fatal(err)
	}
	e.s = NewStream(qp.Config{QPN: 0x11, PD: pd, Mem: e.table, SQ: e.sq, RQ: e.rq, SendCQ: &e.sends, RecvCQ: &e.recvs, SignalAll: o.signalAll,
		SRQ: o.srqPD != 0, SRQPD: o.srqPD})
	e.s.Connect(mpa.Settled{CRC: o.crc, SendMarkers: o.markers, RTR: o.rtr}, initiator, o.extensions, o.mss)
	e.s.in.Markers = o.markers // as a peer that asked for them would
	attr := ib.QPAttr{AccessFlags: o.access, MaxRdAtomic: o.ord, MaxDestRdAtomic: o.ird}
	for _, s := range []ib.QPState{ib.QPInit, ib.QPRTR, ib.QPRTS} {
		attr.State = s
		e.s.Modify(e.now, &attr, ib.QPStateAttr|ib.QPAccessFlags|ib.QPMaxQPRdAtomic|ib.QPMaxDestRdAtomic)
	}
	return e
}

func defaults() options {
	return options{crc: true, mss: 1460, ird: 4, ord: 4, extensions: true, access: allAccess, signalAll: true, memory: memBytes}
}

// pair returns two connected ends: the initiator and the responder.
func pair(t testing.TB, change ...func(*options)) (*end, *end) {
	o := defaults()
	for _, c := range change {
		c(&o)
	}
	return newEnd(t, "a", o, true), newEnd(t, "bb", o, false)
}

func (e *end) fatalf(format string, args ...any) {
	e.t.Helper()
	e.t.Fatalf("%s: "+format, append([]any{e.name}, args...)...)
}

func (e *end) sge(off, n int) ib.SGE {
	return ib.SGE{Addr: base + uint64(off), Length: uint32(n), LKey: e.mr.LKey()}
}

// post posts work requests, numbered from 1.
func (e *end) post(list ...queue.SendWQE) {
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
	e.s.Doorbell(e.now)
	e.pump()
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
	e.s.Doorbell(e.now)
}

// pump takes the machine's output.
func (e *end) pump() {
	for !e.nothing && e.s.PollOutput(e.now, e.burst) {
		n := e.burst.Bytes()
		for _, p := range e.burst.Iov() {
			e.out = append(e.out, p...)
		}
		e.burst.Reset()
		e.s.HandleWritten(e.now, n)
	}
}

// take gives bytes to the machine as chunk says: each piece straight into place
// where that is possible and direct says so.
func (e *end) take(b []byte, chunk func(n int) int, direct func() bool) {
	var iov [][]byte
	for len(b) > 0 {
		n := chunk(len(b))
		if room := 0; direct() {
			if iov, room = e.s.Place(iov[:0], e.gaps[:]); room > 0 {
				n = min(n, room)
				left := b[:n]
				for i := 0; len(left) > 0; i++ {
					left = left[copy(iov[i], left):]
				}
				e.s.HandlePlaced(e.now, iov, n)
				b = b[n:]
				continue
			}
		}
		e.s.HandleInput(e.now, b[:n])
		b = b[n:]
	}
	e.pump()
}

func whole(n int) int { return n }
func never() bool     { return false }
func always() bool    { return true }

// carry moves bytes until neither end sends.
func carry(a, b *end) { carryBy(a, b, whole, always) }

func carryBy(a, b *end, chunk func(int) int, direct func() bool) {
	for range 10000 {
		a.pump()
		b.pump()
		if len(a.out)+len(b.out) == 0 {
			return
		}
		x, y := a.out, b.out
		a.out, b.out = nil, nil
		b.take(x, chunk, direct)
		a.take(y, chunk, direct)
	}
	a.fatalf("the two send for ever")
}

func random(rnd *rand.Rand) func(int) int {
	return func(n int) int { return 1 + rnd.IntN(min(n, 1<<rnd.IntN(17))) }
}

// Work requests.

func (e *end) send(off, n int) queue.SendWQE {
	return queue.SendWQE{Opcode: ib.WRSend, Length: uint32(n), SGE: []ib.SGE{e.sge(off, n)}}
}

func (e *end) write(off, n int, to *end, at int) queue.SendWQE {
	return queue.SendWQE{Opcode: ib.WRRDMAWrite, Length: uint32(n), SGE: []ib.SGE{e.sge(off, n)}, RemoteAddr: base + uint64(at), RKey: to.mr.RKey()}
}

func (e *end) read(off, n int, from *end, at int) queue.SendWQE {
	return queue.SendWQE{Opcode: ib.WRRDMARead, Length: uint32(n), SGE: []ib.SGE{e.sge(off, n)}, RemoteAddr: base + uint64(at), RKey: from.mr.RKey()}
}

func (e *end) cas(off int, at *end, to int, compare, swap uint64) queue.SendWQE {
	w := e.read(off, 8, at, to)
	w.Opcode, w.CompareAdd, w.Swap = ib.WRAtomicCmpAndSwp, compare, swap
	return w
}

func (e *end) fadd(off int, at *end, to int, add uint64) queue.SendWQE {
	w := e.read(off, 8, at, to)
	w.Opcode, w.CompareAdd = ib.WRAtomicFetchAndAdd, add
	return w
}

// fill writes a pattern that depends on seed.
func (e *end) fill(off, n, seed int) []byte {
	p := e.bytes[off : off+n]
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
		e.fatalf("%s: no completion, want WR %d (%v); state %v", why, id, status, e.s.State())
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
	if e.pump(); len(e.out) > 0 {
		e.fatalf("%s: sends %d bytes", why, len(e.out))
	}
}

func (e *end) wantBytes(why string, off int, want []byte) {
	e.t.Helper()
	if got := e.bytes[off : off+len(want)]; !bytes.Equal(got, want) {
		for i := range want {
			if got[i] != want[i] {
				e.fatalf("%s: byte %d of %d is %#x, want %#x", why, i, len(want), got[i], want[i])
			}
		}
	}
}

func (e *end) wantUntouched(why string, off, n int) {
	e.t.Helper()
	e.wantBytes(why, off, bytes.Repeat([]byte{untouched}, n))
}

func (e *end) wantEvent(why string, want ib.EventType) {
	e.t.Helper()
	if got, ok := e.s.PollEvent(); !ok || got != want {
		e.fatalf("%s: event %v (%v), want %v", why, got, ok, want)
	}
}

func (e *end) wantState(why string, want ib.QPState) {
	e.t.Helper()
	if e.s.State() != want {
		e.fatalf("%s: %v, want %v", why, e.s.State(), want)
	}
}

// freed checks that no memory is held: deregistering would wait for it.
func (e *end) freed() {
	e.t.Helper()
	if !e.mr.Idle() {
		e.fatalf("memory is held")
	}
}

func name(v ...any) string { return fmt.Sprintf("%v", v) }
