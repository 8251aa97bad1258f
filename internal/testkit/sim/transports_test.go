// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"verbena/ib"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/iwarp/rdmap"
	"verbena/internal/iwarp/trp"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	"verbena/internal/queue"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/simnet"
	"verbena/internal/testkit/oracle"
	wire "verbena/internal/wire/roce"
	wiretrp "verbena/internal/wire/trp"
)

// The same workload runs on every transport: RoCEv2, iWARP on TCP, iWARP on TRP, and NTB links.
// Their queue pairs leave in memory and in completion queues the bytes that the oracle computes, so
// these are the same.

// Places in a side's memory. Places that the peer writes, reads and counts on do not overlap, nor
// do those that this side sends and receives from.
const (
	sideBytes  = receiveAt + messages*maxMessage
	sourceAt   = 0
	resultAt   = 40 << 10
	targetAt   = 80 << 10
	receiveAt  = 120 << 10
	fixedAt    = targetAt + 32<<10 // read by the peer, never written
	countersAt = targetAt + 36<<10
	maxMessage = 5000
	messages   = 24
	slotBytes  = 1700 // of the target, for one WRITE
)

// side is one queue pair and its memory.
type side struct {
	w     *pairWorld
	addr  netip.Addr
	bytes []byte
	start []byte // as it was at the beginning
	table *mem.Table
	mr    *mem.Region
	sq    *queue.SendQueue
	rq    *queue.RecvQueue
	scq   *queue.CQ
	rcq   *queue.CQ
	peer  *side

	list    []oracle.WR
	results []uint64 // where the answer to each goes, 0 for none
	recvs   []int    // the order of the receives posted
	want    []byte   // the memory in the end

	machine pairMachine
	send    func() // takes the machine's output
	armed   monotime.Time
	sent    []ib.WC
	got     []ib.WC
}

// pairMachine is the common interface of the machines of all transports.
type pairMachine interface {
	Doorbell(now monotime.Time)
	HandleTimeout(now monotime.Time)
	NextTimeout() monotime.Time
	PollEvent() (ib.EventType, bool)
}

type pairWorld struct {
	seed  uint64
	net   *simnet.Net
	sides [2]*side
}

// transports make a connected pair of machines. Each has a network of its own
// that behaves as badly as the transport must bear.
var transports = map[string]func(w *pairWorld){
	"RoCEv2":    (*pairWorld).connectRoCE,
	"iWARP/TCP": (*pairWorld).connectTCP,
	"iWARP/TRP": (*pairWorld).connectTRP,
}

func newPairWorld(seed uint64, sky weather) *pairWorld {
	w := &pairWorld{seed: seed, net: simnet.New(seed)}
	f := simnet.Faults{Delay: 10 * monotime.Microsecond, Jitter: 300 * monotime.Microsecond}
	switch sky {
	case mild:
		f.Loss, f.Duplicate, f.Reorder, f.BitFlip = 10, 10, 20, 5
	case storm:
		f.Loss, f.Duplicate, f.Reorder, f.BitFlip, f.Truncate = 80, 80, 150, 30, 20
	}
	w.net.Faults = f
	for i := range w.sides {
		keys := rand.New(rand.NewPCG(seed, uint64(i)))
		s := &side{w: w, addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + i)}), bytes: make([]byte, sideBytes), table: mem.NewTable(keys.Uint32),
			sq: queue.NewSendQueue(64, 8, maxInline), rq: queue.NewRecvQueue(64, 8), scq: queue.NewCQ(128), rcq: queue.NewCQ(128), armed: monotime.Never}
		for k := range s.bytes {
			s.bytes[k] = byte(keys.Uint32())
		}
		s.start = bytes.Clone(s.bytes)
		var err error
		if s.mr, err = s.table.Register(domain, s.bytes, virtual, targetAccess); err != nil {
			panic(err)
		}
		w.sides[i] = s
	}
	w.sides[0].peer, w.sides[1].peer = w.sides[1], w.sides[0]
	return w
}

func (s *side) config(i int) qp.Config {
	return qp.Config{QPN: ib.QPN(0x11 + i), PD: domain, Mem: s.table, SQ: s.sq, RQ: s.rq, SendCQ: s.scq, RecvCQ: s.rcq, SignalAll: true}
}

var pairAttr = ib.QPAttr{
	PathMTU: ib.MTU1024, AccessFlags: targetAccess, MaxRdAtomic: 4, MaxDestRdAtomic: 4, Timeout: 12, RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 1,
}

const pairMask = ^ib.QPEnSQDAsyncNotify

// to sends a datagram; a damaged one is not delivered, as its checksum tells.
func (s *side) to(port uint16, payload []byte) {
	s.w.net.Send(simnet.Datagram{Src: s.addr, Dst: s.peer.addr, SrcPort: port, Payload: payload})
}

