// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/ntb/channel"
	"verbena/internal/ntb/window"
	"verbena/internal/qp"
	"verbena/internal/queue"
	"verbena/internal/testkit/oracle"
	wire "verbena/internal/wire/ntb"
)

// The simulation: two nodes with queue pairs between them, a workload, and faults of the link, from
// one seed. Writes take their time and arrive in pieces; or else both map each other's windows, and
// registered memory lies there. Completions and memory are held against package oracle. Under
// faults they are held against its results for some number of the work requests posted.

const (
	areaBytes  = 1 << 15 // of each kind of memory of a queue pair
	guardBytes = 64
	recvBytes  = 2048
	maxPlan    = 24

	staticBytes = 4096 // of a target: only ever read

	userBytes = (4*(areaBytes+guardBytes) + guardBytes + appGrain - 1) &^ (appGrain - 1)
)

// host is a node with its process.
type host struct {
	w     *simWorld
	name  string
	node  *Node
	own   *window.Window
	batch *channel.Batch
	table *mem.Table
	users []*user
	wires []flight // its writes that have not arrived
	sleep int      // steps that the process is stopped for

	process      int // counts them
	mads, frames talk
}

type flight struct {
	at   monotime.Time
	m    wire.Message
	data []byte
}

// user is a queue pair, its memory and its plan.
type user struct {
	h    *host
	q    *QP
	peer *user
	sq   *queue.SendQueue
	rq   *queue.RecvQueue
	recv [2]completions // sends, receives

	all                          []byte
	source, result, target, room area
	keys                         []ib.RKey // of target; all but the first can be invalidated
	plan                         []*oracle.WR
	before                       []byte // target, before the plan
	outcomes                     []oracle.Outcome
	results                      []int // where READs and atomics put their results
	posted, settled, received    int
	recvPosted                   int
	succeeded                    int // work requests up to here are known to have
	failed                       bool
}

// area is a part of a user's memory with a region of its own.
type area struct {
	mr    *mem.Region
	bytes []byte
}

type simWorld struct {
	t        *testing.T
	seed     uint64
	rnd      *rand.Rand
	now      monotime.Time
	a, b     *host
	faulty   bool
	near     bool
	reserved int    // of a window, where near: for users
	epoch    ib.PSN // of connections: see disconnect
	trace    interface{ Write([]byte) (int, error) }
	hash     func() uint64
}

func (w *simWorld) fatalf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d at %v: "+format, append([]any{w.seed, monotime.Duration(w.now)}, args...)...)
}

func newSimWorld(t *testing.T, seed uint64, pairs int) *simWorld {
	h := fnv.New64a()
	w := &simWorld{t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 11)), trace: h, hash: h.Sum64}
	size := []int{MinWindowBytes, 1 << 18, 1 << 20}[w.rnd.IntN(3)]
	w.near, w.reserved = seed%2 == 1, pairs*userBytes
	if w.near {
		size += w.reserved
	}
	w.a, w.b = w.newHost("a", size), w.newHost("b", size)
	for i := range pairs {
		x, y := w.a.newUser(ib.QPN(0x10+i)), w.b.newUser(ib.QPN(0x20+i))
		x.peer, y.peer = y, x
	}
	w.a.attach()
	w.b.attach()
	return w
}

// attach gives a node its back end, to the other's window as it is.
func (h *host) attach() {
	o := h.other()
	if h.w.near {
		h.node.Reach(o.own.Far())
	}
	h.node.Attach(h.w.now, h.own, o.own.Len())
}

func (w *simWorld) newHost(name string, size int) *host {
	h := &host{w: w, name: name, own: window.New(make([]byte, size)), batch: channel.NewBatch()}
	h.start()
	return h
}

// start makes the state of a new process.
func (h *host) start() {
	h.table = mem.NewTable(h.w.rnd.Uint32)
	h.node = New(h.table, h.w.rnd.Uint64)
	if h.w.near {
		h.node.ReserveMemory(h.own.Len(), uint64(h.w.reserved))
	}
	h.users, h.sleep = nil, 0
	h.process++
	h.batch.Reset()
}

func (h *host) other() *host {
	if h == h.w.a {
		return h.w.b
	}
	return h.w.a
}

