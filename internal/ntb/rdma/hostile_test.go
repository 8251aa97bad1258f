// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	wire "verbena/internal/wire/ntb"
)

// A hostile peer writes anything, wherever it can: into every word of the window, with WQEs and
// commands that are nearly right. Nothing panics, and only memory that is open to it changes.
func TestHostilePeer(t *testing.T) {
	written := 0
	for seed := range uint64(less(12, 3)) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		p := newPair(t, func(o *options) { o.windowBytes = 1 << 18; o.access = ib.AccessLocalWrite })
		if seed%2 == 1 { // then rings are looked at without a doorbell, too
			p.near()
		}
		x, y := p.connected(0x11)
		open, err := y.table.Register(pd, y.bytes[4096:8192], base, allAccess)
		if err != nil {
			t.Fatal(err)
		}
		foreign, err := y.table.Register(pd+1, y.bytes[8192:12288], base, allAccess)
		if err != nil {
			t.Fatal(err)
		}
		keys := []ib.RKey{open.RKey(), foreign.RKey(), y.mr.RKey(), 0, ib.RKey(rnd.Uint32())}
		w, n := p.b.own, p.b.node
		for round := range 300 {
			if y.q.State() == ib.QPErr || !n.Up() {
				x.modify(ib.QPReset, 0)
				y.modify(ib.QPReset, 0)
				for range 40 {
					p.step()
					p.now += 1000000
					p.a.node.HandleTimeout(p.now)
					p.b.node.HandleTimeout(p.now)
				}
				x.connect(y.q.QPN)
				y.connect(0x11)
				for range 40 {
					p.step()
				}
			}
			if r := n.rqps[0x11]; r != nil && rnd.IntN(4) > 0 {
				// A WQE of its own making, where the next one is expected.
				e := wire.WQE{Op: wire.WQEOp(rnd.IntN(10)), Flags: wire.WQEFlags(3&^rnd.IntN(8) | rnd.IntN(16)&rnd.IntN(16)), Mark: wire.NewPosition(r.generation+uint32(rnd.IntN(8)/7), r.taken), Key: keys[rnd.IntN(len(keys))]}
				e.Length = []uint32{0, 8, 64, 4096, 4097, 1 << 31, rnd.Uint32N(1 << 20)}[rnd.IntN(7)]
				if e.Bytes = e.Length; rnd.IntN(4) == 0 {
					e.Bytes, e.Offset = uint32(rnd.IntN(5000)), uint32(rnd.IntN(5000))
				}
				e.Addr = []uint64{base, base + 4096, base + 8, ^uint64(0) - 8, base - 1, 0}[rnd.IntN(6)]
				e.DataAt = []uint64{n.own.res.ArenaAt, n.own.res.ArenaAt - 64, ^uint64(0) - 4, w.Len() - 4, n.own.res.ArenaAt + n.own.res.ArenaBytes - 8, 0}[rnd.IntN(6)]
				if rnd.IntN(10) == 0 {
					e.Mark++
				}
				if rnd.IntN(4) == 0 {
					e.Flags, e.Done = e.Flags|wire.WQEDone, wire.Index(rnd.IntN(20)-10)
				}
				w.CopyIn(r.wqesAt+wire.WQEBytes*uint64(r.taken.Slot(r.cap)), e.Append(nil))
				r.kick()
			}
			for range rnd.IntN(4) {
				at := uint64(wire.InfoBytes) + uint64(rnd.IntN(int(w.Len())-wire.InfoBytes))&^3
				w.Store4(at, rnd.Uint32()>>rnd.IntN(32))
			}
			if round%8 == 0 { // commands
				c := append(wire.CommandHeader{Op: wire.Op(8 + rnd.IntN(8)), Index: n.server.taken}.Append(nil), make([]byte, 64)...)
				for i := range 16 {
					c[wire.CommandHeaderBytes+4*i] = byte(rnd.IntN(64))
					c[wire.CommandHeaderBytes+4*i+3] = byte(rnd.IntN(256) * (rnd.IntN(4) / 3))
				}
				w.CopyIn(n.own.commandsAt+wire.CommandBytes*uint64(n.server.taken.Slot(n.peer.CommandCap)), c)
				w.Store4(n.own.postedAt, uint32(n.server.taken)+1)
				w.Store4(n.own.res.BellsAt, rnd.Uint32())
			}
			if n.Up() {
				n.rescan = true
			}
			if rnd.IntN(3) == 0 && y.rq.Len() < 60 && y.q.State() == ib.QPRTS {
				y.postRecv(1, y.sge(4096, 4096))
			}
			for _, d := range []*datagrams{&n.mads, &n.frames} {
				if n.Up() && rnd.IntN(4) == 0 { // a record of its own making, where the next one is expected
					h := wire.RecordHeader{Bytes: rnd.Uint32() >> (20 + rnd.IntN(12)), Index: d.taken + wire.Index(rnd.IntN(16)/15)}
					w.CopyIn(d.in.BytesAt()+uint64(d.taken.Slot(d.in.Cap)), h.Append(nil))
					w.Store4(d.in.PostedAt(), uint32(d.taken)+wire.RecordBytes(h.Bytes)+uint32(rnd.IntN(8)/7*rnd.IntN(1<<20)))
				}
				n.take(p.now, d, make([]byte, rnd.IntN(1<<12)))
				n.put(p.now, d, make([]byte, rnd.IntN(1<<10)))
			}
			p.step()
			x.sends.list, x.recvs.list, y.sends.list, y.recvs.list = nil, nil, nil, nil
		}
		y.wantUntouched("before what is open", 0, 4096)
		y.wantUntouched("behind what is open", 8192, memBytes-8192)
		c := n.Count
		if y.q.Count[Refused] == 0 || c[BadIndex] == 0 || c[BadCommand] == 0 {
			t.Errorf("seed %d: too tame: %d refused, %d bad indices, %d bad commands", seed, y.q.Count[Refused], c[BadIndex], c[BadCommand])
		}
		written += 4096 - bytes.Count(y.bytes[4096:8192], []byte{untouched})
	}
	if written == 0 {
		t.Error("too tame: nothing was written at all")
	}
}

