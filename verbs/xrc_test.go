// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/internal/testkit/loopback"
	"verbena/verbs"
)

// station is a context with an XRC domain and one XRC shared receive queue.
type station struct {
	*end
	xrcd *verbs.XRCD
	srq  *verbs.SRQ
}

// newStation opens a domain with a file, nil for one of its own.
func newStation(t testing.TB, size int, file *os.File) *station {
	t.Helper()
	c, err := verbs.Open(loopback.Device(t))
	check(t, err)
	t.Cleanup(func() { check(t, c.Close()) })
	x, err := c.OpenXRCD(file, os.O_CREATE)
	check(t, err)
	return stationIn(t, c, x, size)
}

func stationIn(t testing.TB, c *verbs.Context, x *verbs.XRCD, size int) *station {
	t.Helper()
	s := &station{end: &end{t: t, ctx: c, buf: make([]byte, size)}, xrcd: x}
	var err error
	s.pd, err = c.AllocPD()
	check(t, err)
	s.cq, err = c.CreateCQ(256, nil)
	check(t, err)
	s.mr, err = s.pd.RegMR(s.buf, allAccess)
	check(t, err)
	s.srq, err = s.pd.CreateXRCSRQ(ib.SRQAttr{MaxWR: 64, MaxSGE: 2}, x, s.cq)
	check(t, err)
	return s
}

func (s *station) post(id uint64, off, n int) {
	s.t.Helper()
	_, err := s.srq.PostRecv(verbs.RecvWR{ID: id, SGList: []ib.SGE{s.mr.SGE(off, n)}})
	check(s.t, err)
}

// initiator returns an XRC_SEND end connected with a new XRC_RECV queue pair
// of the station's domain.
func (s *station) initiator(size int) (from *end, to *verbs.QP) {
	s.t.Helper()
	from = newEnd(s.t, ib.QPTypeXRCSend, size)
	to, err := s.xrcd.CreateQP(nil)
	check(s.t, err)
	s.qp = to
	connectXRC(s.t, from, s.ctx, to)
	return from, to
}

func connectXRC(t testing.TB, from *end, ctx *verbs.Context, to *verbs.QP, change ...func(*ib.QPAttr)) {
	t.Helper()
	for _, q := range []*verbs.QP{from.qp, to} {
		check(t, q.Modify(&ib.QPAttr{State: ib.QPInit, PortNum: 1, AccessFlags: allAccess &^ ib.AccessMWBind}, ib.QPStateAttr|ib.QPPort|ib.QPPKeyIndex|ib.QPAccessFlags))
	}
	route := ib.QPStateAttr | ib.QPAV | ib.QPPathMTU | ib.QPDestQPN | ib.QPRQPSN
	at := func(c *verbs.Context, dest ib.QPN) *ib.QPAttr {
		gid, err := c.QueryGID(1, 0)
		check(t, err)
		return &ib.QPAttr{State: ib.QPRTR, PathMTU: ib.MTU1024, DestQPN: dest, RQPSN: 9, MaxDestRdAtomic: 16, MinRNRTimer: 1,
			AH: ib.AHAttr{IsGlobal: true, PortNum: 1, GRH: ib.GRH{DGID: gid}}}
	}
	check(t, to.Modify(at(from.ctx, from.qp.QPN()), route|ib.QPMaxDestRdAtomic|ib.QPMinRNRTimer))
	check(t, from.qp.Modify(at(ctx, to.QPN()), route))
	rts := &ib.QPAttr{State: ib.QPRTS, SQPSN: 9, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 16}
	for _, f := range change {
		f(rts)
	}
	check(t, from.qp.Modify(rts,
		ib.QPStateAttr|ib.QPSQPSN|ib.QPTimeout|ib.QPRetryCnt|ib.QPRNRRetry|ib.QPMaxQPRdAtomic))
	check(t, to.Modify(&ib.QPAttr{State: ib.QPRTS, SQPSN: 9, Timeout: 14}, ib.QPStateAttr|ib.QPSQPSN|ib.QPTimeout))
}

