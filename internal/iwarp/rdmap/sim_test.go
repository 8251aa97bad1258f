// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"

	"verbena/ib"
	"verbena/internal/iwarp/mpa"
)

// The simulation: two ends, a workload and faults from one seed. All checks are from outside: every
// work request completes once, in order. The bytes of completed requests are there, and so are
// those sent before a received SEND. Nothing else changed, memory is let go, and the same seed
// gives the same run.

const (
	sourceAt  = 0       // bytes to send
	targetAt  = 1 << 18 // where the peer's WRITEs go, one place each
	recvAt    = 1 << 19 // where SENDs go, one place each
	sinkAt    = 3 << 18 // where READs go, one place each
	wordAt    = 1<<20 - 64
	placeSize = 1 << 13
	maxOps    = 30
)

// op is one operation of the workload and where its bytes are to be.
type op struct {
	code ib.WROpcode
	n    int
	src  int // in the sender's memory; of a READ in the peer's
	dst  int
	id   uint64
	recv int // number of the receive it takes, or -1
}

// player is one end with a record of its actions.
type player struct {
	*end
	peer  *player
	ops   []op
	recvs int // posted
	taken int // of the peer's, by our messages
	sent  []ib.WC
	got   []ib.WC
}

// simulate runs a seed and returns the hash of all that happened.
func simulate(t *testing.T, seed uint64) uint64 {
	rnd := rand.New(rand.NewPCG(seed, 99))
	o := defaults()
	o.crc, o.markers = rnd.IntN(2) == 0, rnd.IntN(4) == 0
	o.mss = []int{300, 536, 1448, 9000, 65483}[rnd.IntN(5)]
	o.ird, o.ord = uint8(1+rnd.IntN(4)), uint8(1)
	o.ord = uint8(1 + rnd.IntN(int(o.ird)))
	o.rtr = []mpa.RTR{mpa.RTREmpty, mpa.RTRWrite, mpa.RTRRead}[rnd.IntN(3)]
	ea, eb := newEnd(t, "a", o, true), newEnd(t, "bb", o, false)
	a, b := &player{end: ea}, &player{end: eb}
	a.peer, b.peer = b, a
	for _, p := range []*player{a, b} {
		p.fill(sourceAt, 1<<18, int(seed)+len(p.name))
		for range maxOps + 4 {
			p.postRecv(uint64(p.recvs), p.sge(recvAt+p.recvs*placeSize, placeSize/3), p.sge(recvAt+p.recvs*placeSize+placeSize/3, placeSize-placeSize/3))
			p.recvs++
		}
	}
	fault := rnd.IntN(5) // 0, 1: none
	after := rnd.IntN(60000)
	total, failed := 0, false
	trace := fnv.New64a()
	for step := range 3000 {
		p := []*player{a, b}[rnd.IntN(2)]
		if rnd.IntN(4) == 0 && len(p.ops) < maxOps && p.sq.Len() < p.sq.Cap() {
			p.perform(rnd)
		}
		p.pump()
		if n := len(p.out); n > 0 && !failed {
			k := 1 + rnd.IntN(min(n, 1<<rnd.IntN(17)))
			piece := p.out[:k:k]
			p.out = p.out[k:]
			total += k
			if fault > 1 && total > after {
				failed = true
				piece = p.fail(rnd, fault, piece)
			}
			if piece != nil {
				p.peer.take(piece, random(rnd), func() bool { return rnd.IntN(2) == 0 })
			}
			if failed && fault == 2 {
				p.s.HandleClose(0, true)
				p.peer.s.HandleClose(0, false)
			}
		}
		if failed && fault > 2 { // the rest flows, as far as it may
			failed, fault = false, 0
		}
		for _, p := range []*player{a, b} {
			p.collect(t, seed, trace)
			for {
				e, ok := p.s.PollEvent()
				if !ok {
					break
				}
				fmt.Fprintf(trace, "%d %s %v\n", step, p.name, e)
			}
		}
	}
	if !ea.s.in.Between() || !eb.s.in.Between() {
		// A flipped length has the receiver wait for bytes that never come. TCP
		// would have to notice, or the application's patience end.
		for _, p := range []*player{a, b} {
			p.s.HandleClose(0, true)
			p.collect(t, seed, trace)
		}
	}
	for _, p := range []*player{a, b} {
		p.finish(t, seed)
	}
	return trace.Sum64()
}

