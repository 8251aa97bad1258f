// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"verbena/ib"
	"verbena/internal/iwarp/trp"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	"verbena/internal/queue"
	wiretrp "verbena/internal/wire/trp"
)

var (
	clientAt = netip.MustParseAddrPort("192.0.2.1:40000")
	serverAt = netip.MustParseAddrPort("192.0.2.2:40001")
	listenAt = netip.MustParseAddrPort("192.0.2.2:7174")
)

// peer is one end of an association. Its output waits in out.
type peer struct {
	*end
	a     *Association
	at    netip.AddrPort
	burst *trp.Burst
	out   [][]byte
	link  []trp.Event
}

const segmentBytes = 1038 // 1,024 bytes and the headers of a WRITE

func newPeer(t testing.TB, name string, at netip.AddrPort, o options) *peer {
	seed := uint32(len(name)) * 77
	p := &peer{at: at, burst: trp.NewBurst(), end: &end{t: t, name: name, nothing: true,
		bytes: bytes.Repeat([]byte{untouched}, o.memory), sq: queue.NewSendQueue(64, 8, 256), rq: queue.NewRecvQueue(64, 8),
		table: mem.NewTable(func() uint32 { seed = seed*1664525 + 1013904223; return seed })}}
	var err error
	if p.mr, err = p.table.Register(pd, p.bytes, base, o.access); err != nil {
		t.Fatal(err)
	}
	p.a = NewAssociation(qp.Config{QPN: 0x11, PD: pd, Mem: p.table, SQ: p.sq, RQ: p.rq, SendCQ: &p.sends, RecvCQ: &p.recvs, SignalAll: o.signalAll}, nil)
	p.s = &Stream{QP: p.a.QP} // the checks of end look at it
	return p
}

func (p *peer) modify(o options, states ...ib.QPState) {
	attr := ib.QPAttr{AccessFlags: o.access, MaxRdAtomic: o.ord, MaxDestRdAtomic: o.ird}
	for _, s := range states {
		attr.State = s
		p.a.Modify(p.now, &attr, ib.QPStateAttr|ib.QPAccessFlags|ib.QPMaxQPRdAtomic|ib.QPMaxDestRdAtomic)
	}
}

// pump takes the machine's output, datagram by datagram.
func (p *peer) pump() {
	for p.a.PollOutput(p.now, p.burst) {
		p.burst.Seal()
		all := bytes.Join(p.burst.Iov(), nil)
		for len(all) > 0 {
			n := min(p.burst.SegmentBytes(), len(all))
			p.out = append(p.out, all[:n:n])
			all = all[n:]
		}
		p.burst.Reset()
	}
	for ev, ok := p.a.PollLink(); ok; ev, ok = p.a.PollLink() {
		p.link = append(p.link, ev)
	}
}

func (p *peer) take(from *peer, b []byte) { p.a.HandleInput(p.now, from.at, b) }

func (p *peer) do(list ...queue.SendWQE) {
	p.t.Helper()
	p.end.post(list...)
	p.pump()
}

// talk moves datagrams until neither end sends.
func talk(x, y *peer) {
	for range 10000 {
		x.pump()
		y.pump()
		if len(x.out)+len(y.out) == 0 {
			return
		}
		a, b := x.out, y.out
		x.out, y.out = nil, nil
		for _, d := range a {
			y.take(x, d)
		}
		for _, d := range b {
			x.take(y, d)
		}
	}
	x.fatalf("the two send for ever")
}

func (p *peer) wantLink(why string, kind trp.EventKind, r trp.Reason) {
	p.t.Helper()
	if len(p.link) == 0 {
		p.fatalf("%s: nothing happened to the association, want %v", why, kind)
	}
	ev := p.link[0]
	if p.link = p.link[1:]; ev.Kind != kind || ev.Reason != r {
		p.fatalf("%s: %v (%v), want %v (%v)", why, ev.Kind, ev.Reason, kind, r)
	}
}