// TestXRCHalvesSetAlike gives both halves all attributes of an RC queue pair, as perftest does.
// Each half ignores those of the other.
func TestXRCHalvesSetAlike(t *testing.T) {
	b := newStation(t, 64, nil)
	from := newEnd(t, ib.QPTypeXRCSend, 64)
	to, err := b.xrcd.CreateQP(nil)
	check(t, err)
	b.qp = to
	gid, err := b.ctx.QueryGID(1, 0)
	check(t, err)
	a := ib.QPAttr{PortNum: 1, PathMTU: ib.MTU1024, MaxDestRdAtomic: 16, MinRNRTimer: 3, Timeout: 14, RetryCnt: 7, RNRRetry: 6, MaxRdAtomic: 16,
		AH: ib.AHAttr{IsGlobal: true, PortNum: 1, GRH: ib.GRH{DGID: gid}}}
	for _, q := range []struct{ qp, peer *verbs.QP }{{from.qp, to}, {to, from.qp}} {
		a.DestQPN = q.peer.QPN()
		a.State = ib.QPInit
		check(t, q.qp.Modify(&a, ib.QPStateAttr|ib.QPPort|ib.QPPKeyIndex|ib.QPAccessFlags))
		a.State = ib.QPRTR
		check(t, q.qp.Modify(&a, ib.QPStateAttr|ib.QPAV|ib.QPPathMTU|ib.QPDestQPN|ib.QPRQPSN|ib.QPMaxDestRdAtomic|ib.QPMinRNRTimer))
		a.State = ib.QPRTS
		check(t, q.qp.Modify(&a, ib.QPStateAttr|ib.QPSQPSN|ib.QPTimeout|ib.QPRetryCnt|ib.QPRNRRetry|ib.QPMaxQPRdAtomic))
	}
	if got, _ := from.qp.Query(); got.MinRNRTimer != 0 || got.MaxDestRdAtomic != 0 || got.RNRRetry != 6 {
		t.Errorf("the sending half has MinRNRTimer %d, MaxDestRdAtomic %d, RNRRetry %d, want 0, 0, 6", got.MinRNRTimer, got.MaxDestRdAtomic, got.RNRRetry)
	}
	if got, _ := to.Query(); got.RNRRetry != 0 || got.MaxRdAtomic != 0 || got.MinRNRTimer != 3 {
		t.Errorf("the receiving half has RNRRetry %d, MaxRdAtomic %d, MinRNRTimer %d, want 0, 0, 3", got.RNRRetry, got.MaxRdAtomic, got.MinRNRTimer)
	}
}

// TestXRCOperations has every operation go through one connection to shared
// receive queues of two protection domains.
func TestXRCOperations(t *testing.T) { onBothPaths(t, xrcOperations) }

