// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"encoding/binary"
	"fmt"
	"testing"

	"verbena/ib"
	"verbena/internal/qp"
	"verbena/internal/queue"
	wire "verbena/internal/wire/ntb"
)

// Lengths at the edges: nothing, inline, a piece, several, more than the arena.
var lengths = []int{0, 1, wire.MaxInline, wire.MaxInline + 1, 4096, maxPiece - 1, maxPiece, maxPiece + 1, 3*maxPiece + 17, 900 << 10}

func TestSend(t *testing.T) {
	for _, n := range lengths {
		p := newPair(t)
		x, y := p.connected(0x11)
		n = min(n, 500<<10)
		want := x.fill(0, n, 1)
		y.postRecv(9, y.sge(1<<19, n/3), y.sge(1<<19+n/3, n-n/3))
		w := x.send(0, n)
		w.Flags = ib.SendSolicited
		x.post(w)
		x.wantWC("SEND", 1, ib.WCSuccess)
		if len(y.recvs.solicited) != 1 || !y.recvs.solicited[0] {
			t.Error("not solicited")
		}
		wc := y.wantRecv("SEND", 9, ib.WCSuccess)
		if wc.ByteLen != uint32(n) || wc.Opcode != ib.WCRecv || wc.SrcQP != 0x11 || wc.Flags != 0 {
			t.Errorf("%+v", wc)
		}
		y.wantBytes("SEND", 1<<19, want)
		y.wantUntouched("behind it", 1<<19+n, 64)
		p.wantAllGiven("SEND", 1)
	}
}