// fail breaks something: the stream, bits on the way, or a key.
func (p *player) fail(rnd *rand.Rand, fault int, piece []byte) []byte {
	switch fault {
	case 2: // cut within the piece
		return piece[:rnd.IntN(len(piece))]
	case 3:
		if p.s.in.CRC {
			piece[rnd.IntN(len(piece))] ^= 1 << rnd.IntN(8)
		}
	case 4: // the peer's key is gone from now on
		if err := p.peer.table.Deregister(p.peer.mr); err != nil {
			p.fatalf("%v", err)
		}
	}
	return piece
}

// perform posts one random operation.
func (p *player) perform(rnd *rand.Rand) {
	i := len(p.ops)
	x := op{code: []ib.WROpcode{ib.WRSend, ib.WRRDMAWrite, ib.WRRDMARead, ib.WRRDMAWriteWithImm, ib.WRAtomicFetchAndAdd}[rnd.IntN(5)], n: rnd.IntN(placeSize), id: p.wrid + 1, recv: -1}
	if rnd.IntN(6) == 0 {
		x.n = 0
	}
	x.src = sourceAt + rnd.IntN(1<<17)
	w := p.write(x.src, x.n, p.peer.end, 0)
	w.Opcode = x.code
	switch x.code {
	case ib.WRSend, ib.WRRDMAWriteWithImm:
		x.recv = p.taken
		p.taken++
		x.dst = recvAt + x.recv*placeSize
		if x.code == ib.WRRDMAWriteWithImm {
			x.dst = targetAt + i*placeSize
			w.Imm = uint32(i)
		}
		w.RemoteAddr = base + uint64(x.dst)
	case ib.WRRDMAWrite:
		x.dst = targetAt + i*placeSize
		w.RemoteAddr = base + uint64(x.dst)
	case ib.WRRDMARead:
		x.dst = sinkAt + i*placeSize
		w = p.read(x.dst, x.n, p.peer.end, x.src)
		if x.n > 10 && rnd.IntN(2) == 0 {
			w.SGE = []ib.SGE{p.sge(x.dst, x.n/3), p.sge(x.dst+x.n/3, x.n-x.n/3)}
		}
	default:
		x.n, x.dst = 8, sinkAt+i*placeSize
		w = p.fadd(x.dst, p.peer.end, wordAt, 1)
	}
	if rnd.IntN(5) == 0 {
		w.Flags |= ib.SendFence
	}
	p.ops = append(p.ops, x)
	p.post(w)
}

// collect takes completions and checks what they promise at once.
func (p *player) collect(t *testing.T, seed uint64, trace interface{ Write([]byte) (int, error) }) {
	for ; len(p.end.sends.list) > 0; p.end.sends.list = p.end.sends.list[1:] {
		wc := p.end.sends.list[0]
		fmt.Fprintf(trace, "%s send %d %v\n", p.name, wc.WRID, wc.Status)
		if want := p.ops[len(p.sent)].id; wc.WRID != want {
			t.Fatalf("seed %d: %s: WR %d completes, want %d", seed, p.name, wc.WRID, want)
		}
		if n := len(p.sent); n > 0 && p.sent[n-1].Status != ib.WCSuccess && wc.Status != ib.WCWRFlushErr {
			t.Fatalf("seed %d: %s: WR %d %v after an error", seed, p.name, wc.WRID, wc.Status)
		}
		if x := p.ops[len(p.sent)]; x.code == ib.WRRDMARead && wc.Status == ib.WCSuccess {
			p.wantBytes(fmt.Sprintf("seed %d: READ %d", seed, x.id), x.dst, p.peer.bytes[x.src:x.src+x.n])
		}
		p.sent = append(p.sent, wc)
	}
	for ; len(p.end.recvs.list) > 0; p.end.recvs.list = p.end.recvs.list[1:] {
		wc := p.end.recvs.list[0]
		fmt.Fprintf(trace, "%s recv %d %v %d\n", p.name, wc.WRID, wc.Status, wc.ByteLen)
		if wc.WRID != uint64(len(p.got)) {
			t.Fatalf("seed %d: %s: receive %d completes, want %d", seed, p.name, wc.WRID, len(p.got))
		}
		p.got = append(p.got, wc)
		if wc.Status == ib.WCSuccess {
			p.checkArrived(t, seed, len(p.got)-1, &wc)
		}
	}
}