func xrcOperations(t *testing.T) {
	b := newStation(t, 1<<16, nil)
	other := stationIn(t, b.ctx, b.xrcd, 4096)
	if b.srq.Num() == 0 || b.srq.Num() == other.srq.Num() {
		t.Fatalf("numbers %v and %v", b.srq.Num(), other.srq.Num())
	}
	a, recv := b.initiator(1 << 16)
	pattern(a.buf, 1)
	post := func(to *station, wr verbs.SendWR) ib.WC {
		t.Helper()
		wr.RemoteSRQN = to.srq.Num()
		return a.post(wr)
	}

	b.post(5, 0, 1<<16)
	other.post(6, 0, 4096)
	wantStatus(t, post(other, verbs.SendWR{Opcode: ib.WRSendWithImm, ImmData: 77, SGList: []ib.SGE{a.mr.SGE(0, 3000)}}).Status, ib.WCSuccess)
	if wc := other.one(); wc.WRID != 6 || wc.QPN != recv.QPN() || wc.ByteLen != 3000 || wc.ImmData != 77 || string(other.buf[:3000]) != string(a.buf[:3000]) {
		t.Errorf("%+v", wc)
	}
	wantStatus(t, post(b, verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{a.mr.SGE(0, 50000)}}).Status, ib.WCSuccess)
	if wc := b.one(); wc.WRID != 5 || wc.ByteLen != 50000 || string(b.buf[:50000]) != string(a.buf[:50000]) {
		t.Errorf("%+v", wc)
	}
	clear(b.buf)
	b.sync()
	wantStatus(t, post(b, verbs.SendWR{Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{a.mr.SGE(0, 9000)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}).Status, ib.WCSuccess)
	b.sync()
	if string(b.buf[:9000]) != string(a.buf[:9000]) {
		t.Error("WRITE did not arrive as sent")
	}
	clear(a.buf)
	wantStatus(t, post(b, verbs.SendWR{Opcode: ib.WRRDMARead, SGList: []ib.SGE{a.mr.SGE(0, 9000)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}).Status, ib.WCSuccess)
	if string(b.buf[:9000]) != string(a.buf[:9000]) {
		t.Error("READ brought something else")
	}
	before := binary.NativeEndian.Uint64(b.buf)
	b.sync()
	wantStatus(t, post(b, verbs.SendWR{Opcode: ib.WRAtomicFetchAndAdd, CompareAdd: 5, SGList: []ib.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}).Status, ib.WCSuccess)
	b.sync()
	if got := binary.NativeEndian.Uint64(a.buf); got != before || binary.NativeEndian.Uint64(b.buf) != before+5 {
		t.Errorf("fetch-and-add brought %d and left %d, it was %d", got, binary.NativeEndian.Uint64(b.buf), before)
	}
	// A key is good only with a queue of its own protection domain.
	wantStatus(t, post(other, verbs.SendWR{Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}).Status, ib.WCRemAccessErr)
	if ev := b.event(ib.EventQPAccessErr); ev.QP != recv {
		t.Errorf("%+v", ev)
	}
	if recv.State() != ib.QPErr {
		t.Errorf("%v", recv.State())
	}
}

// TestXRCFewerConnections shows the use of XRC: one connection per peer serves several receivers,
// and one receiver takes from several connections.
func TestXRCFewerConnections(t *testing.T) {
	const peers, receivers, rounds = 3, 4, 20
	b := newStation(t, 64*peers*rounds, nil)
	stations := []*station{b}
	for len(stations) < receivers {
		stations = append(stations, stationIn(t, b.ctx, b.xrcd, 64*peers*rounds))
	}
	for _, s := range stations {
		for k := range peers * rounds {
			s.post(uint64(k), 64*k, 64)
		}
	}
	var from []*end
	for range peers {
		a, _ := b.initiator(64)
		from = append(from, a)
	}
	for k := range rounds {
		for i, a := range from {
			for j, s := range stations {
				_, err := a.qp.PostSend(verbs.SendWR{Opcode: ib.WRSendWithImm, Flags: ib.SendInline, Inline: []byte{byte(i), byte(j), byte(k)}, ImmData: uint32(j), RemoteSRQN: s.srq.Num()})
				check(t, err)
			}
		}
	}
	for j, s := range stations {
		next := make([]int, peers)
		for range peers * rounds {
			wc := s.one()
			got := s.buf[64*wc.WRID:]
			i := int(got[0])
			if wc.ImmData != uint32(j) || int(got[1]) != j || int(got[2]) != next[i] {
				t.Fatalf("receiver %d: message %v of connection %d, want %d", j, got[:3], i, next[i])
			}
			next[i]++
		}
	}
}

// TestXRCReceiverNotReady: an empty queue makes the initiator wait and hears
// of it by its limit event.
func TestXRCReceiverNotReady(t *testing.T) {
	b := newStation(t, 64, nil)
	a, _ := b.initiator(64)
	check(t, b.srq.Modify(ib.SRQAttr{SRQLimit: 1}, ib.SRQLimit))
	_, err := a.qp.PostSend(verbs.SendWR{ID: 3, Opcode: ib.WRSend, Flags: ib.SendSignaled, RemoteSRQN: b.srq.Num()})
	check(t, err)
	if ev := b.event(ib.EventSRQLimitReached); ev.SRQ != b.srq {
		t.Errorf("%+v", ev)
	}
	b.post(4, 0, 64)
	if wc := a.one(); wc.WRID != 3 {
		t.Errorf("%+v", wc)
	}
	if wc := b.one(); wc.WRID != 4 {
		t.Errorf("%+v", wc)
	}
}

// TestXRCUnknownQueue: a number is refused if no queue has it, or one of another domain, or one
// that has been destroyed.
func TestXRCUnknownQueue(t *testing.T) {
	stranger := newStation(t, 64, nil)
	for name, number := range map[string]func(b *station) ib.SRQN{
		"none":          func(*station) ib.SRQN { return 1<<24 - 1 },
		"basic":         func(*station) ib.SRQN { return 0 },
		"other domain":  func(*station) ib.SRQN { return stranger.srq.Num() },
		"one destroyed": func(b *station) ib.SRQN { n := b.srq.Num(); check(t, b.srq.Destroy()); return n },
	} {
		t.Run(name, func(t *testing.T) {
			b := newStation(t, 64, nil)
			a, recv := b.initiator(64)
			stranger.post(1, 0, 64)
			wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRSend, RemoteSRQN: number(b)}).Status, ib.WCRemAccessErr)
			if ev := b.event(ib.EventQPAccessErr); ev.QP != recv {
				t.Errorf("%+v", ev)
			}
		})
	}
	if n, err := stranger.cq.Poll(make([]ib.WC, 1)); n != 0 || err != nil {
		t.Errorf("another domain received %d, %v", n, err)
	}
}