// The original does not check these: a number of pieces beyond the announced one, a position that
// is not the next, the same key twice.
func TestMRCommandsAreChecked(t *testing.T) {
	p := newPair(t)
	n := p.b.node
	piece := [wire.MaxAppendPieces]wire.Piece{{At: 0x8000, Bytes: 100}, {At: 0x9000, Bytes: 100}}
	create := wire.MRCreate{Key: 5, Length: 200, Total: 2, Count: 1}
	create.Pieces[0] = piece[0]
	outside, wraps := create, create
	outside.Key, outside.Pieces[0].At = 6, p.a.own.Len()-99
	wraps.Key, wraps.Addr = 7, ^uint64(0)-198
	for i, c := range []struct {
		op   wire.Op
		body []byte
		want wire.CommandStatus
	}{
		{wire.OpMRAppend, wire.MRAppend{Key: 5, Count: 1, Pieces: piece}.Append(nil), wire.CommandNoSuch},
		{wire.OpMRCreate, outside.Append(nil), wire.CommandMalformed},
		{wire.OpMRCreate, wraps.Append(nil), wire.CommandMalformed},
		{wire.OpMRCreate, create.Append(nil), wire.CommandDone},
		{wire.OpMRCreate, create.Append(nil), wire.CommandExists},
		{wire.OpMRAppend, wire.MRAppend{Key: 5, Pos: 1, Count: 2, Pieces: piece}.Append(nil), wire.CommandMalformed},
		{wire.OpMRAppend, wire.MRAppend{Key: 5, Pos: 0, Count: 1, Pieces: piece}.Append(nil), wire.CommandMalformed},
		{wire.OpMRAppend, wire.MRAppend{Key: 5, Pos: 1, Count: 1, Pieces: piece}.Append(nil), wire.CommandDone},
		{wire.OpMRDelete, wire.MRDelete{Key: 5}.Append(nil), wire.CommandDone},
		{wire.OpMRDelete, wire.MRDelete{Key: 5}.Append(nil), wire.CommandNoSuch},
		{wire.OpQPCreate, wire.QPCreate{QPN: 1, Cap: 3, CQEsAt: 0x8000, DoneAt: 0x9000, Bell: 5}.Append(nil), wire.CommandMalformed},
		{wire.OpQPCreate, wire.QPCreate{QPN: 1, Cap: maxRing * 2, CQEsAt: 0x8000, DoneAt: 0x9000, Bell: 5}.Append(nil), wire.CommandMalformed},
		{wire.OpQPCreate, wire.QPCreate{QPN: 1, Cap: 16, CQEsAt: p.a.own.Len() - 8, DoneAt: 0x9000, Bell: 5}.Append(nil), wire.CommandMalformed},
		{wire.OpQPCreate, wire.QPCreate{QPN: 1, Cap: 16, CQEsAt: 0x100, DoneAt: 0x9000, Bell: 5}.Append(nil), wire.CommandMalformed},
		{wire.OpQPCreate, wire.QPCreate{QPN: 1, Cap: 16, CQEsAt: 0x8000, DoneAt: 0x9001, Bell: 5}.Append(nil), wire.CommandMalformed},
		{wire.OpQPCreate, wire.QPCreate{QPN: 1, Cap: 16, CQEsAt: 0x8000, DoneAt: 0x9000, Bell: 1 << 30}.Append(nil), wire.CommandMalformed},
		{wire.OpQPModify, wire.QPModify{QPN: 1, Dest: 2}.Append(nil), wire.CommandNoSuch},
		{wire.OpQPDelete, wire.QPDelete{QPN: 1}.Append(nil), wire.CommandNoSuch},
		{0x77, nil, wire.CommandUnknown},
	} {
		var room [wire.ResponseBytes]byte
		if got := n.execute(p.now, c.op, append(c.body, make([]byte, wire.CommandBytes)...), room[:0]); got != c.want {
			t.Errorf("%d: %v: %v, want %v", i, c.op, got, c.want)
		}
	}
}