func (s *side) attach(deliver func(d *simnet.Datagram)) {
	s.w.net.Attach(s.addr, func(d *simnet.Datagram) {
		if !d.Damaged {
			deliver(d)
			s.turn()
		}
	})
}

func cutBurst(iov [][]byte, size int, each func(b []byte)) {
	all := bytes.Join(iov, nil)
	for len(all) > 0 {
		n := min(size, len(all))
		each(all[:n:n])
		all = all[n:]
	}
}

func (w *pairWorld) connectRoCE() {
	for i, s := range w.sides {
		m := rc.New(roce.Config(s.config(i)))
		s.machine = m
		path := roce.NewPath(s.addr, sourcePort, &ib.GRH{DGID: ib.GIDFromAddr(s.peer.addr)})
		attr := pairAttr
		attr.DestQPN = ib.QPN(0x12 - i)
		for _, attr.State = range []ib.QPState{ib.QPInit, ib.QPRTR, ib.QPRTS} {
			m.Modify(0, &attr, pairMask, path)
		}
		b := roce.NewBurst()
		s.send = func() {
			for m.PollOutput(w.net.Now(), b) {
				b.Seal()
				cutBurst(b.Iov(), b.SegmentBytes(), func(d []byte) { s.to(sourcePort, d) })
				b.Reset()
			}
		}
		s.attach(func(d *simnet.Datagram) {
			var p wire.Packet
			if p.Parse(d.Payload) == wire.WellFormed {
				m.HandleInput(w.net.Now(), &p, &roce.Meta{Src: d.Src, Dst: d.Dst, SrcPort: d.SrcPort})
			}
		})
	}
}

// connectTCP has a stream that loses nothing and keeps its order, in pieces.
func (w *pairWorld) connectTCP() {
	w.net.Faults = simnet.Faults{}
	var at [2]monotime.Time
	for i, s := range w.sides {
		m := rdmap.NewStream(s.config(i))
		s.machine = m
		m.Connect(mpa.Settled{CRC: true}, i == 0, true, 1460)
		attr := pairAttr
		for _, attr.State = range []ib.QPState{ib.QPInit, ib.QPRTR, ib.QPRTS} {
			m.Modify(0, &attr, pairMask)
		}
		b := mpa.NewBurst()
		s.send = func() {
			for m.PollOutput(w.net.Now(), b) {
				all := bytes.Join(b.Iov(), nil)
				n := len(all)
				for len(all) > 0 {
					k := 1 + w.net.Rand.IntN(min(len(all), 4000))
					piece := all[:k:k]
					at[i] = max(at[i], w.net.Now().Add(10*monotime.Microsecond))
					w.net.At(at[i], func() {
						s.peer.machine.(*rdmap.Stream).HandleInput(w.net.Now(), piece)
						s.peer.turn()
					})
					all = all[k:]
				}
				b.Reset()
				m.HandleWritten(w.net.Now(), n)
			}
		}
	}
}

func (w *pairWorld) connectTRP() {
	const listenPort, clientPort, serverPort = 7174, 40000, 40001
	l, _ := trp.NewListener(trp.Config{}, 1, 5)
	setup := wiretrp.Setup{IRD: 4, ORD: 4}
	for i, s := range w.sides {
		m := rdmap.NewAssociation(s.config(i), nil)
		s.machine = m
		attr := pairAttr
		attr.State = ib.QPInit
		m.Modify(0, &attr, pairMask)
		b := trp.NewBurst()
		port := uint16(clientPort + i)
		s.send = func() {
			for m.PollOutput(w.net.Now(), b) {
				b.Seal()
				cutBurst(b.Iov(), b.SegmentBytes(), func(d []byte) { s.to(port, d) })
				b.Reset()
			}
		}
		s.attach(func(d *simnet.Datagram) {
			from := netip.AddrPortFrom(d.Src, d.SrcPort)
			var p wiretrp.Packet
			if i == 1 && p.Parse(d.Payload) == wiretrp.WellFormed && p.Opcode == wiretrp.Request {
				c, fresh, again := l.HandleInput(w.net.Now(), from, d.Payload)
				if again != nil {
					again.PollOutput(w.net.Now(), b)
					b.Seal()
					s.to(port, slices.Concat(b.Iov()...))
					b.Reset()
					return
				}
				if fresh {
					m.Accept(w.net.Now(), c, setup, 1038)
					return
				}
			}
			m.HandleInput(w.net.Now(), from, d.Payload)
		})
	}
	client := w.sides[0].machine.(*rdmap.Association)
	if err := client.Dial(0, trp.Config{}, netip.AddrPortFrom(w.sides[1].addr, listenPort), setup, 1038); err != nil {
		panic(err)
	}
}