// checkArrived: the message of a receive, and all WRITEs before it, are there.
func (p *player) checkArrived(t *testing.T, seed uint64, recv int, wc *ib.WC) {
	for i, x := range p.peer.ops {
		if x.code != ib.WRRDMARead && x.code != ib.WRAtomicFetchAndAdd && (x.code != ib.WRSend || x.recv == recv) {
			p.wantBytes(fmt.Sprintf("seed %d: op %d (%v) before receive %d", seed, i, x.code, recv), x.dst, p.peer.bytes[x.src:x.src+x.n])
		}
		if x.recv != recv {
			continue
		}
		if int(wc.ByteLen) != x.n || (wc.Opcode == ib.WCRecv) != (x.code == ib.WRSend) || x.code == ib.WRRDMAWriteWithImm && int(wc.ImmData) != i {
			t.Fatalf("seed %d: %s: receive %d: %+v, sent %+v", seed, p.name, recv, wc, x)
		}
		return
	}
	t.Fatalf("seed %d: %s: receive %d of no message", seed, p.name, recv)
}

// finish checks what must hold at the end.
func (p *player) finish(t *testing.T, seed uint64) {
	broken := p.s.State() == ib.QPErr
	if len(p.sent) != len(p.ops) {
		t.Fatalf("seed %d: %s: %d of %d work requests completed (%v, peer %v)", seed, p.name, len(p.sent), len(p.ops), p.s.State(), p.peer.s.State())
	}
	if broken != (p.peer.s.State() == ib.QPErr) {
		t.Fatalf("seed %d: %v here, %v there", seed, p.s.State(), p.peer.s.State())
	}
	if broken && len(p.got) != p.recvs {
		t.Fatalf("seed %d: %s: %d of %d receives completed", seed, p.name, len(p.got), p.recvs)
	}
	atomics := 0
	for i, wc := range p.sent {
		if !broken && wc.Status != ib.WCSuccess {
			t.Fatalf("seed %d: %s: WR %d: %v, and nothing was wrong", seed, p.name, wc.WRID, wc.Status)
		}
		if p.ops[i].code == ib.WRAtomicFetchAndAdd && wc.Status == ib.WCSuccess {
			if got := binary.NativeEndian.Uint64(p.bytes[p.ops[i].dst:]); got != 0xeeeeeeeeeeeeeeee+uint64(atomics) {
				t.Fatalf("seed %d: %s: atomic %d brought %#x", seed, p.name, atomics, got)
			}
			atomics++
		}
	}
	if got := binary.NativeEndian.Uint64(p.peer.bytes[wordAt:]) - 0xeeeeeeeeeeeeeeee; got < uint64(atomics) || !broken && got != uint64(atomics) {
		t.Fatalf("seed %d: %s: %d atomics executed, %d completed", seed, p.name, got, atomics)
	}
	// No other byte has changed: behind the bytes of the peer's WRITEs, and in places that no
	// request named.
	for i := range maxOps + 2 {
		n := 0
		if i < len(p.peer.ops) {
			if x := p.peer.ops[i]; x.code == ib.WRRDMAWrite || x.code == ib.WRRDMAWriteWithImm {
				n = x.n
			}
		}
		p.wantUntouched(fmt.Sprintf("seed %d: place %d", seed, i), targetAt+i*placeSize+n, placeSize-n)
	}
	p.freed()
}