// The room of a queue pair that fails is used for nothing else before the peer
// has said that it reads there no more.
func TestRoomIsKeptUntilThePeerLetsGo(t *testing.T) {
	p := newPair(t)
	x, y := p.connected(0x11)
	slot, _ := x.sq.Reserve()
	w := x.write(0, 200<<10, y, 0)
	slot.Opcode, slot.Length, slot.RemoteAddr, slot.RKey = w.Opcode, w.Length, w.RemoteAddr, w.RKey
	slot.SGE = append(slot.SGE, w.SGE...)
	x.sq.Commit()
	x.q.Doorbell(p.now)
	all := x.node.arena.left
	if !x.node.PollOutput(p.now, x.batch) || x.node.arena.left == all {
		t.Fatal("nothing is on its way")
	}
	if err := x.batch.Apply(p.b.own.Far()); err != nil {
		t.Fatal(err)
	}
	x.batch.Reset()
	x.modify(ib.QPErr, 0)
	if x.node.arena.left == all {
		t.Error("given back while the peer may read it")
	}
	p.carry()
	if x.node.arena.left != all {
		t.Error("not given back")
	}
	x.wantWC("flushed", 0, ib.WCWRFlushErr)
}

// A link that goes down flushes connected queue pairs, once. The others stay.
func TestLinkDownAndUp(t *testing.T) {
	p := newPair(t)
	x, y := p.connected(0x11)
	idle := p.a.newEnd(0x33)
	idle.modify(ib.QPInit, 0)
	idle.postRecv(1, idle.sge(0, 8))
	x.postRecv(7, x.sge(0, 8))
	x.post(x.send(0, 8)) // waits for a receive
	p.a.node.Detach(p.now)
	x.wantWC("posted", 1, ib.WCWRFlushErr)
	x.wantRecv("posted", 7, ib.WCWRFlushErr)
	x.wantEvent("link down", ib.EventQPFatal)
	if e, ok := p.a.node.PollLinkEvent(); !ok || e != ib.EventPortErr {
		t.Errorf("event %v, %v", e, ok)
	}
	idle.wantQuiet("not connected")
	idle.wantState("not connected", ib.QPInit)
	x.modify(ib.QPReset, 0) // and connect while it is down
	x.connect(0x1011)
	x.post(x.write(0, 8, y, 64))
	x.wantQuiet("no link")
	p.a.node.Attach(p.now, p.a.own, p.b.own.Len())
	p.pass(10 * monotime.Millisecond)
	y.wantEvent("link down", ib.EventQPFatal)
	y.modify(ib.QPReset, 0)
	y.connect(0x11)
	p.pass(monotime.Second)
	x.wantWC("with the link back", 2, ib.WCSuccess)
	if e, ok := p.a.node.PollLinkEvent(); !ok || e != ib.EventPortActive {
		t.Errorf("event %v, %v", e, ok)
	}
	p.a.node.Reset(p.now)
	p.pass(monotime.Second) // nobody asks for events until the link is back
	for _, want := range []ib.EventType{ib.EventPortErr, ib.EventPortActive} {
		if e, ok := p.a.node.PollLinkEvent(); !ok || e != want {
			t.Errorf("event %v, %v, want %v", e, ok, want)
		}
	}
}

