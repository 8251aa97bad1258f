//go:build linux

package verbs_test

import (
	"bytes"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/backdoor"
	"verbena/internal/engine"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/monotime"
	"verbena/verbs"
)

const iwarpLoopback = "iwarp_lo"

// mpaEnd stands for the connection manager: it speaks MPA for a queue pair.
type mpaEnd struct {
	qp     *verbs.QP
	conn   *mpa.Conn
	stream *engine.Stream
	accept bool
	result chan error
}

func (m *mpaEnd) Connected() {
	b, _ := m.conn.PollOutput()
	m.stream.Send(b)
}

func (m *mpaEnd) Closed(err error) { m.result <- err }

func (m *mpaEnd) Input(b []byte) bool {
	rest := bytes.Clone(m.conn.HandleInput(b))
	switch m.conn.State() {
	case mpa.StateDeciding, mpa.StateReady:
		go m.connect(rest)
		return m.accept
	}
	return true
}

func (m *mpaEnd) connect(early []byte) {
	p := engine.Connected{Initiator: !m.accept, Extensions: true, Early: early}
	if m.accept {
		if err := m.conn.Accept(8, 8, nil); err != nil {
			m.result <- err
			return
		}
		p.First, _ = m.conn.PollOutput()
	}
	p.Settled = m.conn.Settled()
	m.result <- backdoor.ConnectStream(m.qp, m.stream, p)
}

// iwarpEnds returns two queue pairs of iWARP in RTS.
func iwarpEnds(t *testing.T, size int, change ...func(*verbs.QPInitAttr)) (a, b *end) {
	t.Helper()
	a, b = newEndOn(t, iwarpLoopback, ib.QPTypeRC, size, change...), newEndOn(t, iwarpLoopback, ib.QPTypeRC, size, change...)
	result := make(chan error, 4)
	for _, e := range []*end{a, b} {
		check(t, e.qp.Modify(&ib.QPAttr{State: ib.QPInit, AccessFlags: ib.AccessRemote}, ib.QPStateAttr|ib.QPAccessFlags))
	}
	eng := backdoor.Engine(a.ctx)
	rtr := mpa.RTRs(mpa.RTRRead)
	l, err := eng.ListenStreams(netip.MustParseAddrPort("127.0.0.1:0"), 1, func(s *engine.Stream) engine.StreamEvents {
		return &mpaEnd{qp: b.qp, stream: s, accept: true, result: result, conn: mpa.NewResponder(monotime.Now(), mpa.Options{RTR: rtr})}
	})
	check(t, err)
	defer l.Close()
	conn, err := mpa.NewInitiator(monotime.Now(), mpa.Options{IRD: 8, ORD: 8, RTR: rtr})
	check(t, err)
	_, err = eng.DialStream(netip.AddrPort{}, l.Addr(), func(s *engine.Stream) engine.StreamEvents {
		return &mpaEnd{qp: a.qp, stream: s, result: result, conn: conn}
	})
	check(t, err)
	for range 2 {
		select {
		case err := <-result:
			check(t, err)
		case <-time.After(20 * time.Second):
			t.Fatal("the streams were not connected")
		}
	}
	return a, b
}

// wantWC has the next completion be a success of this work request.
func (e *end) wantWC(id uint64, op ib.WCOpcode) {
	e.t.Helper()
	if wc := e.one(); wc.WRID != id || wc.Opcode != op {
		e.t.Fatalf("completion of %d, %v: want %d, %v", wc.WRID, wc.Opcode, id, op)
	}
}