// associated returns a client and a server that are connected.
func associated(t testing.TB, change ...func(*options)) (*peer, *peer) {
	t.Helper()
	o := defaults()
	for _, c := range change {
		c(&o)
	}
	a, b := newPeer(t, "a", clientAt, o), newPeer(t, "bb", serverAt, o)
	a.modify(o, ib.QPInit)
	if err := a.a.Dial(0, trp.Config{}, listenAt, wiretrp.Setup{IRD: uint16(o.ird), ORD: uint16(o.ord)}, segmentBytes); err != nil {
		t.Fatal(err)
	}
	l, err := trp.NewListener(trp.Config{}, 0, 5)
	if err != nil {
		t.Fatal(err)
	}
	a.pump()
	c, fresh, again := l.HandleInput(0, clientAt, a.out[0])
	a.out = nil
	if again != nil {
		burst := trp.NewBurst()
		again.PollOutput(0, burst)
		burst.Seal()
		a.a.HandleInput(0, listenAt, slices.Concat(burst.Iov()...))
		a.pump()
		c, fresh, _ = l.HandleInput(0, clientAt, a.out[0])
		a.out = nil
	}
	if !fresh {
		t.Fatal("no request")
	}
	b.modify(o, ib.QPInit)
	if err := b.a.Accept(0, c, wiretrp.Setup{IRD: uint16(o.ird), ORD: uint16(o.ord)}, segmentBytes); err != nil {
		t.Fatal(err)
	}
	b.pump()
	if len(b.link) > 0 {
		t.Fatal("the server is established before the client confirms")
	}
	talk(a, b)
	for _, p := range []*peer{a, b} {
		p.wantLink("the Accept came, and its ACK", trp.EventEstablished, 0)
		p.wantState("established", ib.QPRTS)
	}
	return a, b
}

func TestAssociationTransfers(t *testing.T) {
	a, b := associated(t)
	a.fill(0, 5000, 1)
	b.fill(20000, 3000, 2)
	b.postRecv(1, b.sge(10000, 2000))
	b.postRecv(2, b.sge(15000, 10))
	a.do(a.write(0, 5000, b.end, 1000), a.send(100, 2000), a.read(6000, 3000, b.end, 20000), a.fadd(9008, b.end, 40000, 5), a.cas(9016, b.end, 40000, 0xeeeeeeeeeeeeeeee+5, 7), a.cas(9024, b.end, 40000, 1, 2))
	imm := a.write(0, 10, b.end, 50000)
	imm.Opcode, imm.Imm = ib.WRRDMAWriteWithImm, 77
	a.do(imm)
	a.wantQuietYet()
	talk(a, b)
	for id := range uint64(7) {
		a.wantWC("all are done", id+1, ib.WCSuccess)
	}
	b.wantBytes("WRITE", 1000, a.bytes[:5000])
	b.wantBytes("SEND", 10000, a.bytes[100:2100])
	a.wantBytes("READ", 6000, b.bytes[20000:23000])
	b.wantRecv("SEND", 1, ib.WCSuccess)
	if wc := b.wantRecv("immediate data", 2, ib.WCSuccess); wc.ImmData != 77 || wc.ByteLen != 10 {
		t.Fatalf("%+v", wc)
	}
	word := func(p *peer, at int) uint64 { return binary.NativeEndian.Uint64(p.bytes[at:]) }
	if word(a, 9008) != 0xeeeeeeeeeeeeeeee || word(a, 9016) != 0xeeeeeeeeeeeeeeee+5 || word(a, 9024) != 7 || word(b, 40000) != 7 {
		t.Fatalf("atomics: %#x %#x %#x, there %#x", word(a, 9008), word(a, 9016), word(a, 9024), word(b, 40000))
	}
	a.freed()
	b.freed()
}

// wantQuietYet: nothing completes before the peer has it.
func (p *peer) wantQuietYet() {
	p.t.Helper()
	if len(p.sends.list) > 0 {
		p.fatalf("WR %d completed before it was acknowledged", p.sends.list[0].WRID)
	}
}

