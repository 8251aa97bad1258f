// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/queue"
	wire "verbena/internal/wire/ntb"
)

// watchedPair is a pair of queue pairs that have both sent something, and so look at
// each other's rings.
func watchedPair(t testing.TB) (p *pair, x, y *end) {
	p = newPair(t)
	p.near()
	x, y = p.connected(0x11)
	for _, e := range [][2]*end{{x, y}, {y, x}} {
		e[1].postRecv(1, e[1].sge(0, 64))
		e[0].wantSlow("the first rings the doorbell", e[0].send(0, 8))
		p.carry()
		e[0].wantWC("first", 1, ib.WCSuccess)
		e[1].wantRecv("first", 1, ib.WCSuccess)
		if len(e[1].node.watched) != 1 {
			t.Fatal("its ring is not watched")
		}
	}
	return p, x, y
}

// wantTaken looks once, with no signal to look for.
func (e *end) wantTaken(why string, n int) {
	e.t.Helper()
	if !e.node.ch.Quiet() {
		e.fatalf("%s: there was a signal", why)
	}
	if n > 0 && !e.node.Marked() {
		e.fatalf("%s: nothing is there", why)
	}
	if got := e.node.Take(); got != n {
		e.fatalf("%s: %d were taken, want %d", why, got, n)
	}
}

// wantSent has a SEND of these bytes made before it is in the send queue.
func (e *end) wantSent(why string, w queue.SendWQE, data []byte) {
	e.t.Helper()
	e.wrid++
	w.WRID = e.wrid
	if !e.q.Send(short(&w, data)) {
		e.fatalf("%s: not sent", why)
	}
	if all, _ := e.q.Quick(); !all {
		e.fatalf("%s: not done at once", why)
	}
}

// A SEND is not made before it is in the send queue if it is longer, has something before it, or is
// no SEND. Nor is it where that or the ring is full.
func TestShortSendThatWaits(t *testing.T) {
	fill := func(p *pair, x *end, n int) {
		for range n {
			x.wantSent("room", x.send(0, 8), x.bytes[:8])
		}
	}
	for name, c := range map[string]struct {
		w      func(x *end) queue.SendWQE
		before func(p *pair, x *end)
	}{
		"longer":  {func(x *end) queue.SendWQE { return x.send(0, MaxShort+1) }, func(*pair, *end) {}},
		"a WRITE": {func(x *end) queue.SendWQE { w := x.send(0, 8); w.Opcode = ib.WRRDMAWrite; return w }, func(*pair, *end) {}},
		"behind": {func(x *end) queue.SendWQE { return x.send(0, 8) }, func(p *pair, x *end) {
			x.wantSlow("a longer one", x.send(0, 100))
		}},
		"not ready": {func(x *end) queue.SendWQE { return x.send(0, 8) }, func(p *pair, x *end) { x.modify(ib.QPSQD, 0) }},
		"full":      {func(x *end) queue.SendWQE { return x.send(0, 8) }, func(p *pair, x *end) { fill(p, x, x.sq.Cap()) }},
		"full ring": {func(x *end) queue.SendWQE { return x.send(0, 8) }, func(p *pair, x *end) {
			x.q.far.done -= wire.Index(x.q.far.cap)
		}},
		"fenced": {func(x *end) queue.SendWQE { w := x.send(0, 8); w.Flags = ib.SendFence; return w }, func(p *pair, x *end) { x.q.req.reads++ }},
	} {
		t.Run(name, func(t *testing.T) {
			p, x, _ := watchedPair(t)
			w := c.w(x)
			c.before(p, x)
			tail, posted := x.sq.Tail(), x.q.far.posted
			if x.q.Send(short(&w, x.bytes[:w.Length])) {
				t.Error("made")
			}
			if x.sq.Tail() != tail || x.q.far.posted != posted {
				t.Error("it has left something")
			}
		})
	}
}