// TestOpenQP has two contexts share a domain by its file, and a queue pair in
// it by its number.
func TestOpenQP(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "domain"))
	check(t, err)
	defer file.Close()
	again, err := os.Open(file.Name())
	check(t, err)
	defer again.Close()
	b, c := newStation(t, 4096, file), newStation(t, 4096, again)
	a, created := b.initiator(4096)
	opened, err := c.xrcd.OpenQP(created.QPN())
	check(t, err)
	if opened.QPN() != created.QPN() || opened.Type() != ib.QPTypeXRCRecv || opened.State() != ib.QPRTS || opened.PD() != nil {
		t.Errorf("%v %v %v", opened.QPN(), opened.Type(), opened.State())
	}
	if attr, init := opened.Query(); attr.DestQPN != a.qp.QPN() || init.XRCD != c.xrcd {
		t.Errorf("%+v %+v", attr, init)
	}
	// Its creator goes; processes that have it open keep it, and the other's queue receives.
	check(t, created.Destroy())
	wantError(t, created.Destroy(), syscall.EINVAL, "QP")
	c.post(8, 0, 4096)
	wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRSend, RemoteSRQN: c.srq.Num()}).Status, ib.WCSuccess)
	if wc := c.one(); wc.WRID != 8 || wc.QPN != opened.QPN() {
		t.Errorf("%+v", wc)
	}
	// Every process that has it open gets the event and may modify it.
	third, err := b.xrcd.OpenQP(opened.QPN())
	check(t, err)
	wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRSend, RemoteSRQN: 0}).Status, ib.WCRemAccessErr)
	if ev := b.event(ib.EventQPAccessErr); ev.QP != third {
		t.Errorf("%+v", ev)
	}
	if ev := c.event(ib.EventQPAccessErr); ev.QP != opened {
		t.Errorf("%+v", ev)
	}
	check(t, third.Modify(&ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr))
	if opened.State() != ib.QPReset {
		t.Errorf("%v", opened.State())
	}
	qpn := opened.QPN()
	check(t, opened.Destroy())
	check(t, third.Destroy())
	_, err = b.xrcd.OpenQP(qpn)
	wantError(t, err, syscall.ENOENT, "QPN")
	_, err = b.xrcd.OpenQP(a.qp.QPN())
	wantError(t, err, syscall.ENOENT, "QPN")
}