func TestSimulation(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 60
	}
	simulate(t, 3270) // a flipped length
	for seed := range seeds {
		if h := simulate(t, seed); seed%10 == 0 {
			if again := simulate(t, seed); again != h {
				t.Fatalf("seed %d: two runs differ", seed)
			}
		}
	}
}

// TestCutAnywhere ends the stream after every byte of a conversation: nothing
// torn completes, everything is flushed.
func TestCutAnywhere(t *testing.T) {
	converse := func(cut int) (a, b *end, sent int) {
		a, b = pair(t, func(o *options) { o.mss = 300 })
		a.fill(0, 1000, 3)
		b.fill(5000, 400, 4)
		b.postRecv(1, b.sge(0, 400))
		b.postRecv(2, b.sge(2000, 10))
		a.post(a.write(0, 500, b, 1000), a.send(100, 400), a.read(4000, 400, b, 5000), a.send(0, 10))
		for range 100 {
			a.pump()
			b.pump()
			for _, x := range []struct{ from, to *end }{{a, b}, {b, a}} {
				n := min(len(x.from.out), cut-sent)
				sent += n
				x.to.take(x.from.out[:n], whole, always)
				x.from.out = x.from.out[n:]
			}
			if sent == cut {
				break
			}
		}
		return a, b, sent
	}
	_, _, total := converse(1 << 30)
	if total < 1500 {
		t.Fatalf("%d bytes", total)
	}
	for cut := range total {
		a, b, _ := converse(cut)
		for _, e := range []*end{a, b} {
			e.s.HandleClose(0, false)
			e.s.HandleClose(0, true)
			e.wantState("cut", ib.QPErr)
			e.freed()
		}
		if len(a.sends.list) != 4 || len(b.recvs.list) != 2 {
			t.Fatalf("cut at %d: %d and %d completions", cut, len(a.sends.list), len(b.recvs.list))
		}
		if b.recvs.list[0].Status == ib.WCSuccess {
			b.wantBytes("SEND", 0, a.bytes[100:500])
			b.wantBytes("WRITE before it", 1000, a.bytes[:500])
		}
		if a.sends.list[2].Status == ib.WCSuccess {
			a.wantBytes("READ", 4000, b.bytes[5000:5400])
		}
	}
}

// FuzzInput feeds anything to a responder: it may end the stream, it must not
// touch memory that is not granted, and pieces are as one.
func FuzzInput(f *testing.F) {
	a, b := pair(f, func(o *options) { o.crc, o.memory = false, 1<<12 })
	a.post(a.write(0, 30, b, 100), a.send(0, 20), a.read(0, 10, b, 100), a.fadd(0, b, 64, 1))
	f.Add(a.out, uint64(1))
	f.Add(readSegment(readOfAll(b)), uint64(2))
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		run := func(chunk func(int) int, direct func() bool) *end {
			_, b := pair(t, func(o *options) { o.crc, o.memory = false, 1<<12 })
			b.postRecv(1, b.sge(0, 100))
			b.take(in, chunk, direct)
			b.s.HandleClose(0, true)
			b.freed()
			if len(b.recvs.list) == 0 {
				t.Fatal("the receive has no fate")
			}
			return b
		}
		one := run(whole, never)
		many := run(random(rand.New(rand.NewPCG(seed, 5))), always)
		if one.recvs.list[0] != many.recvs.list[0] || string(one.bytes) != string(many.bytes) || one.s.Counters()[RcvdMessages] != many.s.Counters()[RcvdMessages] {
			t.Fatalf("in one piece %+v, in many %+v", one.recvs.list[0], many.recvs.list[0])
		}
	})
}