// TestIWARPSpeaksTheSameVerbs runs the operations that both kinds have.
func TestIWARPSpeaksTheSameVerbs(t *testing.T) {
	a, b := iwarpEnds(t, 1<<20)
	if s := a.qp.State(); s != ib.QPRTS {
		t.Fatalf("connected: %v", s)
	}
	if q, _ := a.qp.Query(); q.MaxRdAtomic != 8 || q.MaxDestRdAtomic != 8 {
		t.Errorf("depths %d and %d, want the 8 that were agreed on", q.MaxRdAtomic, q.MaxDestRdAtomic)
	}
	pattern(a.buf, 1)
	_, err := b.qp.PostRecv(verbs.RecvWR{ID: 5, SGList: []ib.SGE{b.mr.SGE(0, 100)}})
	check(t, err)
	_, err = a.qp.PostSend(
		verbs.SendWR{ID: 1, Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, 1<<19)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()},
		verbs.SendWR{ID: 2, Opcode: ib.WRSend, Flags: ib.SendSignaled | ib.SendInline, Inline: []byte("hello")})
	check(t, err)
	b.wantWC(5, ib.WCRecv)
	if got := string(b.buf[:5]); got != "hello" {
		t.Errorf("%q", got)
	}
	if !bytes.Equal(b.buf[5:1<<19], a.buf[5:1<<19]) {
		t.Error("what was written before the SEND is not in place")
	}
	a.wantWC(1, ib.WCRDMAWrite)
	a.wantWC(2, ib.WCSend)
	_, err = a.qp.PostSend(verbs.SendWR{ID: 3, Opcode: ib.WRRDMARead, Flags: ib.SendSignaled,
		SGList: []ib.SGE{a.mr.SGE(1<<19, 1000), a.mr.SGE(1<<19+2000, 1000)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	check(t, err)
	a.wantWC(3, ib.WCRDMARead)
	if !bytes.Equal(a.buf[1<<19+2000:][:1000], b.buf[1000:2000]) {
		t.Error("the second element of the READ differs")
	}

	check(t, backdoor.DisconnectStream(a.qp))
	for end := time.Now().Add(20 * time.Second); a.qp.State() != ib.QPErr || b.qp.State() != ib.QPErr; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("disconnected: %v and %v", a.qp.State(), b.qp.State())
		}
	}
	for _, e := range []*end{a, b} {
		check(t, e.qp.Modify(&ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr))
	}
}

// TestIWARPRefuses has what iWARP lacks refused with the errno and a reason.
func TestIWARPRefuses(t *testing.T) {
	a := newEndOn(t, iwarpLoopback, ib.QPTypeRC, 1024)
	attr := verbs.QPInitAttr{Type: ib.QPTypeUD, SendCQ: a.cq, RecvCQ: a.cq}
	_, err := a.pd.CreateQP(&attr)
	wantError(t, err, syscall.EOPNOTSUPP, "attr.Type")
	_, err = a.pd.CreateAH(&ib.AHAttr{IsGlobal: true})
	wantError(t, err, syscall.EOPNOTSUPP, "AH")
	_, err = a.ctx.OpenXRCD(nil, 0)
	wantError(t, err, syscall.EOPNOTSUPP, "XRCD")
	check(t, a.qp.Modify(&ib.QPAttr{State: ib.QPInit, AccessFlags: ib.AccessRemote}, ib.QPStateAttr|ib.QPAccessFlags))
	wantError(t, a.qp.Modify(&ib.QPAttr{State: ib.QPRTR}, ib.QPStateAttr), syscall.EINVAL, "State")
	wantError(t, a.qp.Modify(&ib.QPAttr{State: ib.QPRTS}, ib.QPStateAttr), syscall.EINVAL, "State")

	b, c := iwarpEnds(t, 1024)
	for _, op := range []ib.WROpcode{ib.WRSendWithImm, ib.WRAtomicWrite, ib.WRFlush} {
		_, err = b.qp.PostSend(verbs.SendWR{Opcode: op})
		wantError(t, err, syscall.EINVAL, "Opcode")
	}
	if s := c.qp.State(); s != ib.QPRTS {
		t.Errorf("the peer is in %v", s)
	}
	if gid, err := a.ctx.QueryGID(1, 0); err != nil || gid.IsZero() {
		t.Errorf("GID %v, %v", gid, err)
	}
	if gid, err := a.ctx.QueryGID(1, 1); err == nil {
		t.Errorf("GID 1 of a table of 1: %v", gid)
	}
	r := newEnd(t, ib.QPTypeRC, 1024)
	wantError(t, backdoor.DisconnectStream(r.qp), syscall.EOPNOTSUPP, "QP")
}

// TestIWARPFaults has faults refused that no stream of TCP can have.
func TestIWARPFaults(t *testing.T) {
	_, err := verbs.Open(iwarpLoopback, verbs.WithFaults("loss=1%"))
	wantError(t, err, syscall.EINVAL, "faults")
	_, err = verbs.Open(loopback(t), verbs.WithFaults("cut=1%"))
	wantError(t, err, syscall.EINVAL, "faults")
	c, err := verbs.Open(iwarpLoopback, verbs.WithFaults("corrupt=1%,cut=1%"))
	check(t, err)
	check(t, c.Close())
}