// The bytes of each kind of segment, from the tables of urdma's format: TRP
// header (PSN, AckPSN, opcode), then DDP without a length.
func TestAssociationOnTheWire(t *testing.T) {
	a, b := associated(t, func(o *options) { o.memory = 4096 })
	copy(a.bytes, "payload!")
	b.postRecv(1, b.sge(100, 8))
	b.postRecv(2, b.sge(100, 8))
	inv := a.send(0, 8)
	inv.Opcode, inv.InvalidateKey = ib.WRSendWithInv, 0x0a0b0c0d
	a.do(a.write(0, 8, b.end, 0x40), a.send(0, 8), a.read(0x20, 8, b.end, 0x40), a.fadd(0x30, b.end, 0x48, 3), a.cas(0x38, b.end, 0x48, 4, 5), inv)
	key := func(p *peer) string {
		return hex.EncodeToString([]byte{byte(p.mr.RKey() >> 24), byte(p.mr.RKey() >> 16), byte(p.mr.RKey() >> 8), byte(p.mr.RKey())})
	}
	zeros := func(n int) string { return strings.Repeat("00", n) }
	want := []string{
		"00000000 00000000 0000" + "c140" + key(b) + "0000000000010040" + "7061796c6f616421",                                                                           // WRITE, last: STag, TO
		"00000001 00000000 0000" + "4143" + "00000000" + "00000000" + "00000001" + "00000000" + "7061796c6f616421",                                                     // SEND, last: QN 0, MSN 1
		"00000002 00000000 0000" + "4141" + "00000000" + "00000001" + "00000001" + "00000000" + key(a) + "0000000000010020" + "00000008" + key(b) + "0000000000010040", // READ request: QN 1, MSN 1
		"00000003 00000000 0000" + "414a" + "00000000" + "00000001" + "00000002" + "00000000" + "00000000" + "00000000" + key(b) + "0000000000010048" + "0000000000000003" + zeros(24),
		"00000004 00000000 0000" + "414a" + "00000000" + "00000001" + "00000003" + "00000000" + "00000001" + "00000001" + key(b) + "0000000000010048" + "0000000000000005" + zeros(8) + "0000000000000004" + zeros(8),
		"00000005 00000000 0000" + "4144" + "0a0b0c0d" + "00000000" + "00000002" + "00000000" + "7061796c6f616421", // SEND with invalidate
	}
	a.wantOut(want)
	if n := len(a.out[3]); n != 10+70 {
		t.Errorf("an atomic request has %d bytes, want 70 behind the header", n)
	}
	for _, d := range a.out {
		b.take(a, d)
	}
	a.out = nil
	b.pump()
	b.wantOut([]string{
		// The key of a SEND with invalidate does not exist: earlier requests are answered first.
		"00000000 00000006 0000" + "c142" + key(a) + "0000000000010020" + "7061796c6f616421",
		"00000001 00000006 0000" + "414b" + "00000000" + "00000003" + "00000001" + "00000000" + "00000000" + "eeeeeeeeeeeeeeee",
		"00000002 00000006 0000" + "414b" + "00000000" + "00000003" + "00000002" + "00000000" + "00000001" + "eeeeeeeeeeeeeef1",
		"00000003 00000006 0000" + "4147" + "00000000" + "00000002" + "00000001" + "00000000" + "0109" + "c000" + "001a" + "4144" + "0a0b0c0d" + "00000000" + "00000002" + "00000000",
	})
}

// TestAssociationWithUrdma: a peer that does not tell its window has atomics and no
// immediate data.
func TestAssociationWithUrdma(t *testing.T) {
	o := defaults()
	b := newPeer(t, "bb", serverAt, o)
	l, err := trp.NewListener(trp.Config{}, 0, 5)
	if err != nil {
		t.Fatal(err)
	}
	request := wiretrp.Packet{Header: wiretrp.Header{Opcode: wiretrp.Request}, Setup: wiretrp.Setup{IRD: 4, ORD: 4}}
	c, _, _ := l.HandleInput(0, clientAt, request.Append(nil))
	b.modify(o, ib.QPInit)
	if err := b.a.Accept(0, c, wiretrp.Setup{IRD: 4, ORD: 4}, segmentBytes); err != nil {
		t.Fatal(err)
	}
	b.pump()
	b.a.HandleInput(b.now, clientAt, wiretrp.Packet{}.Append(nil)) // an ACK, by which it shows that it is there
	b.pump()
	b.wantLink("urdma's client has sent something", trp.EventEstablished, 0)
	b.out = nil
	b.do(b.fadd(0, b.end, 0, 1), queue.SendWQE{Opcode: ib.WRRDMAWriteWithImm})
	if len(b.out) != 1 || !bytes.HasPrefix(b.out[0][10:], []byte{0x41, 0x4a}) {
		t.Fatalf("sends %x, want an atomic request and no immediate data", b.out)
	}
	b.out = nil
	b.a.HandleInput(b.now, clientAt, fromHex(t, "00000000 00000001 0000"+"414b"+"00000000"+"00000003"+"00000001"+"00000000"+"00000000"+"0000000000000009"))
	b.wantWC("the atomic", 1, ib.WCSuccess)
	b.wantWC("what urdma does not have", 2, ib.WCLocQPOpErr)
}