// turn does all that follows an event.
func (s *side) turn() {
	s.send()
	for _, ok := s.machine.PollEvent(); ok; _, ok = s.machine.PollEvent() {
	}
	if at := s.machine.NextTimeout(); at < s.armed {
		s.armed = at
		s.w.net.At(at, func() {
			if s.armed != at {
				return
			}
			s.armed = monotime.Never
			if now := s.w.net.Now(); s.machine.NextTimeout() <= now {
				s.machine.HandleTimeout(now)
			}
			s.turn()
		})
	}
}

// plan makes up work for both sides from the seed. Where one of them is to
// fail, with a READ that no key opens, the other only receives.
func (w *pairWorld) plan() {
	rnd := rand.New(rand.NewPCG(w.seed, 0x9))
	fails := rnd.IntN(4) == 0
	failed := false
	for i, s := range w.sides {
		for _, n := range rnd.Perm(messages) {
			slot, _ := s.peer.rq.Reserve()
			slot.WRID, slot.Length = uint64(n), maxMessage
			slot.SGE = append(slot.SGE, ib.SGE{Addr: virtual + uint64(receiveAt+n*maxMessage), Length: maxMessage, LKey: s.peer.mr.LKey()})
			s.peer.rq.Commit()
			s.peer.recvs = append(s.peer.recvs, n)
		}
		if fails && i == 1 {
			return
		}
		reads, result, offset := false, uint64(resultAt), uint64(targetAt)
		for k := range messages {
			x := oracle.WR{ID: uint64(k + 1), Signaled: true, Key: s.peer.mr.RKey(), Addr: virtual + offset}
			from := rnd.IntN(30 << 10)
			x.Data = s.bytes[sourceAt+from:][:rnd.IntN(maxMessage)]
			w := queue.SendWQE{RKey: x.Key, RemoteAddr: x.Addr, WRID: x.ID}
			local := ib.SGE{Addr: virtual + uint64(sourceAt+from), LKey: s.mr.LKey()}
			switch rnd.IntN(8) {
			case 0, 1, 2:
				x.Opcode = ib.WRSend
			case 3, 4:
				x.Opcode, x.Data = ib.WRRDMAWrite, x.Data[:min(len(x.Data), slotBytes)]
			case 5:
				x.Opcode, x.Data, x.Imm = ib.WRRDMAWriteWithImm, x.Data[:min(len(x.Data), slotBytes)], rnd.Uint32()
			case 6:
				x.Opcode, x.Data, x.Length = ib.WRRDMARead, nil, uint32(rnd.IntN(1600))
				x.Addr = virtual + fixedAt + uint64(rnd.IntN(2000))
			case 7:
				x.Opcode, x.Data, x.Length, x.Addr = ib.WRAtomicFetchAndAdd, nil, 8, virtual+countersAt+uint64(8*rnd.IntN(4))
				x.Add = rnd.Uint64()
				if rnd.IntN(2) == 0 {
					x.Opcode, x.Swap = ib.WRAtomicCmpAndSwp, rnd.Uint64()
				}
			}
			offset = targetAt + (offset-targetAt+slotBytes)%(30<<10/slotBytes*slotBytes)
			w.Opcode, w.Imm, w.RemoteAddr, w.CompareAdd, w.Swap = x.Opcode, x.Imm, x.Addr, x.Add, x.Swap
			local.Length = uint32(len(x.Data))
			if answered(x.Opcode) {
				local = ib.SGE{Addr: virtual + result, Length: x.Length, LKey: s.mr.LKey()}
				s.results = append(s.results, result)
				result += 1608
				reads = true
				if fails && !failed && k > messages/2 {
					failed = true
					x.Key ^= 0x1000
					w.RKey = x.Key
					x.Opcode, x.Length = ib.WRRDMARead, max(x.Length, 1)
					w.Opcode, local.Length = x.Opcode, x.Length
				}
			} else {
				s.results = append(s.results, 0)
				if reads { // a READ may be answered after a WRITE behind it has come
					w.Flags, reads = ib.SendFence, false
				}
			}
			slot, _ := s.sq.Reserve()
			sge := slot.SGE
			*slot = w
			slot.Length, slot.SGE, slot.Inline = local.Length, append(sge, local), nil
			s.sq.Commit()
			s.list = append(s.list, x)
		}
	}
}

func answered(o ib.WROpcode) bool {
	return o == ib.WRRDMARead || o == ib.WRAtomicCmpAndSwp || o == ib.WRAtomicFetchAndAdd
}