// One that finds no receive is made again from its place in the send queue.
func TestShortSendAgain(t *testing.T) {
	for _, inline := range []bool{false, true} {
		p, x, y := watchedPair(t)
		want := x.fill(100, 8, 9)
		w := x.send(100, 8)
		if inline {
			w = queue.SendWQE{Opcode: ib.WRSend, Flags: ib.SendInline, Length: 8, Inline: want}
		}
		x.wantSent("no receive", w, want)
		p.step()
		p.carry()
		x.wantQuiet("no receive")
		y.postRecv(5, y.sge(2000, 8))
		p.pass(monotime.Second)
		y.wantRecv("again", 5, ib.WCSuccess)
		y.wantBytes("again", 2000, want)
		x.wantWC("again", x.wrid, ib.WCSuccess)
	}
}

// Short SENDs come without a signal, whatever their opcode and where their bytes are; their outcome
// goes with the next SEND the other way.
func TestShortSend(t *testing.T) {
	_, x, y := watchedPair(t)
	posted := 0
	for n := range wire.MaxShortSend + 1 {
		want := x.fill(100, n, n)
		for way, w := range []queue.SendWQE{
			{Opcode: ib.WRSend, Length: uint32(n), SGE: []ib.SGE{x.sge(100, n)}},
			{Opcode: ib.WRSendWithImm, Imm: 77, Length: uint32(n), SGE: []ib.SGE{x.sge(100, n/2), x.sge(100+n/2, n-n/2)}},
			{Opcode: ib.WRSend, Flags: ib.SendInline | ib.SendSolicited, Length: uint32(n), Inline: want},
		} {
			y.postRecv(uint64(n), y.sge(1000, 64))
			if posted++; posted%2 == 0 {
				x.wantQuick("SEND", w)
			} else {
				x.wantSent("SEND", w, want)
			}
			y.wantTaken("SEND", 1)
			wc := y.wantRecv("SEND", uint64(n), ib.WCSuccess)
			if wc.ByteLen != uint32(n) || (wc.Flags == ib.WCWithImm) != (way == 1) || way == 1 && wc.ImmData != 77 {
				t.Errorf("%+v", wc)
			}
			y.wantBytes("SEND", 1000, want)
			x.wantQuiet("nobody has told")

			x.postRecv(1, x.sge(2000, 64))
			y.wantQuick("answer", y.send(0, 8))
			x.wantTaken("answer", 1)
			x.wantRecv("answer", 1, ib.WCSuccess)
			x.wantWC("told by the answer", x.wrid, ib.WCSuccess)
			if y.node.Owes() || len(y.node.work) > 0 {
				t.Error("it is to be told twice")
			}
			x.node.Settle()
			x.world.carry()
			y.wantWC("told, as nothing went there", y.wrid, ib.WCSuccess)
		}
	}
	if n := x.q.Count[SentBytes]; n != 0 {
		t.Errorf("%d bytes went through the arena", n)
	}
}

// A longer SEND, a fenced one, and the SENDs behind them keep their order with those of one line.
func TestShortSendKeepsItsPlace(t *testing.T) {
	p, x, y := watchedPair(t)
	for i := range uint64(5) {
		y.postRecv(i, y.sge(1000*int(i), 1000))
	}
	fenced := x.send(0, 4)
	fenced.Flags = ib.SendFence
	x.wantSlow("a longer one, a READ, and a fence", x.send(0, 1), x.send(0, 900), x.send(0, 2), x.read(3000, 8, y, 0), fenced, x.send(0, 5))
	p.carry()
	for i, n := range []uint32{1, 900, 2, 4, 5} {
		if wc := y.wantRecv("in order", uint64(i), ib.WCSuccess); wc.ByteLen != n {
			t.Errorf("message %d has %d bytes", i, wc.ByteLen)
		}
	}
	for i := range uint64(6) {
		x.wantWC("in order", i+2, ib.WCSuccess)
	}
}