func TestSendWithImmAndInv(t *testing.T) {
	p := newPair(t)
	x, y := p.connected(0x11)
	fast, err := y.table.AllocFast(pd, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fast.Map([][]byte{y.bytes[:64]}, base); err != nil {
		t.Fatal(err)
	}
	y.post(queue.SendWQE{Opcode: ib.WRRegMR, Region: fast, RKey: fast.RKey(), Access: ib.AccessRemoteRead})
	y.wantWC("REG_MR", 1, ib.WCSuccess)
	y.postRecv(1, y.sge(100, 100))
	y.postRecv(2, y.sge(200, 100))
	w := x.send(0, 10)
	w.Opcode, w.Imm = ib.WRSendWithImm, 0xcafe
	v := x.send(0, 10)
	v.Opcode, v.InvalidateKey = ib.WRSendWithInv, fast.RKey()
	r := x.read(500, 8, y, 0)
	r.RKey = fast.RKey()
	x.post(r, w, v, r)
	x.wantWC("READ by the key", 1, ib.WCSuccess)
	x.wantWC("IMM", 2, ib.WCSuccess)
	x.wantWC("INV", 3, ib.WCSuccess)
	x.wantWC("READ by a key that is gone", 4, ib.WCRemAccessErr)
	if wc := y.wantRecv("IMM", 1, ib.WCSuccess); wc.ImmData != 0xcafe || wc.Flags != ib.WCWithImm {
		t.Errorf("%+v", wc)
	}
	if wc := y.wantRecv("INV", 2, ib.WCSuccess); wc.InvalidatedRKey != fast.RKey() || wc.Flags != ib.WCWithInv {
		t.Errorf("%+v", wc)
	}
	y.wantEvent("bad READ", ib.EventQPAccessErr)
}

func TestWriteAndRead(t *testing.T) {
	for _, n := range lengths {
		for _, inline := range []bool{false, true} {
			if inline && n > 256 {
				continue
			}
			p := newPair(t)
			x, y := p.connected(0x11)
			n = min(n, 500<<10)
			want := x.fill(0, n, 2)
			w := x.write(0, n, y, 1<<19)
			if inline {
				w.Flags, w.Inline, w.SGE = ib.SendInline, want, nil
			}
			imm := w
			imm.Opcode, imm.Imm = ib.WRRDMAWriteWithImm, 77
			y.postRecv(3)
			x.post(w, imm, x.read(1<<19, n, y, 1<<19))
			for i := range uint64(3) {
				x.wantWC(fmt.Sprint("WR ", i), i+1, ib.WCSuccess)
			}
			if wc := y.wantRecv("IMM", 3, ib.WCSuccess); wc.ImmData != 77 || wc.ByteLen != uint32(n) || wc.Opcode != ib.WCRecvRDMAWithImm {
				t.Errorf("%+v", wc)
			}
			y.wantBytes("WRITE", 1<<19, want)
			x.wantBytes("READ", 1<<19, want)
			y.wantUntouched("behind the WRITE", 1<<19+n, 64)
			p.wantAllGiven("WRITE and READ", 1)
		}
	}
}

func TestAtomics(t *testing.T) {
	p := newPair(t)
	x, y := p.connected(0x11)
	word := y.bytes[64:72]
	binary.NativeEndian.PutUint64(word, 40)
	x.post(x.fadd(0, y, 64, 2), x.cas(8, y, 64, 42, 1<<40), x.cas(16, y, 64, 42, 5))
	for i, want := range []uint64{40, 42, 1 << 40} {
		wc := x.wantWC("atomic", uint64(i+1), ib.WCSuccess)
		if got := binary.NativeEndian.Uint64(x.bytes[8*i:]); got != want || wc.ByteLen != 8 {
			t.Errorf("atomic %d brought %d, want %d", i, got, want)
		}
	}
	if got := binary.NativeEndian.Uint64(word); got != 1<<40 {
		t.Errorf("the word is %d", got)
	}
	x.post(x.fadd(0, y, 65, 1))
	x.wantWC("misaligned", 4, ib.WCRemInvReqErr)
}

// Whatever the owner must refuse, is refused by the owner, and touches nothing.
func TestOwnerRefuses(t *testing.T) {
	type made struct {
		p    *pair
		x, y *end
	}
	other := func(m made, access ib.Access, of ...byte) ib.RKey {
		r, err := m.y.table.Register(pd+1, m.y.bytes[:4096], base, allAccess)
		if err != nil {
			t.Fatal(err)
		}
		if len(of) == 0 {
			r, err = m.y.table.Register(pd, m.y.bytes[:4096], base, access)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r.RKey()
	}
	for name, c := range map[string]struct {
		wr     func(m made) queue.SendWQE
		status ib.WCStatus
		event  ib.EventType
	}{
		"WRITE, no such key":    {func(m made) queue.SendWQE { w := m.x.write(0, 100, m.y, 0); w.RKey ^= 1; return w }, ib.WCRemAccessErr, ib.EventQPAccessErr},
		"WRITE, another domain": {func(m made) queue.SendWQE { w := m.x.write(0, 100, m.y, 0); w.RKey = other(m, 0, 1); return w }, ib.WCRemAccessErr, ib.EventQPAccessErr},
		"WRITE, no right": {func(m made) queue.SendWQE {
			w := m.x.write(0, 100, m.y, 0)
			w.RKey = other(m, ib.AccessRemoteRead)
			return w
		}, ib.WCRemAccessErr, ib.EventQPAccessErr},
		"WRITE, a byte too many": {func(m made) queue.SendWQE { return m.x.write(0, 100, m.y, memBytes-99) }, ib.WCRemAccessErr, ib.EventQPAccessErr},
		"WRITE, long, too many":  {func(m made) queue.SendWQE { return m.x.write(0, 300<<10, m.y, memBytes-299<<10) }, ib.WCRemAccessErr, ib.EventQPAccessErr},
		"WRITE, address wraps": {func(m made) queue.SendWQE {
			w := m.x.write(0, 100, m.y, 0)
			w.RemoteAddr = ^uint64(0) - 50
			return w
		}, ib.WCRemAccessErr, ib.EventQPAccessErr},
		"READ, no right": {func(m made) queue.SendWQE {
			w := m.x.read(0, 100, m.y, 0)
			w.RKey = other(m, ib.AccessLocalWrite)
			return w
		}, ib.WCRemAccessErr, ib.EventQPAccessErr},
		"READ, a byte too many": {func(m made) queue.SendWQE { return m.x.read(0, 100, m.y, memBytes-99) }, ib.WCRemAccessErr, ib.EventQPAccessErr},
		"atomic, no right": {func(m made) queue.SendWQE {
			w := m.x.fadd(0, m.y, 0, 1)
			w.RKey = other(m, ib.AccessRemoteRead)
			return w
		}, ib.WCRemAccessErr, ib.EventQPAccessErr},
		"SEND, too long": {func(m made) queue.SendWQE { m.y.postRecv(1, m.y.sge(0, 99)); return m.x.send(0, 100) }, ib.WCRemInvReqErr, ib.EventQPReqErr},
		"SEND, bad receive": {func(m made) queue.SendWQE {
			m.y.postRecv(1, ib.SGE{Addr: base, Length: 100, LKey: 1})
			return m.x.send(0, 100)
		}, ib.WCRemOpErr, ib.EventQPFatal},
	} {
		p := newPair(t)
		x, y := p.connected(0x11)
		x.post(c.wr(made{p, x, y}), x.send(0, 1))
		x.wantWC(name, 1, c.status)
		x.wantWC(name+": behind it", 2, ib.WCWRFlushErr)
		y.wantEvent(name, c.event)
		y.wantState(name, ib.QPErr)
		x.wantState(name, ib.QPErr)
		y.wantUntouched(name, 0, memBytes)
		p.wantAllGiven(name, 0)
		if y.q.Count[Refused] != 1 {
			t.Errorf("%s: counted %d times", name, y.q.Count[Refused])
		}
	}
}

// A right that a queue pair does not grant gives an invalid request error, as with RC elsewhere.
func TestQPAccessFlags(t *testing.T) {
	p := newPair(t, func(o *options) { o.attr.AccessFlags = 0 })
	for i, wr := range []func(x, y *end) queue.SendWQE{
		func(x, y *end) queue.SendWQE { return x.write(0, 8, y, 0) },
		func(x, y *end) queue.SendWQE { return x.read(0, 8, y, 0) },
		func(x, y *end) queue.SendWQE { return x.fadd(0, y, 0, 1) },
	} {
		x, y := p.connected(ib.QPN(0x11 + i))
		x.post(wr(x, y))
		x.wantWC("not granted", 1, ib.WCRemInvReqErr)
		y.wantUntouched("not granted", 0, 8)
	}
}

// Local errors take nothing to the peer.
func TestLocalErrors(t *testing.T) {
	for name, c := range map[string]struct {
		wr     func(x, y *end) queue.SendWQE
		status ib.WCStatus
	}{
		"no such key":   {func(x, y *end) queue.SendWQE { w := x.write(0, 100, y, 0); w.SGE[0].LKey ^= 1; return w }, ib.WCLocProtErr},
		"out of bounds": {func(x, y *end) queue.SendWQE { return x.write(memBytes-10, 100, y, 0) }, ib.WCLocProtErr},
		"unknown":       {func(x, y *end) queue.SendWQE { w := x.write(0, 8, y, 0); w.Opcode = ib.WRFlush; return w }, ib.WCLocQPOpErr},
		"short atomic":  {func(x, y *end) queue.SendWQE { w := x.fadd(0, y, 0, 1); w.Length = 4; return w }, ib.WCLocLenErr},
	} {
		p := newPair(t)
		x, y := p.connected(0x11)
		x.post(x.write(0, 8, y, 512), c.wr(x, y), x.write(0, 8, y, 0))
		x.wantWC(name+": before it", 1, ib.WCSuccess)
		x.wantWC(name, 2, c.status)
		x.wantWC(name+": behind it", 3, ib.WCWRFlushErr)
		y.wantUntouched(name, 0, 8)
		y.wantState(name, ib.QPRTS)
	}
}

// A message that finds no receive is tried again as rnr_retry says.
func TestReceiverNotReady(t *testing.T) {
	p := newPair(t)
	x, y := p.connected(0x11)
	want := x.fill(0, 200<<10, 3)
	x.post(x.write(0, 8, y, 0), x.send(0, 200<<10), x.write(0, 8, y, 8))
	x.wantWC("WRITE before", 1, ib.WCSuccess)
	x.wantQuiet("no receive yet")
	y.wantUntouched("a WRITE behind the SEND that waits", 8, 8)
	if p.a.node.arena.left != newArena(p.a.node.peer.ArenaAt, p.a.node.peer.ArenaBytes).left {
		t.Error("what waits takes room from others")
	}
	p.pass(ackTimeout(8)) // 1 ms: one more try in vain
	y.postRecv(5, y.sge(1<<19, 200<<10))
	p.pass(ackTimeout(10))
	x.wantWC("SEND", 2, ib.WCSuccess)
	x.wantWC("WRITE behind", 3, ib.WCSuccess)
	y.wantRecv("SEND", 5, ib.WCSuccess)
	y.wantBytes("SEND", 1<<19, want)
	// WRITE with immediate takes its receive at the end.
	w := x.write(0, 200<<10, y, 1<<18)
	w.Opcode = ib.WRRDMAWriteWithImm
	x.post(w)
	x.wantQuiet("no receive yet")
	y.postRecv(6)
	p.pass(ackTimeout(10))
	x.wantWC("WRITE_IMM", 4, ib.WCSuccess)
	y.wantRecv("WRITE_IMM", 6, ib.WCSuccess)
	p.wantAllGiven("RNR", 1)
	// And for ever is not: 3 retries.
	x.post(x.send(0, 8))
	p.pass(ackTimeout(14))
	x.wantWC("retries used up", 5, ib.WCRNRRetryExcErr)
	if n := x.q.Count[RcvdRNR]; n < 6 {
		t.Errorf("%d RNRs", n)
	}
	x.wantState("retries used up", ib.QPErr)
	y.wantState("its peer does not know", ib.QPRTS)
}

func TestRNRRetryForEver(t *testing.T) {
	p := newPair(t, func(o *options) { o.attr.RNRRetry = 7 })
	x, y := p.connected(0x11)
	x.post(x.send(0, 8))
	p.pass(ackTimeout(14))
	x.wantQuiet("for ever")
	y.postRecv(1, y.sge(0, 8))
	p.pass(ackTimeout(10))
	x.wantWC("at last", 1, ib.WCSuccess)
}

// A sender waits until its peer is ready, as long as retry_cnt says.
func TestPeerNotReadyYet(t *testing.T) {
	p := newPair(t)
	x, y := p.a.newEnd(0x11), p.b.newEnd(0x22)
	x.connect(0x22)
	x.post(x.write(0, 8, y, 0))
	x.wantQuiet("the peer is in RESET")
	y.modify(ib.QPInit, 0x11)
	p.pass(ackTimeout(14))
	x.wantQuiet("the peer is in INIT")
	y.modify(ib.QPRTR, 0x11)
	p.pass(2 * ackTimeout(14))
	x.wantWC("the peer is in RTR", 1, ib.WCSuccess)

	z := p.a.newEnd(0x12)
	z.connect(0x77)
	z.post(z.write(0, 8, y, 0))
	p.pass(2 * ackTimeout(14))
	z.wantQuiet("nobody there")
	p.pass(3 * ackTimeout(14))
	z.wantWC("nobody there", 1, ib.WCRetryExcErr)
}

// A queue pair works only for the one that it names itself.
func TestConnectionIsMutual(t *testing.T) {
	p := newPair(t, func(o *options) { o.attr.RetryCnt = 0 })
	_, y := p.connected(0x11)
	z := p.a.newEnd(0x12)
	z.connect(y.q.QPN)
	z.post(z.write(0, 8, y, 0))
	p.pass(2 * ackTimeout(14))
	z.wantWC("an intruder", 1, ib.WCRetryExcErr)
	y.wantUntouched("an intruder", 0, 8)
	y.wantState("an intruder", ib.QPRTS)
}

func TestPeerInErrorState(t *testing.T) {
	p := newPair(t)
	x, y := p.connected(0x11)
	y.modify(ib.QPErr, 0x11)
	x.post(x.write(0, 8, y, 0))
	x.wantQuiet("the peer may come back")
	p.pass(5 * ackTimeout(14))
	x.wantWC("the peer has failed", 1, ib.WCRetryExcErr)
	p.carry()
	p.wantAllGiven("after errors", 0)
}

func TestSharedReceiveQueue(t *testing.T) {
	limit := 0
	srq := queue.NewSRQ(8, 2, func() { limit++ })
	p := newPair(t)
	var xs, ys []*end
	for i := range 2 {
		n := ib.QPN(0x11 + i)
		x, y := p.a.newEnd(n), p.b.newEnd(n+0x1000, func(c *qp.Config) { c.RQ, c.SRQ, c.SRQPD = srq, true, pd+1 })
		x.connect(n + 0x1000)
		y.connect(n)
		xs, ys = append(xs, x), append(ys, y)
	}
	p.carry()
	shared, err := p.b.table.Register(pd+1, p.b.bytes, base, ib.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if err := srq.Post(uint64(i), []ib.SGE{{Addr: base + uint64(1000*i), Length: 1000, LKey: shared.LKey()}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := srq.SetLimit(2); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		xs[i%2].post(xs[i%2].send(0, 100*(i+1)))
		if wc := ys[i%2].wantRecv("SEND", uint64(i), ib.WCSuccess); wc.ByteLen != uint32(100*(i+1)) {
			t.Errorf("%+v", wc)
		}
	}
	if limit != 1 {
		t.Errorf("limit event %d times", limit)
	}
	ys[0].modify(ib.QPErr, 0x11)
	ys[0].wantEvent("SRQ", ib.EventQPLastWQEReached)
	if srq.Len() != 1 {
		t.Error("a shared receive was flushed")
	}
}

func TestMemoryWindow(t *testing.T) {
	for _, typ := range []ib.MWType{ib.MWType1, ib.MWType2} {
		p := newPair(t, func(o *options) { o.attr.MaxRdAtomic = 1 })
		x, y := p.connected(0x11)
		w, err := y.table.AllocWindow(pd, typ)
		if err != nil {
			t.Fatal(err)
		}
		key := w.RKey().Next()
		y.post(queue.SendWQE{Opcode: ib.WRBindMW, Window: w, Region: y.mr, RKey: key, BindAddr: base + 100, BindLen: 50, Access: ib.AccessRemoteWrite})
		y.wantWC("BIND_MW", 1, ib.WCSuccess)
		in := x.write(0, 50, y, 100)
		in.RKey = key
		x.post(in)
		x.wantWC("within", 1, ib.WCSuccess)
		out := x.write(0, 51, y, 100)
		out.RKey = key
		x.post(out)
		x.wantWC("beyond", 2, ib.WCRemAccessErr)
	}
}

// Fence: a fenced request waits for READs before it.
func TestFenceAndReadDepth(t *testing.T) {
	p := newPair(t, func(o *options) { o.attr.MaxRdAtomic = 1 })
	x, y := p.connected(0x11)
	y.fill(0, 4096, 5)
	f := x.write(0, 4096, y, 8192)
	f.Flags = ib.SendFence
	list := []queue.SendWQE{x.read(0, 4096, y, 0), f, x.read(4096, 100<<10, y, 0), x.read(200<<10, 8, y, 0)}
	x.post(list...)
	for i := range list {
		x.wantWC("WR", uint64(i+1), ib.WCSuccess)
	}
	y.wantBytes("what the fenced WRITE sends is what the READ brought", 8192, y.bytes[:4096])
}

// A region in its owner's window is written to without the arena; the owner
// checks all the same.
func TestRegionInWindow(t *testing.T) {
	p := newPair(t)
	x, y := p.connected(0x11)
	at, ok := y.node.own.pool.take(200 << 10)
	if !ok {
		t.Fatal("no room")
	}
	buf, _ := y.own.Bytes(at, 200<<10)
	mr, err := y.table.Register(pd, buf, base, allAccess)
	if err != nil {
		t.Fatal(err)
	}
	var pieces []wire.Piece // many, for MR_APPEND, and of any length
	for left, step := uint64(200<<10), uint64(1000); left > 0; step += 777 {
		n := min(step, left)
		pieces = append(pieces, wire.Piece{At: at + 200<<10 - left, Bytes: n})
		left -= n
	}
	if len(pieces) <= wire.MaxCreatePieces {
		t.Fatalf("%d pieces", len(pieces))
	}
	if err := y.node.Expose(mr, pieces[1:]); err == nil {
		t.Error("a region that is longer than its pieces")
	}
	if err := y.node.Expose(mr, pieces); err != nil {
		t.Fatal(err)
	}
	p.carry()
	want := x.fill(0, 150<<10, 6)
	w := x.write(0, 150<<10, y, 5000)
	w.RKey = mr.RKey()
	x.post(w)
	x.wantWC("WRITE", 1, ib.WCSuccess)
	if string(buf[5000:5000+150<<10]) != string(want) {
		t.Error("not in place")
	}
	if x.q.Count[SentPlaced] == 0 || x.q.Count[SentBytes] != 0 {
		t.Errorf("%d bytes placed, %d through the arena", x.q.Count[SentPlaced], x.q.Count[SentBytes])
	}
	y.node.Withdraw(p.now, mr)
	if y.node.Withdrawn(p.now, mr) {
		t.Error("withdrawn before the peer has said so")
	}
	p.carry()
	if !y.node.Withdrawn(p.now, mr) {
		t.Error("not withdrawn")
	}
	placed := x.q.Count[SentPlaced]
	x.post(w)
	x.wantWC("through the arena", 2, ib.WCSuccess)
	if x.q.Count[SentPlaced] != placed {
		t.Error("written directly after it was withdrawn")
	}
	if err := y.table.Deregister(mr); err != nil {
		t.Fatal(err)
	}
	x.post(w)
	x.wantWC("deregistered", 3, ib.WCRemAccessErr)
}

// SQD: requests in progress end, no new one starts.
func TestDrain(t *testing.T) {
	p := newPair(t)
	x, y := p.connected(0x11)
	a := ib.QPAttr{State: ib.QPSQD, EnSQDAsyncNotify: true}
	x.q.Modify(p.now, &a, ib.QPStateAttr|ib.QPEnSQDAsyncNotify)
	x.wantEvent("nothing to drain", ib.EventSQDrained)
	x.post(x.write(0, 8, y, 0))
	x.wantQuiet("drained")
	x.q.Modify(p.now, &ib.QPAttr{State: ib.QPRTS}, ib.QPStateAttr)
	p.carry()
	x.wantWC("goes on", 1, ib.WCSuccess)
}

// RESET forgets, and the queue pair can be connected again, to another.
func TestResetAndConnectAgain(t *testing.T) {
	p := newPair(t)
	x, y := p.connected(0x11)
	for i := range 5 {
		x.post(x.write(0, 8, y, 0))
		x.wantWC("WRITE", uint64(i+1), ib.WCSuccess)
		x.modify(ib.QPReset, 0)
		y.modify(ib.QPReset, 0)
		if i%2 == 0 {
			p.carry()
		}
		x.connect(y.q.QPN)
		y.connect(x.q.QPN)
		p.carry()
	}
	p.wantAllGiven("again and again", 1)
	x.q.Destroy(p.now)
	y.q.Destroy(p.now)
	p.carry()
	p.wantAllGiven("destroyed", 0)
}

// More queue pairs than the window has room for: the others wait for room.
func TestWindowFull(t *testing.T) {
	p := newPair(t, func(o *options) { o.windowBytes = MinWindowBytes })
	var ends [][2]*end
	for i := range 12 {
		x, y := p.connected(ib.QPN(0x11 + i))
		ends = append(ends, [2]*end{x, y})
	}
	p.pass(4 * announcePause)
	served := 0
	for i, e := range ends {
		x, y := e[0], e[1]
		x.post(x.write(0, 8, y, 8*i))
		p.pass(announcePause)
		if len(x.sends.list) > 0 {
			x.wantWC("WRITE", 1, ib.WCSuccess)
			served++
		}
		x.q.Destroy(p.now)
		y.q.Destroy(p.now)
		p.pass(4 * announcePause)
	}
	if p.a.node.Count[NoRoom]+p.b.node.Count[NoRoom] == 0 || served < 10 {
		t.Errorf("no room %d and %d times, %d served", p.a.node.Count[NoRoom], p.b.node.Count[NoRoom], served)
	}
}

// A peer whose requests never end does not keep this side's from going out.
func TestRequestsAndAnswersTakeTurns(t *testing.T) {
	p := newPair(t)
	x, y := p.connected(0x11)
	for range 60 {
		x.postQuietly(ib.WRRDMAWrite, 8, 64, y)
	}
	y.postQuietly(ib.WRRDMAWrite, 8, 64, x)
	x.q.Doorbell(p.now)
	for range 10 { // all of x's requests reach y before y answers any
		if x.node.PollOutput(p.now, x.batch) {
			if err := x.batch.Apply(p.b.own.Far()); err != nil {
				t.Fatal(err)
			}
			x.batch.Reset()
		}
	}
	y.q.Doorbell(p.now)
	y.node.Handle(p.now)
	y.node.turn = turns - 1 // the answers' turn is next
	for i := 0; y.q.far.posted == y.q.far.done; i++ {
		if i == 2 {
			t.Fatal("the request waits for all answers")
		}
		if !y.node.PollOutput(p.now, y.batch) {
			t.Fatal("nothing is sent")
		}
		if err := y.batch.Apply(p.a.own.Far()); err != nil {
			t.Fatal(err)
		}
		y.batch.Reset()
	}
	p.carry()
	if len(x.sends.list) != 60 || len(y.sends.list) != 1 {
		t.Errorf("%d and %d completions", len(x.sends.list), len(y.sends.list))
	}
}