func (p *peer) wantOut(want []string) {
	p.t.Helper()
	if len(p.out) != len(want) {
		p.t.Errorf("%s sends %d datagrams, want %d", p.name, len(p.out), len(want))
	}
	for i := range min(len(want), len(p.out)) {
		if got, w := hex.EncodeToString(p.out[i]), strings.ReplaceAll(want[i], " ", ""); got != w {
			p.t.Errorf("%s, datagram %d:\n%s, want\n%s", p.name, i, got, w)
		}
	}
}

// Access that is not granted ends the association with a Terminate, and the
// work request with the status of it; nothing is written.
func TestAssociationRefusesAccess(t *testing.T) {
	for name, x := range map[string]struct {
		access ib.Access
		wr     func(a, b *peer) queue.SendWQE
		status ib.WCStatus
	}{
		"READ without the right":    {allAccess &^ ib.AccessRemoteRead, func(a, b *peer) queue.SendWQE { return a.read(0, 8, b.end, 0) }, ib.WCRemAccessErr},
		"atomic without the right":  {allAccess &^ ib.AccessRemoteAtomic, func(a, b *peer) queue.SendWQE { return a.fadd(0, b.end, 0, 1) }, ib.WCRemAccessErr},
		"atomic that is misaligned": {allAccess, func(a, b *peer) queue.SendWQE { return a.fadd(0, b.end, 4, 1) }, ib.WCRemOpErr},
		"READ beyond the end":       {allAccess, func(a, b *peer) queue.SendWQE { return a.read(0, 8, b.end, 4089) }, ib.WCRemAccessErr},
		"READ that wraps around": {allAccess, func(a, b *peer) queue.SendWQE {
			w := a.read(0, 8, b.end, 0)
			w.RemoteAddr = ^uint64(0) - 3
			return w
		}, ib.WCRemAccessErr},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := associated(t, func(o *options) { o.memory, o.access = 4096, x.access })
			a.do(x.wr(a, b), a.send(0, 8))
			talk(a, b)
			a.wantWC("refused", 1, x.status)
			a.wantWC("behind it", 2, ib.WCWRFlushErr)
			b.wantUntouched("the target", 0, 4096)
			a.wantState("a", ib.QPErr)
			b.wantState("b", ib.QPErr)
			a.freed()
			b.freed()
		})
	}
	// A WRITE is complete when the peer has it: the refusal finds it so.
	a, b := associated(t, func(o *options) { o.access = allAccess &^ ib.AccessRemoteWrite })
	a.do(a.write(0, 3000, b.end, 0))
	talk(a, b)
	b.wantUntouched("the target of a WRITE", 0, 3000)
	b.wantState("b", ib.QPErr)
	a.wantState("a", ib.QPErr)
}

// Disconnect sends all that is posted; the other end knows that nothing is
// missing.
func TestAssociationDisconnect(t *testing.T) {
	a, b := associated(t)
	b.postRecv(1, b.sge(0, 10))
	b.postRecv(2, b.sge(0, 10))
	a.do(a.write(0, 100000, b.end, 0), a.send(0, 10))
	a.a.Disconnect(0)
	talk(a, b)
	a.wantWC("WRITE", 1, ib.WCSuccess)
	a.wantWC("SEND", 2, ib.WCSuccess)
	b.wantRecv("SEND", 1, ib.WCSuccess)
	b.wantRecv("none came", 2, ib.WCWRFlushErr)
	b.wantLink("b", trp.EventDisconnected, trp.PeerClose)
	a.wantLink("a", trp.EventDisconnected, trp.LocalClose)
	a.wantState("a", ib.QPErr)
	b.wantState("b", ib.QPErr)
}