// A receiver that does not answer acknowledges when it looks again, when much of the ring waits,
// and when it sleeps or goes. It does so with its heartbeat at the latest.
func TestDoneIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		sends int
		then  func(p *pair, x, y *end)
	}{
		"looks again": {1, func(p *pair, x, y *end) { y.node.Settle() }},
		"much waits":  {16, func(*pair, *end, *end) {}},
		"heartbeat":   {1, func(p *pair, x, y *end) { p.now = y.node.NextTimeout(); y.node.HandleTimeout(p.now) }},
		"fails":       {1, func(p *pair, x, y *end) { y.modify(ib.QPErr, 0) }},
		"is reset":    {1, func(p *pair, x, y *end) { y.modify(ib.QPReset, 0) }},
		"goes":        {1, func(p *pair, x, y *end) { y.q.Destroy(p.now) }},
		"goes after an answer that nobody takes": {1, func(p *pair, x, y *end) {
			y.wantQuick("answer", y.send(0, 8), y.send(0, 8))
			p.step() // there is no receive
			y.modify(ib.QPErr, 0)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p, x, y := watchedPair(t)
			first := x.wrid + 1
			for range c.sends {
				y.postRecv(1, y.sge(0, 8))
				x.wantQuick("SEND", x.send(0, 8))
				y.wantTaken("SEND", 1)
			}
			x.wantQuiet("nobody has told")
			c.then(p, x, y)
			for range 50 {
				p.step()
			}
			for i := range c.sends {
				x.wantWC(name, first+uint64(i), ib.WCSuccess)
			}
		})
	}
}

// An acknowledgement on a WQE that found no receive counts all the same. One on a WQE behind it,
// which is void, is made up for by the words.
func TestDoneIsToldWithoutAReceive(t *testing.T) {
	p, x, y := watchedPair(t)
	id := y.wrid
	for range 2 {
		x.postRecv(1, x.sge(0, 8))
		y.wantQuick("SEND", y.send(0, 8))
		x.wantTaken("SEND", 1)
		x.wantQuick("finds no receive", x.send(0, 8))
	}
	p.step()
	p.carry()
	y.wantWC("told on the first", id+1, ib.WCSuccess)
	y.wantWC("told on the second", id+2, ib.WCSuccess)
	y.wantQuiet("no receive")
	y.postRecv(5, y.sge(0, 8))
	y.postRecv(6, y.sge(0, 8))
	p.pass(monotime.Second)
	y.wantRecv("again", 5, ib.WCSuccess)
	y.wantRecv("again", 6, ib.WCSuccess)
}

// The completion of a SEND comes before that of its answer, as with an adapter, whose
// acknowledgement leaves before the application can answer.
func TestAnswerCompletesBehindTheSend(t *testing.T) {
	for name, take := range map[string]func(p *pair, x *end){
		"polled": func(_ *pair, x *end) { x.wantTaken("answer", 1) },
		"woken":  func(p *pair, x *end) { x.node.Handle(p.now) },
	} {
		t.Run(name, func(t *testing.T) {
			p, x, y := watchedPair(t)
			x.q.SendCQ = &x.recvs
			y.postRecv(1, y.sge(0, 8))
			x.wantQuick("SEND", x.send(0, 8))
			y.wantTaken("SEND", 1)
			x.postRecv(99, x.sge(0, 8))
			y.wantQuick("answer", y.send(0, 8))
			take(p, x)
			if !x.node.Owes() {
				t.Error("the answer is acknowledged before the application has seen it")
			}
			for _, id := range []uint64{x.wrid, 99} {
				x.wantRecv("in the order of the link", id, ib.WCSuccess)
			}
		})
	}
}

// Words of the peer that are older than its last WQE change nothing.
func TestOldWords(t *testing.T) {
	p, x, y := watchedPair(t)
	y.postRecv(1, y.sge(0, 8))
	x.postRecv(0, x.sge(0, 8))
	x.wantQuick("SEND", x.send(0, 8))
	y.wantTaken("SEND", 1)
	y.wantQuick("answer", y.send(0, 8))
	x.wantTaken("answer", 1)
	x.wantRecv("answer", 0, ib.WCSuccess)
	x.wantWC("told by the answer", x.wrid, ib.WCSuccess)

	f := x.q.far // a peer that lies: the request that has completed has failed
	c := wire.CQE{Index: f.done - 1, Status: wire.StatusOp}
	x.own.CopyIn(f.cqesAt+wire.CQEBytes*uint64(c.Index.Slot(f.cap)), c.Append(nil))
	x.own.Store8(f.wordsAt+wire.FromWord, uint64(wire.NewPosition(f.generation, f.done-1)))
	x.own.Store8(f.wordsAt+wire.DoneWord, uint64(wire.NewPosition(f.generation, f.done)))
	x.q.takeCompletions(p.now)
	x.wantQuiet("the words are old")
}