// play runs one transport and returns its error.
func (w *pairWorld) play() error {
	for _, s := range w.sides {
		w.net.At(1, func() {
			s.machine.Doorbell(w.net.Now())
			s.turn()
		})
	}
	for w.net.Step(monotime.Time(60 * monotime.Second)) {
		done := true
		for _, s := range w.sides {
			s.sent, s.got = drainCQ(s.scq, s.sent), drainCQ(s.rcq, s.got)
			done = done && len(s.sent) == len(s.list)
		}
		if done && w.received() {
			for end := w.net.Now().Add(monotime.Second); w.net.Step(end); { // a WRITE on TCP is complete before it has arrived
			}
			return nil
		}
	}
	return fmt.Errorf("not done: %d and %d of %d and %d", len(w.sides[0].sent), len(w.sides[1].sent), len(w.sides[0].list), len(w.sides[1].list))
}

// received reports whether every message that was sent has its receive.
func (w *pairWorld) received() bool {
	for _, s := range w.sides {
		n := 0
		for i, wc := range s.sent {
			if op := s.list[i].Opcode; wc.Status == ib.WCSuccess && (op == ib.WRSend || op == ib.WRRDMAWriteWithImm) {
				n++
			}
		}
		if len(s.peer.got) < n {
			return false
		}
	}
	return true
}

func drainCQ(q *queue.CQ, list []ib.WC) []ib.WC {
	var wc [8]ib.WC
	for n := q.Poll(wc[:]); n > 0; n = q.Poll(wc[:]) {
		list = append(list, wc[:n]...)
	}
	return list
}

// check holds completions and memory of both sides to the oracle.
func (w *pairWorld) check() error {
	for _, s := range w.sides {
		s.want = bytes.Clone(s.start)
	}
	for i, s := range w.sides {
		if err := s.consult(); err != nil {
			return fmt.Errorf("side %d: %w", i, err)
		}
	}
	for i, s := range w.sides {
		for k := range s.bytes {
			if s.bytes[k] != s.want[k] {
				return fmt.Errorf("side %d: byte %d is %#x, the oracle says %#x", i, k, s.bytes[k], s.want[k])
			}
		}
		if !s.mr.Idle() {
			return fmt.Errorf("side %d: memory is held", i)
		}
	}
	return nil
}

func (s *side) consult() error {
	p := s.peer
	t := oracle.Target{Keys: map[ib.RKey]oracle.Range{p.mr.RKey(): {Addr: virtual, Bytes: p.want, Access: targetAccess}}}
	for range messages {
		t.Recvs = append(t.Recvs, maxMessage)
	}
	n := 0
	for i, o := range t.Run(s.list) {
		x, wc := &s.list[i], &s.sent[i]
		if wc.WRID != x.ID || wc.Status != o.Status || o.Status == ib.WCSuccess && wc.Opcode != ib.WCOf(x.Opcode) {
			return fmt.Errorf("WR %d (%v): %d ended with %v (%v), the oracle says %v", x.ID, x.Opcode, wc.WRID, wc.Status, wc.VendorErr, o.Status)
		}
		copy(s.want[s.results[i]:], o.Got)
		r := o.Received
		if r == nil {
			continue
		}
		if wc := &p.got[n]; wc.WRID != uint64(p.recvs[n]) || wc.Status != r.Status || wc.Opcode != r.Opcode || wc.ByteLen != r.Length || wc.Flags != r.Flags || wc.ImmData != r.Imm {
			return fmt.Errorf("receive %d: %+v, the oracle says %+v", p.recvs[n], *wc, *r)
		}
		copy(p.want[receiveAt+p.recvs[n]*maxMessage:], r.Data)
		n++
	}
	for _, wc := range p.got[n:] {
		if wc.Status != ib.WCWRFlushErr {
			return fmt.Errorf("receive %d has what nobody sent: %+v", wc.WRID, wc)
		}
	}
	return nil
}

// TestTransportsAreAlike runs seeds 1 to 60, or those of VERBENA_SIM_SEEDS.
func TestTransportsAreAlike(t *testing.T) {
	n := uint64(60)
	if testing.Short() {
		n = 15
	}
	first, n := seedRange(t, n)
	failed := 0
	for seed := first; seed < first+n; seed++ {
		for name, connect := range transports {
			w := newPairWorld(seed, weather(seed%3))
			connect(w)
			w.plan()
			err := w.play()
			if err == nil {
				err = w.check()
			}
			if err != nil {
				t.Errorf("seed %d, %s, weather %d: %v", seed, name, seed%3, err)
			}
			for _, s := range w.sides {
				if len(s.sent) > 0 && s.sent[len(s.sent)-1].Status != ib.WCSuccess {
					failed++
				}
			}
		}
	}
	if failed == 0 {
		t.Error("no work request failed")
	}
}