// A peer that is silent: the oldest work request says so, the rest is flushed.
func TestAssociationSilence(t *testing.T) {
	a, b := associated(t)
	a.do(a.write(0, 5000, b.end, 0), a.send(0, 10))
	for a.a.NextTimeout() != monotime.Never && a.a.State() == ib.QPRTS {
		a.now = a.a.NextTimeout()
		a.a.HandleTimeout(a.now)
		a.pump()
	}
	a.wantWC("nobody answers", 1, ib.WCRetryExcErr)
	a.wantWC("behind it", 2, ib.WCWRFlushErr)
	a.wantLink("a", trp.EventDisconnected, trp.Timeout)
	a.freed()
}

// When a queue pair fails, the memory of data in flight is the application's at once. Segments that
// are sent again carry the old bytes.
func TestAssociationGivesMemoryBack(t *testing.T) {
	a, b := associated(t)
	a.fill(0, 2000, 1)
	b.postRecv(1, b.sge(0, 2000))
	want := bytes.Clone(a.bytes[:2000])
	a.do(a.send(0, 2000))
	a.out = nil // all is lost
	a.modify(defaults(), ib.QPErr)
	a.wantWC("flushed", 1, ib.WCWRFlushErr)
	a.freed()
	clear(a.bytes[:2000])
	for range 5 {
		a.now = a.a.NextTimeout()
		a.a.HandleTimeout(a.now)
		talk(a, b)
	}
	b.wantRecv("it may have arrived", 1, ib.WCSuccess)
	b.wantBytes("as it was", 0, want)
}

// A torn message does not complete: each prefix of a conversation, and the end
// of the association.
func TestAssociationTorn(t *testing.T) {
	for cut := range 4 {
		a, b := associated(t)
		b.postRecv(1, b.sge(0, 4000))
		a.do(a.send(0, 4000)) // four segments
		for _, d := range a.out[:cut] {
			b.take(a, d)
		}
		a.a.Abort(0)
		a.out = nil
		talk(a, b)
		b.wantRecv("torn", 1, ib.WCWRFlushErr)
		b.wantLink("b", trp.EventDisconnected, trp.PeerAbort)
		a.wantWC("torn", 1, ib.WCWRFlushErr)
		a.freed()
		b.freed()
	}
}

// Segments held back behind a loss take memory of the process. The end of the association gives it
// back.
func TestAssociationGivesBackHeldSegments(t *testing.T) {
	for _, end := range []func(a, b *peer){
		func(a, b *peer) { b.a.Abort(0) },
		func(a, b *peer) { b.a.Modify(0, &ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr) },
		func(a, b *peer) { a.a.Abort(0); talk(a, b) },
	} {
		a, b := associated(t)
		a.do(a.write(0, 5000, b.end, 0))
		for _, d := range a.out[1:] {
			b.take(a, d)
		}
		if left := b.a.reorder.Left(); left != heldBytes-3*(segmentBytes+128)-(5000-4*1024+14+128) {
			t.Errorf("%d bytes are left", left)
		}
		a.out = nil
		end(a, b)
		if left := b.a.reorder.Left(); left != heldBytes {
			t.Errorf("%d bytes are left after the end", left)
		}
	}
}

// A server that urdma is sends right behind its Accept.
// TestAssociationReleased has another owner end the association, under a lock of its own. The queue
// pair keeps the counts of its time, and looks at the association no more.
func TestAssociationReleased(t *testing.T) {
	a, _ := associated(t)
	a.a.Abort(a.now)
	conn := a.a.Conn()
	counts := a.a.AppendCounts(nil)
	if got := a.a.Release(); got != conn {
		t.Fatalf("released %p, not %p", got, conn)
	}
	if !conn.PollOutput(a.now, trp.NewBurst()) {
		t.Fatal("the association sends no FIN")
	}
	if now := a.a.AppendCounts(nil); !slices.Equal(now, counts) {
		t.Errorf("counts %v, %v when the association was released", now, counts)
	}
	if a.a.Conn() != nil || a.a.Release() != nil {
		t.Error("the queue pair still has its association")
	}
}