// A send queue that fails because of an answer has something to write: its far half is to go.
func TestFailureByAnAnswer(t *testing.T) {
	p, x, y := watchedPair(t)
	y.postRecv(1, y.sge(0, 8))
	x.postRecv(1, x.sge(0, 8))
	bad := x.send(0, 8)
	bad.SGE[0].LKey ^= 1
	x.wantSlow("the second cannot be read", x.send(0, 8), bad)
	for x.node.PollOutput(p.now, x.batch) {
		if err := x.batch.Apply(y.own.Far()); err != nil {
			t.Fatal(err)
		}
		x.batch.Reset()
	}
	x.wantQuiet("the first is not done")
	if x.node.Pending() {
		t.Fatal("there is something to write already")
	}
	y.wantTaken("the first", 1)
	y.wantQuick("answer", y.send(0, 8))
	x.wantTaken("answer", 1)
	x.wantWC("the first", x.wrid-1, ib.WCSuccess)
	x.wantWC("the second", x.wrid, ib.WCLocProtErr)
	x.wantRecv("the answer comes too late", 1, ib.WCWRFlushErr)
	x.wantState("the second", ib.QPErr)
	if !x.node.Pending() {
		t.Error("nothing is to be written")
	}
}

// A sleeping node is woken, once. A node that has stopped polling a ring gets its doorbell.
func TestShortSendWakes(t *testing.T) {
	p, x, y := watchedPair(t)
	for range 3 {
		y.postRecv(1, y.sge(0, 8))
	}
	y.node.ch.Sleep()
	for y.node.PollOutput(p.now, y.batch) {
		if err := y.batch.Apply(x.own.Far()); err != nil {
			t.Fatal(err)
		}
		y.batch.Reset()
	}
	for i, want := range []bool{true, false} {
		x.queueUp(x.send(0, 8))
		if all, wake := x.q.Quick(); !all || wake != want {
			t.Errorf("SEND %d: done %v, wakes %v", i, all, wake)
		}
	}
	y.wantTaken("both", 2)
	x.own.Store4(x.q.far.wordsAt+wire.WatchedWord, 0)
	x.wantSlow("not watched", x.send(0, 8))
	if x.node.PollOutput(p.now, x.batch); !x.batch.Rung() {
		t.Error("the doorbell is not rung")
	}
}