// The data path allocates nothing.
func TestDataPathDoesNotAllocate(t *testing.T) {
	for _, n := range []int{8, 4096} {
		p := newPair(t)
		x, y := p.connected(0x11)
		x.sends.list = make([]ib.WC, 0, 16)
		x.sends.solicited = make([]bool, 0, 16)
		w, r := x.write(0, n, y, 8192), x.read(0, n, y, 4096)
		step := func() {
			for _, v := range []*struct {
				op   ib.WROpcode
				addr uint64
				sge  []ib.SGE
				key  ib.RKey
			}{{w.Opcode, w.RemoteAddr, w.SGE, w.RKey}, {r.Opcode, r.RemoteAddr, r.SGE, r.RKey}} {
				s, _ := x.sq.Reserve()
				s.Opcode, s.RemoteAddr, s.RKey, s.Length = v.op, v.addr, v.key, uint32(n)
				s.SGE = append(s.SGE, v.sge...)
				x.sq.Commit()
			}
			x.q.Doorbell(p.now)
			for p.step() {
			}
			if len(x.sends.list) != 2 || x.sends.list[1].Status != ib.WCSuccess {
				t.Fatal("not completed")
			}
			x.sends.list, x.sends.solicited = x.sends.list[:0], x.sends.solicited[:0]
		}
		step()
		if a := testing.AllocsPerRun(50, step); a > 0 {
			t.Errorf("%d bytes: %v allocations", n, a)
		}
	}
}

// arena against a map of bytes.
func TestArena(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	a := newArena(100, 1<<16)
	all := a.left
	type one struct{ at, n uint64 }
	var out []one
	owner := map[uint64]bool{}
	for range 20000 {
		if rnd.IntN(2) == 0 {
			n := uint64(1 + rnd.IntN(3000))
			at, ok := a.take(n)
			if !ok {
				continue
			}
			for i := at; i < at+n; i++ {
				if owner[i] || i < 100 || i >= 100+1<<16 {
					t.Fatalf("byte %d given twice, or not ours", i)
				}
				owner[i] = true
			}
			out = append(out, one{at, n})
		} else if len(out) > 0 {
			k := rnd.IntN(len(out))
			x := out[k]
			out[k] = out[len(out)-1]
			out = out[:len(out)-1]
			for i := x.at; i < x.at+x.n; i++ {
				delete(owner, i)
			}
			a.give(x.at, x.n)
		}
	}
	for _, x := range out {
		a.give(x.at, x.n)
	}
	if a.left != all || len(a.free) != 1 {
		t.Errorf("%d of %d bytes in %d parts", a.left, all, len(a.free))
	}
}