func TestAssociationEarlySegments(t *testing.T) {
	o := defaults()
	a := newPeer(t, "a", clientAt, o)
	a.modify(o, ib.QPInit)
	if err := a.a.Dial(0, trp.Config{}, listenAt, wiretrp.Setup{IRD: 3, ORD: 7}, segmentBytes); err != nil {
		t.Fatal(err)
	}
	a.postRecv(1, a.sge(0, 2))
	a.pump()
	a.wantOut([]string{"00000000 00020000 1000 0000 0003 0007"})
	a.out = nil
	b := &peer{at: serverAt}
	a.take(b, fromHex(t, "00000000 00000000 2000 0000 0005 0006")) // IRD 5, ORD 6
	a.take(b, fromHex(t, "00000000 00000000 0000 4143 00000000 00000000 00000001 00000000 6869"))
	a.wantRecv("SEND", 1, ib.WCSuccess)
	a.pump()
	a.wantOut([]string{"00000000 00000001 0000"})
	var attr ib.QPAttr
	if a.a.Query(&attr); attr.MaxRdAtomic != 5 || attr.MaxDestRdAtomic != 6 {
		t.Errorf("%d READs of ours, %d of the peer's; want 5 and 6", attr.MaxRdAtomic, attr.MaxDestRdAtomic)
	}
}

// A queue pair that its application has ended wants no association any more.
func TestAssociationTooLate(t *testing.T) {
	o := defaults()
	a := newPeer(t, "a", clientAt, o)
	a.modify(o, ib.QPInit)
	if err := a.a.Dial(0, trp.Config{}, listenAt, wiretrp.Setup{}, segmentBytes); err != nil {
		t.Fatal(err)
	}
	a.pump()
	a.out = nil
	a.modify(o, ib.QPErr)
	a.take(&peer{at: serverAt}, fromHex(t, "00000000 00000400 2000 0000 0000 0000"))
	a.pump()
	a.wantOut([]string{"00000000 00000000 4000"}) // FIN
	a.wantState("a", ib.QPErr)
}

// A SEND that finds no receive is not taken, whether it comes in its turn or
// early; with receives it comes again.
func TestAssociationLateReceive(t *testing.T) {
	a, b := associated(t)
	a.fill(0, 3000, 1)
	a.do(a.write(0, 10, b.end, 5000), a.send(0, 10), a.send(10, 10), a.send(20, 10), a.write(0, 10, b.end, 5010))
	out := a.out
	a.out = nil
	b.postRecv(1, b.sge(0, 10))
	for _, i := range []int{2, 3, 4, 0, 1} { // of three SENDs two come early, and there is one receive
		b.take(a, out[i])
	}
	talk(a, b)
	if n := b.a.Conn().Counters().By[trp.RefusedByUpper]; n == 0 {
		t.Fatal("nothing was refused")
	}
	b.postRecv(2, b.sge(10, 10))
	b.postRecv(3, b.sge(20, 10))
	for range 3 {
		if at := a.a.NextTimeout(); at != monotime.Never {
			a.now = at
			a.a.HandleTimeout(at)
		}
		talk(a, b)
	}
	for id := range uint64(3) {
		b.wantRecv("it came again", id+1, ib.WCSuccess)
	}
	b.wantBytes("SENDs", 0, a.bytes[:30])
	b.wantBytes("WRITE behind them", 5010, a.bytes[:10])
	for id := range uint64(5) {
		a.wantWC("all are done", id+1, ib.WCSuccess)
	}
}

func fromHex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A queue pair is used again after RESET, with an association that has ended.
func TestAssociationAgain(t *testing.T) {
	a, b := associated(t)
	if err := a.a.Dial(0, trp.Config{}, listenAt, wiretrp.Setup{}, segmentBytes); err != trp.ErrState {
		t.Fatalf("a second association: %v", err)
	}
	a.modify(defaults(), ib.QPReset)
	talk(a, b)
	b.wantLink("b", trp.EventDisconnected, trp.PeerClose)
	if err := a.a.Dial(0, trp.Config{}, listenAt, wiretrp.Setup{}, segmentBytes); err != trp.ErrState {
		t.Fatalf("an association of a queue pair in RESET: %v", err)
	}
	a.modify(defaults(), ib.QPInit)
	if err := a.a.Dial(0, trp.Config{}, listenAt, wiretrp.Setup{}, segmentBytes); err != nil {
		t.Fatal(err)
	}
}
