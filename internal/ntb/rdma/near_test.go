// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"bytes"
	"fmt"
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/queue"
)

// inWindow is a region of a side in its own window, announced to the peer.
type inWindow struct {
	mr    *mem.Region
	bytes []byte
}

const inWindowBase = base + 1<<30

// near lets both sides store into each other's windows.
func (p *pair) near() {
	p.a.node.Reach(p.b.own.Far())
	p.b.node.Reach(p.a.own.Far())
}

// nearPair is a pair of queue pairs whose sides map each other's windows, with a
// region in y's.
func nearPair(t testing.TB, domain mem.PD, change ...func(*options)) (p *pair, x, y *end, r *inWindow) {
	p = newPair(t, change...)
	p.near()
	x, y = p.connected(0x11)
	return p, x, y, p.b.expose(domain, 4096)
}

func (s *side) expose(domain mem.PD, n int) *inWindow {
	s.t.Helper()
	at, ok := s.node.own.pool.take(uint64(n))
	if !ok {
		s.t.Fatal("no room")
	}
	buf, _ := s.own.Bytes(at, uint64(n))
	for i := range buf {
		buf[i] = untouched
	}
	mr, err := s.table.Register(domain, buf, inWindowBase, allAccess)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.node.Expose(mr, Piece(at, uint64(n))); err != nil {
		s.t.Fatal(err)
	}
	s.world.carry()
	return &inWindow{mr, buf}
}

func (r *inWindow) write(x *end, off, n, at int) queue.SendWQE {
	return queue.SendWQE{Opcode: ib.WRRDMAWrite, Length: uint32(n), SGE: []ib.SGE{x.sge(off, n)}, RemoteAddr: inWindowBase + uint64(at), RKey: r.mr.RKey()}
}

func (r *inWindow) wantUntouched(why string, t testing.TB) {
	t.Helper()
	if n := bytes.Count(r.bytes, []byte{untouched}); n != len(r.bytes) {
		t.Fatalf("%s: %d bytes were written", why, len(r.bytes)-n)
	}
}

// queueUp puts work requests into the send queue, without the doorbell.
func (e *end) queueUp(list ...queue.SendWQE) {
	for _, w := range list {
		slot, _ := e.sq.Reserve()
		sge, inline := slot.SGE, slot.Inline
		e.wrid++
		*slot = w
		slot.WRID, slot.SGE, slot.Inline = e.wrid, append(sge, w.SGE...), append(inline, w.Inline...)
		e.sq.Commit()
	}
}

// wantQuick posts work requests that are to be done at once.
func (e *end) wantQuick(why string, list ...queue.SendWQE) {
	e.t.Helper()
	e.queueUp(list...)
	if all, _ := e.q.Quick(); !all {
		e.fatalf("%s: not done at once", why)
	}
}

// stored has a WRITE made without a place in the send queue, if it can be read.
func (e *end) stored(w queue.SendWQE) bool {
	m := queue.Short{ID: e.wrid + 1, Flags: w.Flags, Key: w.RKey, Addr: w.RemoteAddr}
	if m.Bytes = copy(m.Data[:], w.Inline); w.Flags&ib.SendInline == 0 {
		s, v := e.table.Local(pd, w.SGE[0], 0)
		if v != ib.VendorNone {
			return false
		}
		m.Bytes = s.Len()
		s.CopyOut(0, m.Data[:m.Bytes])
		s.Release()
	}
	e.wrid++
	if e.q.Store(&m) {
		return true
	}
	e.wrid--
	return false
}

func (e *end) wantStored(why string, w queue.SendWQE) {
	e.t.Helper()
	if !e.stored(w) {
		e.fatalf("%s: not stored", why)
	}
	e.wantWC(why, e.wrid, ib.WCSuccess)
}

// wantSlow posts work requests that are not to be done at once, or not all.
func (e *end) wantSlow(why string, list ...queue.SendWQE) {
	e.t.Helper()
	if w := list[0]; w.Opcode == ib.WRRDMAWrite && w.Length <= MaxStore && e.stored(w) {
		e.fatalf("%s: stored", why)
	}
	e.queueUp(list...)
	if all, _ := e.q.Quick(); all {
		e.fatalf("%s: done at once", why)
	}
	e.q.Doorbell(e.world.now)
}

