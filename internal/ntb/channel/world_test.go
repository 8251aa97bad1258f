// SPDX-License-Identifier: BSD-2-Clause

package channel

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"

	"verbena/internal/monotime"
	"verbena/internal/ntb/window"
	wire "verbena/internal/wire/ntb"
)

// The simulation: two nodes and the wires between their windows. A write takes
// its time, comes in pieces, and is lost if its writer dies first; a window may
// outlive its owner. The client writes cells that carry the session of both
// ends, so that a stray write shows.

const (
	windowBytes = 0x2000
	cellsAt     = 0x1000
	cellCount   = 64

	appAt    = 0x1800 // memory of the application's, which the peer writes directly
	appWords = 8
	appMark  = 1 << 40 // the application's data there; sessions are larger
)

// node is one process.
type node struct {
	w     *world
	name  string
	peer  *node
	c     *Channel
	own   *window.Window
	batch *Batch

	// the client
	up       bool
	ups      int
	downs    int
	next     uint32 // cell to be written next
	read     uint32 // cells seen
	wirePath []flight
	dead     bool
	badHello bool // the next hello is garbage

	mine     bool // the application has memory in the window
	sessions map[uint64]bool
}

// flight is a write that is under way: a piece of a batch.
type flight struct {
	at   monotime.Time
	to   uint64
	data []byte
	word bool
}

type world struct {
	t     *testing.T
	rnd   *rand.Rand
	now   monotime.Time
	a, b  *node
	trace interface{ Write([]byte) (int, error) }
	hash  func() uint64
	keeps bool // windows outlive their owners
	steps int
	lies  bool // somebody writes sessions that nobody has
}

func newWorld(t *testing.T, seed uint64) *world {
	h := fnv.New64a()
	w := &world{t: t, rnd: rand.New(rand.NewPCG(seed, 5)), trace: h, hash: h.Sum64}
	w.keeps = w.rnd.IntN(2) == 0
	w.a, w.b = &node{w: w, name: "a"}, &node{w: w, name: "b"}
	w.a.peer, w.b.peer = w.b, w.a
	for _, n := range []*node{w.a, w.b} {
		n.own = window.New(make([]byte, windowBytes))
		n.start()
	}
	for _, n := range []*node{w.a, w.b} {
		n.c.Attach(w.now, n.own, windowBytes)
	}
	return w
}

func (n *node) start() {
	n.c = New(n, n.w.rnd.Uint64)
	n.c.Trace = func(from, to State) { fmt.Fprintln(n.w.trace, n.w.now, n.name, from, to) }
	n.batch = NewBatch()
	n.up, n.dead, n.mine, n.sessions = false, false, false, map[uint64]bool{}
}

// crash ends the process: its last writes may be lost. It comes back at once, with the same window
// or with a new one. With a new one the other end sees the back end go.
func (n *node) crash() {
	w := n.w
	fmt.Fprintln(w.trace, w.now, n.name, "crashes")
	n.wirePath = n.wirePath[:w.rnd.IntN(len(n.wirePath)+1)]
	n.start()
	if w.keeps {
		n.c.Attach(w.now, n.own, windowBytes)
		return
	}
	n.own = window.New(make([]byte, windowBytes))
	n.peer.wirePath = nil
	n.wirePath = nil
	n.peer.c.Detach(w.now)
	n.peer.own = window.New(make([]byte, windowBytes))
	n.c.Attach(w.now, n.own, windowBytes)
	n.peer.c.Attach(w.now, n.peer.own, windowBytes)
}

func (n *node) HelloSend(phase uint16, b []byte) []byte {
	if n.badHello {
		n.badHello = false
		return append(b, 0xff)
	}
	switch phase {
	case wire.PhaseResources:
		n.own.Clear(cellsAt, 8*cellCount)
		n.next, n.read = 0, 0
		return wire.Resources{WindowBytes: windowBytes, ArenaAt: n.c.session}.Append(b)
	case wire.PhasePrepare:
		return wire.Prepare{CommandsAt: n.c.session}.Append(b)
	}
	return wire.Ready{}.Append(b)
}

func (n *node) HelloRecv(phase uint16, b []byte) (ok bool) {
	switch phase {
	case wire.PhaseResources:
		var r wire.Resources
		r, _, ok = wire.ParseResources(b)
		n.checkHello(ok, r.ArenaAt)
	case wire.PhasePrepare:
		var p wire.Prepare
		p, _, ok = wire.ParsePrepare(b)
		n.checkHello(ok, p.CommandsAt)
	default:
		_, _, ok = wire.ParseReady(b)
	}
	return ok
}

// checkHello: a hello is of the session that it is taken for.
func (n *node) checkHello(ok bool, session uint64) {
	if ok && !n.w.lies && session != n.c.peer {
		n.w.t.Fatalf("%s: hello of session %#x taken for %#x's", n.name, session, n.c.peer)
	}
}

func (n *node) LinkUp(monotime.Time) {
	if n.up {
		n.w.t.Fatalf("%s: up twice", n.name)
	}
	n.up = true
	n.ups++
}

func (n *node) LinkDown(monotime.Time) {
	if !n.up {
		n.w.t.Fatalf("%s: down twice", n.name)
	}
	n.up = false
	n.downs++
}