func (h *host) newUser(n ib.QPN) *user {
	u := &user{h: h, sq: queue.NewSendQueue(12, 4, 200), rq: queue.NewRecvQueue(8, 4), all: make([]byte, 4*(areaBytes+guardBytes)+guardBytes)}
	place := uint64(0)
	if h.w.near {
		var ok bool
		if place, ok = h.node.TakeMemory(userBytes); !ok {
			h.w.t.Fatal("no memory for a user")
		}
		u.all, _ = h.own.Bytes(place, uint64(len(u.all)))
	}
	for i := range u.all {
		u.all[i] = byte(h.w.rnd.Uint32())
	}
	at := guardBytes
	for _, a := range []struct {
		area   *area
		access ib.Access
	}{{&u.source, 0}, {&u.result, ib.AccessLocalWrite}, {&u.room, ib.AccessLocalWrite}, {&u.target, allAccess}} {
		a.area.bytes = u.all[at : at+areaBytes : at+areaBytes]
		var err error
		if a.area.mr, err = h.table.Register(pd, a.area.bytes, base, a.access); err != nil {
			h.w.t.Fatal(err)
		}
		at += areaBytes + guardBytes
	}
	u.keys = []ib.RKey{u.target.mr.RKey()}
	if h.w.near {
		if err := h.node.Expose(u.target.mr, Piece(place+uint64(at)-areaBytes-guardBytes, areaBytes)); err != nil {
			h.w.t.Fatal(err)
		}
	}
	for range 2 {
		r, err := h.table.AllocFast(pd, 1)
		if err != nil {
			h.w.t.Fatal(err)
		}
		r.Map([][]byte{u.target.bytes}, base)
		if v := h.table.FastRegister(pd, r, r.RKey(), allAccess); v != ib.VendorNone {
			h.w.t.Fatal(v)
		}
		u.keys = append(u.keys, r.RKey())
	}
	u.q = h.node.NewQP(qp.Config{QPN: n, PD: pd, Mem: h.table, SQ: u.sq, RQ: u.rq, SendCQ: &u.recv[0], RecvCQ: &u.recv[1]})
	h.users = append(h.users, u)
	return u
}

func (u *user) connect() {
	w := u.h.w
	a := ib.QPAttr{AccessFlags: allAccess, DestQPN: u.peer.q.QPN, MaxRdAtomic: uint8(1 + w.rnd.IntN(4)), MaxDestRdAtomic: 16, MinRNRTimer: uint8(1 + w.rnd.IntN(12)), Timeout: 14, RetryCnt: 7, RNRRetry: 7, SQPSN: w.epoch, RQPSN: w.epoch}
	for _, s := range []ib.QPState{ib.QPInit, ib.QPRTR, ib.QPRTS} {
		a.State = s
		u.q.Modify(w.now, &a, connectMask)
	}
}

// makePlan makes a list of work requests and has the oracle run it.
func (u *user) makePlan(errors bool) {
	w, p := u.h.w, u.peer
	u.plan, u.results, u.posted, u.settled, u.received, u.recvPosted, u.succeeded, u.failed = nil, nil, 0, 0, 0, 0, 0, false
	p.before = bytes.Clone(p.target.bytes)
	at := 0
	for len(u.plan) < maxPlan {
		n := []int{0, 1, wire.MaxInline, wire.MaxInline + 1, 200, 1 + w.rnd.IntN(recvBytes), w.rnd.IntN(areaBytes)}[w.rnd.IntN(7)]
		x := &oracle.WR{ID: uint64(len(u.plan) + 1), Signaled: w.rnd.IntN(3) > 0, Key: p.keys[w.rnd.IntN(len(p.keys))], Imm: w.rnd.Uint32(), Add: w.rnd.Uint64(), Swap: w.rnd.Uint64()}
		x.Opcode = []ib.WROpcode{ib.WRSend, ib.WRSendWithImm, ib.WRRDMAWrite, ib.WRRDMAWrite, ib.WRRDMAWriteWithImm, ib.WRRDMARead, ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd, ib.WRSendWithInv}[w.rnd.IntN(9)]
		if x.Opcode == ib.WRSendWithInv && w.rnd.IntN(3) > 0 {
			x.Opcode = ib.WRSend
		}
		switch x.Opcode {
		case ib.WRSend, ib.WRSendWithImm, ib.WRSendWithInv:
			n = min(n, recvBytes)
			x.InvKey = p.keys[1+w.rnd.IntN(2)]
		case ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd:
			n = 8
		case ib.WRRDMARead:
			n = min(n, areaBytes/maxPlan)
		}
		n = min(n, areaBytes-staticBytes)
		off := staticBytes + w.rnd.IntN(areaBytes-staticBytes-n+1)
		if x.Opcode == ib.WRRDMARead { // without a fence the WRITEs behind it may be first
			off = w.rnd.IntN(staticBytes - n + 1)
		}
		if n == 8 {
			off &^= 7
		}
		x.Addr = base + uint64(off)
		if errors && w.rnd.IntN(12) == 0 {
			x.Addr += areaBytes // outside
		}
		result := at
		switch x.Opcode {
		case ib.WRRDMARead, ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd:
			x.Length = uint32(n)
			at += n
		default:
			from := w.rnd.IntN(areaBytes - n + 1)
			x.Data = u.source.bytes[from : from+n]
		}
		if !errors && x.Opcode == ib.WRSendWithInv || at > areaBytes {
			x.Opcode, x.Length, x.Data = ib.WRSend, 0, nil
			at = result
		}
		u.plan, u.results = append(u.plan, x), append(u.results, result)
	}
	u.plan[maxPlan-1].Signaled = true
	u.outcomes, _, _ = u.consult(len(u.plan))
}