// TestXRCContextCloses while another context shares its domain and uses a queue
// pair that delivers to both: the memory of the closed one is left alone.
func TestXRCContextCloses(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "domain"))
	check(t, err)
	defer file.Close()
	c := newStation(t, 4096, file)
	gone, err := verbs.Open(loopback.Device(t))
	check(t, err)
	x, err := gone.OpenXRCD(file, 0)
	check(t, err)
	b := stationIn(t, gone, x, 4096)
	a, created := c.initiator(4096)
	_, err = b.xrcd.OpenQP(created.QPN())
	check(t, err)
	n := b.srq.Num()
	b.post(1, 0, 4096)
	check(t, gone.Close())
	wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{a.mr.SGE(0, 8)}, RemoteSRQN: n}).Status, ib.WCRemAccessErr)
	c.event(ib.EventQPAccessErr)
}

// TestXRCDomainFiles has the flags of ibv_open_xrcd(3).
func TestXRCDomainFiles(t *testing.T) {
	c, err := verbs.Open(loopback.Device(t))
	check(t, err)
	defer c.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "domain"))
	check(t, err)
	_, err = c.OpenXRCD(file, 0)
	wantError(t, err, syscall.EAGAIN, "flag")
	_, err = c.OpenXRCD(file, os.O_CREATE|os.O_TRUNC)
	wantError(t, err, syscall.EINVAL, "flag")
	first, err := c.OpenXRCD(file, os.O_CREATE|os.O_EXCL)
	check(t, err)
	_, err = c.OpenXRCD(file, os.O_CREATE|os.O_EXCL)
	wantError(t, err, syscall.EINVAL, "flag")
	second, err := c.OpenXRCD(file, 0)
	check(t, err)
	check(t, first.Close())
	wantError(t, first.Close(), syscall.EINVAL, "XRCD")
	qp, err := second.CreateQP(nil)
	check(t, err)
	wantError(t, second.Close(), syscall.EBUSY, "XRCD")
	check(t, qp.Destroy())
	check(t, second.Close())
	_, err = c.OpenXRCD(file, 0)
	wantError(t, err, syscall.EAGAIN, "flag") // it went with the last
	file.Close()
	if _, err = c.OpenXRCD(file, os.O_CREATE); err == nil {
		t.Error("a closed file names a domain")
	}
}