// tag returns the mark of a cell of this session, by its writer and its reader.
func tag(writer, reader uint64) uint32 { return uint32(writer^reader<<1) | 1 }

// run lets a node do its work once.
func (n *node) run() {
	w := n.w
	if n.c.NextTimeout() <= w.now {
		n.c.HandleTimeout(w.now)
	}
	if n.c.Handle(w.now) {
		n.checkCells()
	}
	b := n.batch
	n.c.PollOutput(b)
	if n.up && n.next < cellCount && w.rnd.IntN(2) == 0 {
		for range 1 + w.rnd.IntN(3) {
			if n.next < cellCount {
				b.Word8(cellsAt+8*uint64(n.next), uint64(tag(n.c.session, n.c.peer))<<32|uint64(n.next))
				n.next++
			}
		}
		n.c.Ring(b)
	}
	n.useMemory(b)
	n.launch(b)
	b.Reset()
}

// useMemory is an application with memory in the window and a peer that writes there. It takes the
// memory when nobody of an earlier life may write there.
func (n *node) useMemory(b *Batch) {
	w := n.w
	if n.c.state == Down || w.lies {
		return
	}
	n.sessions[n.c.session] = true
	if !n.mine && !n.c.Stale(w.now) {
		n.mine = true
		for i := range uint64(appWords) {
			n.own.Store8(appAt+8*i, appMark)
		}
	}
	if n.up && w.rnd.IntN(8) == 0 {
		b.Word8(appAt+8*uint64(w.rnd.IntN(appWords)), n.c.peer)
	}
	for i := range uint64(appWords) {
		if v := n.own.Load8(appAt + 8*i); n.mine && v != appMark && v != 0 && !n.sessions[v] {
			w.t.Fatalf("%s at %v: memory was written for session %#x, of an earlier process", n.name, w.now, v)
		}
	}
}

// launch puts a batch on the wire, in pieces that arrive in order.
func (n *node) launch(b *Batch) {
	at := n.w.now
	if k := len(n.wirePath); k > 0 {
		at = n.wirePath[k-1].at
	}
	for i := range b.ops {
		o := &b.ops[i]
		data := append([]byte(nil), b.bytes[o.at:o.at+o.n]...)
		at = at.Add(monotime.Duration(n.w.rnd.IntN(int(2 * monotime.Millisecond))))
		if o.word {
			n.wirePath = append(n.wirePath, flight{at, o.to, data, true})
			continue
		}
		for to := o.to; len(data) > 0; {
			k := 1 + n.w.rnd.IntN(len(data))
			n.wirePath = append(n.wirePath, flight{at, to, data[:k], false})
			to, data = to+uint64(k), data[k:]
		}
	}
}

// arrive carries out the writes that have come through.
func (n *node) arrive() {
	for len(n.wirePath) > 0 && n.wirePath[0].at <= n.w.now {
		f := n.wirePath[0]
		n.wirePath = n.wirePath[1:]
		if n.w.keeps || n.c.state != Down {
			if !Take(n.peer.own, wire.Message{To: f.to, Bytes: uint64(len(f.data))}, f.data) {
				n.w.t.Fatalf("%s: write of %d at %#x", n.name, len(f.data), f.to)
			}
		}
	}
}

// checkCells: while up, a cell is of this session's peer, or empty; cells come
// in order.
func (n *node) checkCells() {
	w := n.w
	if w.lies {
		return
	}
	want := tag(n.c.peer, n.c.session)
	seen := uint32(0)
	for i := uint32(0); i < cellCount; i++ {
		v := n.own.Load8(cellsAt + 8*uint64(i))
		if v == 0 {
			break
		}
		if uint32(v>>32) != want || uint32(v) != i {
			w.t.Fatalf("%s at %v: cell %d is %#x, want tag %#x: a stray write", n.name, w.now, i, v, want)
		}
		seen++
	}
	if seen < n.read {
		w.t.Fatalf("%s: %d cells, there were %d", n.name, seen, n.read)
	}
	n.read = seen
}

// step lets time pass and everything happen that is due.
func (w *world) step() {
	w.steps++
	w.now = w.now.Add(monotime.Duration(1 + w.rnd.IntN(int(3*monotime.Millisecond))))
	for _, n := range []*node{w.a, w.b} {
		n.arrive()
		if !n.dead {
			n.run()
		}
	}
	binary.Write(w.trace, binary.LittleEndian, [4]uint32{uint32(w.now), w.a.read, w.b.read, uint32(w.a.c.state)<<8 | uint32(w.b.c.state)})
}

// settle lets the link come up, and all cells arrive.
func (w *world) settle(why string) {
	w.t.Helper()
	for end := w.now.Add(20 * monotime.Second); w.now < end; {
		w.step()
		if w.a.up && w.b.up && w.a.read == cellCount && w.b.read == cellCount {
			if w.a.c.session != w.b.c.peer || w.b.c.session != w.a.c.peer {
				w.t.Fatalf("%s: up with different sessions", why)
			}
			return
		}
	}
	w.t.Fatalf("%s: a is %v (%d cells), b is %v (%d cells)", why, w.a.c.state, w.a.read, w.b.c.state, w.b.read)
}