// consult has the oracle run the first n work requests of u on a copy of the peer's memory. It
// returns the copy, with the keys that are left.
func (u *user) consult(n int) ([]oracle.Outcome, []byte, map[ib.RKey]oracle.Range) {
	p := u.peer
	b := bytes.Clone(p.before)
	t := oracle.Target{Keys: map[ib.RKey]oracle.Range{}}
	for _, k := range p.keys {
		t.Keys[k] = oracle.Range{Addr: base, Bytes: b, Access: allAccess}
	}
	var list []oracle.WR
	for _, x := range u.plan[:n] {
		list = append(list, *x)
		t.Recvs = append(t.Recvs, recvBytes)
	}
	return t.Run(list), b, t.Keys
}

// work is the application's part: it posts and polls now and then.
func (u *user) work() {
	w := u.h.w
	if s := u.q.State(); s != ib.QPRTS {
		return
	}
	for u.recvPosted < maxPlan && w.rnd.IntN(2) == 0 {
		r, ok := u.rq.Reserve()
		if !ok {
			break
		}
		at := u.recvPosted % (areaBytes / recvBytes) * recvBytes
		if u.recvPosted-u.received >= areaBytes/recvBytes {
			break // arrivals must still be looked at
		}
		cut := w.rnd.IntN(recvBytes)
		r.WRID, r.Length = uint64(u.recvPosted), recvBytes
		r.SGE = append(r.SGE, ib.SGE{Addr: base + uint64(at), Length: uint32(cut), LKey: u.room.mr.LKey()},
			ib.SGE{Addr: base + uint64(at+cut), Length: uint32(recvBytes - cut), LKey: u.room.mr.LKey()})
		u.rq.Commit()
		u.recvPosted++
	}
	for u.posted < len(u.plan) && w.rnd.IntN(2) == 0 {
		s, ok := u.sq.Reserve()
		if !ok {
			break
		}
		u.fill(s, u.posted)
		if w.rnd.IntN(2) == 0 || !u.q.Send(short(s, u.plan[u.posted].Data)) { // which fills the same slot
			u.sq.Commit()
		}
		u.posted++
	}
	if all, _ := u.q.Quick(); !all {
		u.q.Doorbell(w.now)
	}
}

// short is a work request as one that is not in the send queue yet.
func short(w *queue.SendWQE, data []byte) *queue.Short {
	s := &queue.Short{ID: w.WRID, Op: w.Opcode, Flags: w.Flags, Imm: w.Imm, Key: w.InvalidateKey, Bytes: len(data)}
	if len(w.SGE) > 0 { // its elements lie side by side
		s.Local = ib.SGE{Addr: w.SGE[0].Addr, Length: w.Length, LKey: w.SGE[0].LKey}
	}
	copy(s.Data[:], data)
	return s
}