// A WRITE to a region in a window that is mapped is done when it is posted. It may begin and end
// anywhere, in as many pieces as its sender likes.
func TestNearWrite(t *testing.T) {
	for _, n := range []int{1, 3, 7, 8, 9, 16, 63, 64, 255, 256, 257, 300, 600, 2049} {
		_, x, _, r := nearPair(t, pd)
		for at := range 17 {
			for _, way := range []string{"one", "inline", "cut", "stored", "stored inline"} {
				want := bytes.Repeat([]byte{untouched}, len(r.bytes))
				copy(want[at:], x.fill(0, n, at+n))
				w := r.write(x, 0, n, at)
				switch {
				case way == "inline" && n <= 256, way == "stored inline" && n <= MaxStore:
					w.Flags, w.Inline, w.SGE = ib.SendInline, x.bytes[:n], nil
				case way == "cut":
					k := n * (at + 1) / 18
					w.SGE = []ib.SGE{x.sge(0, k), x.sge(k, 0), x.sge(k, n-k)}
				}
				if why := fmt.Sprint(n, " bytes at ", at); way[0] == 's' && n <= MaxStore {
					x.wantStored(why, w)
				} else {
					x.wantQuick(why, w)
					x.wantWC("at once", x.wrid, ib.WCSuccess)
				}
				if !bytes.Equal(r.bytes, want) {
					t.Fatalf("%d bytes at %d, %s: other bytes are there", n, at, way)
				}
				for i := range r.bytes {
					r.bytes[i] = untouched
				}
			}
		}
		if !x.mr.Idle() || !r.mr.Idle() {
			t.Error("memory is held")
		}
	}
}

// A WRITE that its owner has to judge goes to the owner, which refuses it.
func TestNearWriteIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		domain mem.PD
		write  func(x *end, r *inWindow) queue.SendWQE
		want   ib.WCStatus
	}{
		"other domain": {pd + 1, func(x *end, r *inWindow) queue.SendWQE { return r.write(x, 0, 8, 0) }, ib.WCRemAccessErr},
		"beyond":       {pd, func(x *end, r *inWindow) queue.SendWQE { return r.write(x, 0, 8, 4089) }, ib.WCRemAccessErr},
		"before":       {pd, func(x *end, r *inWindow) queue.SendWQE { return r.write(x, 0, 8, -1) }, ib.WCRemAccessErr},
		"wraps": {pd, func(x *end, r *inWindow) queue.SendWQE {
			w := r.write(x, 0, 8, 0)
			w.RemoteAddr = ^uint64(0) - 3
			return w
		}, ib.WCRemAccessErr},
		"no such key": {pd, func(x *end, r *inWindow) queue.SendWQE {
			w := r.write(x, 0, 8, 0)
			w.RKey ^= 1
			return w
		}, ib.WCRemAccessErr},
		"source of no region": {pd, func(x *end, r *inWindow) queue.SendWQE {
			w := r.write(x, 0, 8, 0)
			w.SGE[0].LKey ^= 1
			return w
		}, ib.WCLocProtErr},
	} {
		t.Run(name, func(t *testing.T) {
			p, x, _, r := nearPair(t, c.domain)
			x.wantSlow(name, c.write(x, r))
			p.carry()
			x.wantWC(name, 1, c.want)
			r.wantUntouched(name, t)
		})
	}
}