// There are more queue pairs than are watched; some fall silent and others begin. Every message
// comes, while each node does no more than look, and write its output.
func TestManyRings(t *testing.T) {
	p := newPair(t, func(o *options) { o.windowBytes = 4 << 20 })
	p.near()
	const pairs = 3 * maxWatched
	var ends [pairs][2]*end
	for i := range ends {
		ends[i][0], ends[i][1] = p.connected(0x11 + ib.QPN(i))
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	evicted := false
	for round := range 12 {
		for range 3 * staleTakes / 2 {
			i := rnd.IntN(4) + round*2%pairs
			e := &ends[i%pairs]
			x, y := e[round&1], e[1-round&1]
			y.postRecv(7, y.sge(0, 8))
			x.queueUp(x.send(0, 8))
			if all, _ := x.q.Quick(); !all {
				x.q.Doorbell(p.now)
			}
			before := len(y.node.watched)
			was := append([]*rqp(nil), y.node.watched...)
			for tries := 0; len(y.recvs.list) == 0; tries++ {
				if p.step(); tries > 20 {
					t.Fatalf("round %d, queue pair %d: the message does not come", round, i)
				}
			}
			for k := range was {
				evicted = evicted || before == maxWatched && !was[k].watched
			}
			y.wantRecv("message", 7, ib.WCSuccess)
		}
		p.carry()
		for i := range ends {
			for _, e := range ends[i] {
				if len(e.node.watched) > maxWatched {
					t.Fatal("too many are watched")
				}
				for len(e.sends.list) > 0 {
					e.wantWC("SEND", e.sends.list[0].WRID, ib.WCSuccess)
				}
				if e.sq.Len() != 0 {
					t.Fatalf("round %d: %d SENDs of queue pair %d are not done", round, e.sq.Len(), i)
				}
			}
		}
	}
	if !evicted {
		t.Error("no ring made place for another")
	}
}

// A message that arrives between the word that its ring is not watched any more and the
// last look is not left lying.
func TestLastLook(t *testing.T) {
	p, x, y := watchedPair(t)
	r := y.node.watched[0]
	y.postRecv(9, y.sge(0, 8))
	for i := range maxWatched { // others come, and this one was last used long ago
		if i > 0 {
			y.node.watched = append(y.node.watched, &rqp{node: y.node, watched: true, used: 1 << 40})
		}
	}
	y.node.takes = 1 << 20
	other := &rqp{node: y.node, wordsAt: r.wordsAt}
	x.wantQuick("as it is still watched", x.send(0, 8))
	y.node.watch(other, y.batch)
	y.node.watched = y.node.watched[:0]
	if r.watched || !other.watched {
		t.Fatal("it has not made place")
	}
	y.batch.Reset()
	for range 4 {
		p.step()
	}
	y.wantRecv("last look", 9, ib.WCSuccess)
}

// Lines that cannot be are refused as WQEs are.
func TestHostileLines(t *testing.T) {
	for name, change := range map[string]func(b []byte, r *rqp){
		"unknown flag":  func(b []byte, r *rqp) { b[1] |= 0x80 },
		"no operation":  func(b []byte, r *rqp) { b[0] = 0 },
		"longer":        func(b []byte, r *rqp) { b[8], b[16] = 255, 255 },
		"another mark":  func(b []byte, r *rqp) { b[wire.MarkAt]++ },
		"a READ's op":   func(b []byte, r *rqp) { b[0] = byte(wire.WQERead) },
		"done too much": func(b []byte, r *rqp) { b[1], b[4] = b[1]|byte(wire.WQEDone), 200 },
	} {
		t.Run(name, func(t *testing.T) {
			p, x, y := watchedPair(t)
			y.postRecv(1, y.sge(0, 64))
			want := bytes.Clone(y.bytes)
			r := y.node.watched[0]
			w := wire.WQE{Op: wire.WQESend, Flags: wire.WQEFirst | wire.WQELast, Mark: wire.NewPosition(r.generation, r.taken), Length: 8, Bytes: 8}
			b := w.Append(nil)
			change(b, r)
			y.own.CopyIn(r.wqesAt+wire.WQEBytes*uint64(r.taken.Slot(r.cap)), b)
			y.node.Take()
			for range 20 {
				p.step()
			}
			switch name {
			case "another mark":
				y.wantQuiet(name)
			case "done too much":
				y.wantRecv(name, 1, ib.WCSuccess)
				y.wantState(name, ib.QPRTS)
			case "a READ's op":
				y.wantState(name, ib.QPErr)
				copy(want, y.bytes[:0])
			default:
				y.wantState(name, ib.QPErr)
				y.wantRecv(name, 1, ib.WCWRFlushErr)
			}
			if name != "done too much" && !bytes.Equal(y.bytes, want) {
				t.Error("memory has changed")
			}
			_ = x
		})
	}
}

func TestShortSendDoesNotAllocate(t *testing.T) {
	_, x, y := watchedPair(t)
	for _, e := range []*end{x, y} {
		for _, c := range []*completions{&e.sends, &e.recvs} {
			c.list, c.solicited = make([]ib.WC, 0, 4), make([]bool, 0, 4)
		}
	}
	turn := func(from, to *end) {
		w, _ := to.rq.Reserve()
		w.SGE, w.Length = append(w.SGE, to.sge(0, 8)), 8
		to.rq.Commit()
		s, _ := from.sq.Reserve()
		s.Opcode, s.Length, s.SGE = ib.WRSend, 8, append(s.SGE, from.sge(0, 8))
		from.sq.Commit()
		if all, _ := from.q.Quick(); !all || to.node.Take() != 1 {
			t.Fatal("not taken")
		}
		for _, c := range []*completions{&from.sends, &from.recvs, &to.sends, &to.recvs} {
			c.list, c.solicited = c.list[:0], c.solicited[:0]
		}
	}
	if a := testing.AllocsPerRun(100, func() { turn(x, y); turn(y, x) }); a > 0 {
		t.Error(fmt.Sprint(a, " allocations"))
	}
}