func (u *user) fill(s *queue.SendWQE, i int) {
	w, x := u.h.w, u.plan[i]
	s.WRID, s.Opcode, s.Imm, s.RKey, s.RemoteAddr, s.InvalidateKey = x.ID, x.Opcode, x.Imm, x.Key, x.Addr, x.InvKey
	s.CompareAdd, s.Swap = x.Add, x.Swap
	if x.Signaled {
		s.Flags |= ib.SendSignaled
	}
	if w.rnd.IntN(6) == 0 {
		s.Flags |= ib.SendFence
	}
	if x.Length > 0 {
		s.Length = x.Length
		s.SGE = append(s.SGE, ib.SGE{Addr: base + uint64(u.results[i]), Length: x.Length, LKey: u.result.mr.LKey()})
		return
	}
	s.Length = uint32(len(x.Data))
	if len(x.Data) <= 200 && w.rnd.IntN(2) == 0 {
		s.Flags |= ib.SendInline
		s.Inline = append(s.Inline, x.Data...)
		return
	}
	from := uint64(areaBytes - cap(x.Data)) // data is a part of source
	cut := w.rnd.IntN(len(x.Data) + 1)
	for _, k := range [][2]int{{0, cut}, {cut, len(x.Data)}} {
		s.SGE = append(s.SGE, ib.SGE{Addr: base + from + uint64(k[0]), Length: uint32(k[1] - k[0]), LKey: u.source.mr.LKey()})
	}
}

// poll takes completions and holds them against the oracle.
func (u *user) poll() {
	w := u.h.w
	for _, wc := range u.recv[0].list {
		fmt.Fprintln(w.trace, u.h.name, wc.WRID, wc.Status)
		i := int(wc.WRID) - 1
		if i < u.settled || i >= u.posted {
			w.fatalf("%s: WR %d completes, %d settled, %d posted", u.h.name, wc.WRID, u.settled, u.posted)
		}
		for k := u.settled; k < i; k++ {
			if u.plan[k].Signaled || u.failed {
				w.fatalf("%s: WR %d got no completion", u.h.name, k+1)
			}
			u.checkResult(k)
		}
		u.settled = i + 1
		want := u.outcomes[i].Status
		switch {
		case w.faulty && (wc.Status == ib.WCWRFlushErr || wc.Status == ib.WCRetryExcErr && !u.failed):
			u.failed = true
			continue
		case wc.Status != want:
			w.fatalf("%s: WR %d (%v) ended with %v (%v), the oracle says %v", u.h.name, wc.WRID, u.plan[i].Opcode, wc.Status, wc.VendorErr, want)
		case u.failed && wc.Status != ib.WCWRFlushErr:
			w.fatalf("%s: WR %d ended with %v after an error", u.h.name, wc.WRID, wc.Status)
		}
		if wc.Status == ib.WCSuccess {
			u.succeeded = i + 1
		} else {
			u.failed = true
		}
		u.checkResult(i)
	}
	for _, wc := range u.recv[1].list {
		fmt.Fprintln(w.trace, u.h.name, "recv", wc.WRID, wc.Status, wc.ByteLen)
		if int(wc.WRID) != u.received {
			w.fatalf("%s: receive %d completes, want %d", u.h.name, wc.WRID, u.received)
		}
		u.received++
		if wc.Status != ib.WCWRFlushErr {
			u.checkReceived(&wc)
		}
	}
	u.recv[0].list, u.recv[1].list = u.recv[0].list[:0], u.recv[1].list[:0]
	u.recv[0].solicited, u.recv[1].solicited = u.recv[0].solicited[:0], u.recv[1].solicited[:0]
	for {
		if _, ok := u.q.PollEvent(); !ok {
			break
		}
	}
}

func (u *user) checkResult(i int) {
	if o := u.outcomes[i]; o.Status == ib.WCSuccess && len(o.Got) > 0 {
		if got := u.result.bytes[u.results[i]:][:len(o.Got)]; !bytes.Equal(got, o.Got) {
			u.h.w.fatalf("%s: WR %d (%v) brought other bytes than the oracle's", u.h.name, i+1, u.plan[i].Opcode)
		}
	}
}

// checkReceived: the message is the next one that the peer's plan has for us.
func (u *user) checkReceived(wc *ib.WC) {
	w, k := u.h.w, int(wc.WRID)
	for i, o := range u.peer.outcomes {
		if o.Received == nil {
			continue
		}
		if k > 0 {
			k--
			continue
		}
		r := o.Received
		at := int(wc.WRID) % (areaBytes / recvBytes) * recvBytes
		if wc.Status != r.Status || wc.Status == ib.WCSuccess && (wc.Opcode != r.Opcode || wc.ByteLen != r.Length || wc.Flags != r.Flags ||
			wc.ImmData != r.Imm || wc.InvalidatedRKey != r.Inv || !bytes.Equal(u.room.bytes[at:at+len(r.Data)], r.Data)) {
			w.fatalf("%s: receive %d is %+v, the oracle has %+v for WR %d", u.h.name, wc.WRID, *wc, *r, i+1)
		}
		return
	}
	w.fatalf("%s: receive %d of a message that nobody sent", u.h.name, wc.WRID)
}