// The queue pair that grants the regions may take that back, in any way: once Closed
// says so nothing is stored, and the owner judges.
func TestNearWriteIsClosed(t *testing.T) {
	for name, change := range map[string]func(y *end){
		"ERR":     func(y *end) { y.modify(ib.QPErr, 0) },
		"RESET":   func(y *end) { y.modify(ib.QPReset, 0) },
		"destroy": func(y *end) { y.q.Destroy(y.world.now) },
		"rights": func(y *end) {
			y.q.Modify(y.world.now, &ib.QPAttr{AccessFlags: ib.AccessRemoteRead}, ib.QPAccessFlags)
		},
		"error": func(y *end) { // of its own: nobody waits for it
			y.post(queue.SendWQE{Opcode: ib.WRSend, Length: 8, SGE: []ib.SGE{{Addr: 1, Length: 8}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, x, y, r := nearPair(t, pd)
			x.wantQuick("open", r.write(x, 0, 8, 0))
			x.wantWC("open", 1, ib.WCSuccess)
			x.wantStored("open", r.write(x, 0, 8, 0))
			change(y)
			if name != "error" && y.q.Closed(p.now) {
				t.Error("closed, and the peer has not heard of it")
			}
			for range 1000 {
				if y.q.Closed(p.now) {
					break
				}
				p.step()
			}
			if !y.q.Closed(p.now) {
				t.Fatal("never closed")
			}
			for i := range r.bytes {
				r.bytes[i] = untouched
			}
			x.wantSlow("closed", r.write(x, 0, 8, 0))
			p.pass(100 * monotime.Millisecond)
			r.wantUntouched("closed", t)
		})
	}
}

// A link that goes down leaves nobody waiting for a closing answer.
func TestClosedByTheLink(t *testing.T) {
	p, x, y, r := nearPair(t, pd)
	y.modify(ib.QPErr, 0)
	if y.q.Closed(p.now) {
		t.Fatal("closed, and the peer has not heard of it")
	}
	p.b.node.Reset(p.now)
	if y.q.Closed(p.now) {
		t.Error("closed, and the peer may not know of the new session")
	}
	p.b.node.Detach(p.now)
	if !y.q.Closed(p.now) {
		t.Error("not closed, with no link")
	}
	p.a.node.Detach(p.now)
	if x.stored(r.write(x, 0, 8, 0)) {
		t.Error("stored over no link")
	}
	x.queueUp(r.write(x, 0, 8, 0))
	if all, _ := x.q.Quick(); all {
		t.Error("done at once over no link")
	}
	r.wantUntouched("no link", t)
}

// A region that is withdrawn, and one whose owner has begun the link afresh, are not
// stored to.
func TestNearWriteAfterWithdraw(t *testing.T) {
	p, x, y, r := nearPair(t, pd)
	other := p.b.expose(pd, 4096)
	x.wantQuick("open", other.write(x, 0, 8, 0), r.write(x, 0, 8, 4088), other.write(x, 0, 8, 8))
	y.node.Withdraw(p.now, other.mr)
	for !y.node.Withdrawn(p.now, other.mr) {
		p.step()
	}
	if err := y.table.Deregister(other.mr); err != nil {
		t.Fatal(err)
	}
	clear(other.bytes)
	for i := range r.bytes {
		r.bytes[i] = untouched
	}
	x.wantQuick("the other one", r.write(x, 0, 8, 0))
	x.wantSlow("withdrawn", other.write(x, 0, 8, 0))
	for i := range uint64(4) {
		x.wantWC("before", i+1, ib.WCSuccess)
	}
	p.carry()
	x.wantWC("withdrawn", 5, ib.WCRemAccessErr)
	if bytes.Count(other.bytes, []byte{0}) != len(other.bytes) {
		t.Error("written after it was withdrawn")
	}

	p, x, _, r = nearPair(t, pd)
	p.b.node.Reset(p.now)
	p.b.node.PollOutput(p.now, p.b.batch) // it says so, and nobody has looked yet
	if err := p.b.batch.Apply(p.a.own.Far()); err != nil {
		t.Fatal(err)
	}
	p.b.batch.Reset()
	x.wantSlow("another session", r.write(x, 0, 8, 0))
	r.wantUntouched("another session", t)
}

// A WRITE is not there before a SEND that waits for a receive, nor before a READ that it
// is fenced from; behind a READ it is, and completes in its turn.
func TestNearWriteKeepsItsPlace(t *testing.T) {
	p, x, y, r := nearPair(t, pd)
	x.wantSlow("behind a SEND", x.send(0, 8), r.write(x, 0, 8, 0))
	p.carry()
	r.wantUntouched("the SEND waits for a receive", t)
	x.wantSlow("behind both", r.write(x, 0, 8, 8))
	p.carry()
	r.wantUntouched("the SEND waits for a receive", t)
	x.wantQuiet("the SEND waits for a receive")
	y.postRecv(1, y.sge(0, 8))
	p.pass(monotime.Second)
	y.wantRecv("SEND", 1, ib.WCSuccess)
	for i := range uint64(3) {
		x.wantWC("in order", i+1, ib.WCSuccess)
	}
	if !bytes.Equal(r.bytes[:16], append(bytes.Clone(x.bytes[:8]), x.bytes[:8]...)) {
		t.Error("the WRITEs are not there")
	}

	fenced := r.write(x, 0, 8, 16)
	fenced.Flags = ib.SendFence
	x.wantSlow("READ", x.read(64, 8, y, 0))
	x.node.PollOutput(p.now, x.batch)
	if err := x.batch.Apply(y.own.Far()); err != nil {
		t.Fatal(err)
	}
	x.batch.Reset()
	x.wantQuick("behind a READ", r.write(x, 0, 8, 24))
	x.wantQuiet("the READ comes first")
	x.wantSlow("fenced", fenced)
	if !bytes.Equal(r.bytes[24:32], x.bytes[:8]) || r.bytes[16] != untouched {
		t.Error("the WRITE is not there, or the fenced one is")
	}
	p.carry()
	for i := range uint64(3) {
		x.wantWC("in order", i+4, ib.WCSuccess)
	}
	if !bytes.Equal(r.bytes[16:24], x.bytes[:8]) {
		t.Error("the fenced WRITE is not there")
	}
}

// A connection of before gives nothing to the next one of the same queue pairs.
func TestGrantIsOfOneConnection(t *testing.T) {
	p, x, y, r := nearPair(t, pd)
	old := x.q.far.grant
	if !old.Open {
		t.Fatal("not open")
	}
	x.modify(ib.QPReset, 0)
	p.carry()
	x.modify(ib.QPInit, 0)
	p.carry()
	if x.q.far.grant.Open {
		t.Error("open before it is connected")
	}
	if s := x.node.takeGrant(&old); s == 0 || x.q.far.grant.Open {
		t.Error("open by what was said of the connection before")
	}
	x.modify(ib.QPRTR, y.q.QPN)
	x.modify(ib.QPRTS, y.q.QPN)
	p.carry()
	x.wantQuick("connected again", r.write(x, 0, 8, 0))
}

// A request without a signal makes no completion; a queue pair that is not in RTS stores nothing.
func TestStoredAsPosted(t *testing.T) {
	_, x, _, r := nearPair(t, pd)
	x.q.SignalAll = false
	w := r.write(x, 0, 8, 0)
	if !x.stored(w) {
		t.Fatal("not stored")
	}
	x.wantQuiet("not signaled")
	w.Flags = ib.SendSignaled
	x.wantStored("signaled", w)
	if n := x.q.Count[SentMessages]; n != 2 {
		t.Errorf("%d messages counted", n)
	}
	for i := range r.bytes {
		r.bytes[i] = untouched
	}
	for _, s := range []ib.QPState{ib.QPSQD, ib.QPErr, ib.QPReset} {
		if x.modify(s, 0); x.stored(w) {
			t.Errorf("stored in %v", s)
		}
	}
	r.wantUntouched("not in RTS", t)
}

func TestNearWriteDoesNotAllocate(t *testing.T) {
	_, x, _, r := nearPair(t, pd)
	x.sends.list, x.sends.solicited = make([]ib.WC, 0, 4), make([]bool, 0, 4)
	for _, n := range []int{8, 1000} {
		w := r.write(x, 0, n, 0)
		if a := testing.AllocsPerRun(100, func() {
			x.wantQuick("open", w)
			x.sends.list, x.sends.solicited = x.sends.list[:0], x.sends.solicited[:0]
		}); a > 0 {
			t.Errorf("%d bytes: %v allocations", n, a)
		}
	}
	w := r.write(x, 0, 8, 0)
	if a := testing.AllocsPerRun(100, func() {
		if x.sends.list, x.sends.solicited = x.sends.list[:0], x.sends.solicited[:0]; !x.stored(w) {
			t.Fatal("not stored")
		}
	}); a > 0 {
		t.Errorf("stored: %v allocations", a)
	}
}