// TestXRCRefusals wants impossible XRC requests refused.
func TestXRCRefusals(t *testing.T) {
	b, other := newStation(t, 64, nil), newStation(t, 64, nil)
	a, recv := b.initiator(64)
	attr := ib.SRQAttr{MaxWR: 4, MaxSGE: 1}
	goneCQ, err := b.ctx.CreateCQ(1, nil)
	check(t, err)
	check(t, goneCQ.Destroy())
	goneXRCD, err := b.ctx.OpenXRCD(nil, os.O_CREATE)
	check(t, err)
	check(t, goneXRCD.Close())
	for _, c := range []struct {
		call  func() error
		errno syscall.Errno
		arg   string
	}{
		{func() error { _, err := b.pd.CreateXRCSRQ(attr, nil, b.cq); return err }, syscall.EINVAL, "xrcd"},
		{func() error { _, err := b.pd.CreateXRCSRQ(attr, other.xrcd, b.cq); return err }, syscall.EINVAL, "xrcd"},
		{func() error { _, err := b.pd.CreateXRCSRQ(attr, goneXRCD, b.cq); return err }, syscall.EINVAL, "xrcd"},
		{func() error { _, err := b.pd.CreateXRCSRQ(attr, b.xrcd, nil); return err }, syscall.EINVAL, "cq"},
		{func() error { _, err := b.pd.CreateXRCSRQ(attr, b.xrcd, other.cq); return err }, syscall.EINVAL, "cq"},
		{func() error { _, err := b.pd.CreateXRCSRQ(attr, b.xrcd, goneCQ); return err }, syscall.EINVAL, "cq"},
		{func() error { _, err := b.pd.CreateXRCSRQ(ib.SRQAttr{}, b.xrcd, b.cq); return err }, syscall.EINVAL, "attr.MaxWR"},
		{func() error { _, err := b.pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeXRCRecv}); return err }, syscall.EINVAL, "attr.XRCD"},
		{func() error {
			_, err := b.pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeXRCRecv, XRCD: other.xrcd})
			return err
		}, syscall.EINVAL, "attr.XRCD"},
		{func() error { _, err := b.pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeXRCSend}); return err }, syscall.EINVAL, "attr.SendCQ"},
		{func() error { _, err := b.xrcd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC}); return err }, syscall.EINVAL, "attr.Type"},
		{func() error { _, err := goneXRCD.CreateQP(nil); return err }, syscall.EINVAL, "XRCD"},
		{func() error { _, err := goneXRCD.OpenQP(recv.QPN()); return err }, syscall.EINVAL, "XRCD"},
		{func() error { _, err := other.xrcd.OpenQP(recv.QPN()); return err }, syscall.ENOENT, "QPN"},
		{func() error {
			_, err := b.pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: b.cq, RecvCQ: b.cq, SRQ: b.srq})
			return err
		}, syscall.EINVAL, "attr.SRQ"},
		{func() error { _, err := a.qp.PostRecv(verbs.RecvWR{}); return err }, syscall.EINVAL, "QP"},
		{func() error { _, err := recv.PostRecv(verbs.RecvWR{}); return err }, syscall.EINVAL, "QP"},
		{func() error { _, err := recv.PostSend(verbs.SendWR{}); return err }, syscall.EINVAL, "QP"},
		{func() error { return recv.BindMW(nil, verbs.BindWR{}) }, syscall.EINVAL, "QP"},
		{func() error {
			_, err := a.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, RemoteSRQN: 1 << 24})
			return err
		}, syscall.EINVAL, "RemoteSRQN"},
		{func() error { return b.cq.Destroy() }, syscall.EBUSY, "CQ"},
		{func() error { return b.pd.Dealloc() }, syscall.EBUSY, "PD"},
		{func() error { return b.xrcd.Close() }, syscall.EBUSY, "XRCD"},
	} {
		wantError(t, c.call(), c.errno, c.arg)
	}
	basic, err := b.pd.CreateSRQ(attr)
	check(t, err)
	if basic.Num() != 0 {
		t.Errorf("a basic queue has number %v", basic.Num())
	}
	viaPD, err := b.pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeXRCRecv, XRCD: b.xrcd})
	check(t, err)
	// All goes in order, and nothing is left.
	for _, f := range []func() error{viaPD.Destroy, recv.Destroy, b.srq.Destroy, basic.Destroy, b.mr.Dereg, b.pd.Dealloc, b.cq.Destroy, b.xrcd.Close} {
		check(t, f())
	}
}

// TestXRCQueueDestroyedUnderFire destroys shared receive queues while messages
// for them come in: each is received or refused, and nothing completes after.
func TestXRCQueueDestroyedUnderFire(t *testing.T) {
	for range 5 {
		b := newStation(t, 1<<16, nil)
		a, recv := b.initiator(1 << 16)
		for k := range 64 {
			b.post(uint64(k), 1024*k, 1024)
		}
		for range 64 {
			_, err := a.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{a.mr.SGE(0, 1000)}, RemoteSRQN: b.srq.Num()})
			check(t, err)
		}
		b.poll(3)
		check(t, b.srq.Destroy())
		for n := 1; n > 0; { // those of before
			var err error
			n, err = b.cq.Poll(make([]ib.WC, 64))
			check(t, err)
		}
		_, err := a.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled, RemoteSRQN: 1 << 23})
		check(t, err)
		for a.poll(1)[0].Status == ib.WCSuccess {
		}
		if s := recv.State(); s != ib.QPErr {
			t.Errorf("the target is in %v", s)
		}
		if n, err := b.cq.Poll(make([]ib.WC, 1)); n != 0 || err != nil {
			t.Fatalf("%d completions after the queue was destroyed, %v", n, err)
		}
		check(t, b.cq.Destroy())
	}
}