// launch puts a batch on the wire, in pieces that arrive in order.
func (h *host) launch() {
	w := h.w
	if w.near {
		if err := h.batch.Apply(h.other().own.Far()); err != nil {
			w.fatalf("%v", err)
		}
		return
	}
	s, err := h.batch.AppendStream(nil)
	if err != nil {
		w.fatalf("%v", err)
	}
	at := w.now
	if k := len(h.wires); k > 0 {
		at = h.wires[k-1].at
	}
	for len(s) > 0 {
		m, rest, ok := wire.ParseMessage(s)
		if !ok {
			w.fatalf("a stream that is none")
		}
		data := rest[:m.Bytes]
		s = rest[m.Bytes:]
		if w.rnd.IntN(4) == 0 {
			at = at.Add(monotime.Duration(w.rnd.IntN(int(40 * monotime.Microsecond))))
		}
		for len(data) > 0 {
			k := len(data)
			if k > 8 {
				k = 8 * (1 + w.rnd.IntN((k+7)/8))
				k = min(k, len(data))
			}
			h.wires = append(h.wires, flight{at, m, data[:k]})
			m.To, data = m.To+uint64(k), data[k:]
		}
	}
}

func (h *host) step() {
	w := h.w
	for len(h.wires) > 0 && h.wires[0].at <= w.now {
		f := h.wires[0]
		h.wires = h.wires[1:]
		if !channel.Take(h.other().own, f.m, f.data) {
			w.fatalf("%s: a write of %d at %#x", h.name, len(f.data), f.m.To)
		}
	}
	if h.sleep > 0 {
		h.sleep--
		return
	}
	if h.node.NextTimeout() <= w.now {
		h.node.HandleTimeout(w.now)
	}
	h.node.Handle(w.now)
	if w.rnd.IntN(8) == 0 { // it polls, and found nothing
		h.node.Settle()
	}
	for range 1 + w.rnd.IntN(3) {
		if !h.node.PollOutput(w.now, h.batch) {
			break
		}
		h.launch()
		h.batch.Reset()
	}
	for _, u := range h.users {
		u.work()
		u.poll()
	}
	h.talk()
}

func (w *simWorld) step() {
	w.now = w.now.Add(monotime.Duration(1 + w.rnd.IntN(int(50*monotime.Microsecond))))
	w.a.step()
	w.b.step()
	binary.Write(w.trace, binary.LittleEndian, uint64(w.now))
}

func (w *simWorld) users() []*user { return append(append([]*user(nil), w.a.users...), w.b.users...) }

// until steps until done says so.
func (w *simWorld) until(why string, done func() bool) {
	w.t.Helper()
	for end := w.now.Add(30 * monotime.Second); !done(); w.step() {
		if w.now > end {
			for _, u := range w.users() {
				w.t.Logf("%s QP %v: %v, posted %d, settled %d, received %d of %d, far %+v", u.h.name, u.q.QPN, u.q.State(), u.posted, u.settled, u.received, u.recvPosted, u.q.far != nil)
			}
			w.fatalf("%s: never; link %v and %v", why, w.a.node.ch.State(), w.b.node.ch.State())
		}
		if len(w.a.wires)+len(w.b.wires) == 0 && w.rnd.IntN(4) == 0 { // nothing happens: on to the next timer
			next := min(w.a.node.NextTimeout(), w.b.node.NextTimeout())
			if next != monotime.Never {
				w.now = max(w.now, min(next, w.now.Add(monotime.Millisecond)))
			}
		}
	}
}

// guards: nothing outside the areas has changed since check was made.
func (u *user) guards() (check func()) {
	start := bytes.Clone(u.all)
	return func() {
		for i := 0; i < len(u.all); i += areaBytes + guardBytes {
			if !bytes.Equal(u.all[i:i+guardBytes], start[i:i+guardBytes]) {
				u.h.w.fatalf("%s: bytes between the areas changed", u.h.name)
			}
		}
		if !bytes.Equal(u.source.bytes, start[guardBytes:guardBytes+areaBytes]) {
			u.h.w.fatalf("%s: what is only read changed", u.h.name)
		}
	}
}
