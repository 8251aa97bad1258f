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
	"verbena/internal/iwarp/trp"
	wire "verbena/internal/wire/trp"
	"verbena/verbs"
)

const trpLoopback = "trp_lo"

// trpEnds returns two queue pairs of TRP in RTS.
func trpEnds(t *testing.T, size int) (a, b *end) {
	t.Helper()
	a, b = newEndOn(t, trpLoopback, ib.QPTypeRC, size), newEndOn(t, trpLoopback, ib.QPTypeRC, size)
	for _, e := range []*end{a, b} {
		check(t, e.qp.Modify(&ib.QPAttr{State: ib.QPInit, AccessFlags: ib.AccessRemote}, ib.QPStateAttr|ib.QPAccessFlags))
	}
	associate(t, a, b)
	return a, b
}

// associate connects two queue pairs in INIT, as the connection manager does.
func associate(t *testing.T, a, b *end) {
	t.Helper()
	eng := backdoor.Engine(a.ctx)
	at := netip.MustParseAddrPort("127.0.0.1:0")
	p, err := eng.BindTRP(at)
	check(t, err)
	requests := make(chan *engine.TRPRequest, 1)
	l, err := p.Listen(1, func(r *engine.TRPRequest) { requests <- r })
	check(t, err)
	defer l.Close()
	up := make(chan trp.Event, 4)
	onLink := func(ev trp.Event) {
		if ev.Kind == trp.EventEstablished {
			up <- ev
		}
	}
	s := wire.Setup{IRD: 8, ORD: 8}
	from, err := eng.BindTRP(at)
	check(t, err)
	client, err := backdoor.TRPConn(a.qp)
	check(t, err)
	check(t, client.DialTRP(from, l.Addr(), s, onLink))
	server, err := backdoor.TRPConn(b.qp)
	check(t, err)
	r := <-requests
	check(t, server.AcceptTRP(r, r.Local, s, onLink))
	for range 2 {
		select {
		case <-up:
		case <-time.After(20 * time.Second):
			t.Fatal("the association was not established")
		}
	}
}

// TestTRPSpeaksTheSameVerbs runs the operations that all kinds have.
func TestTRPSpeaksTheSameVerbs(t *testing.T) {
	a, b := trpEnds(t, 1<<20)
	if q, _ := a.qp.Query(); q.State != ib.QPRTS || q.MaxRdAtomic != 8 || q.MaxDestRdAtomic != 8 {
		t.Errorf("connected: %+v", q)
	}
	pattern(a.buf, 1)
	_, err := b.qp.PostRecv(verbs.RecvWR{ID: 5, SGList: []ib.SGE{b.mr.SGE(0, 100)}}, verbs.RecvWR{ID: 6})
	check(t, err)
	_, err = a.qp.PostSend(
		verbs.SendWR{ID: 1, Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, 1<<19)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()},
		verbs.SendWR{ID: 2, Opcode: ib.WRSend, Flags: ib.SendSignaled | ib.SendInline, Inline: []byte("hello")})
	check(t, err)
	b.wantDone(5, ib.WCRecv)
	if got := string(b.buf[:5]); got != "hello" {
		t.Errorf("%q", got)
	}
	if !bytes.Equal(b.buf[5:1<<19], a.buf[5:1<<19]) {
		t.Error("what was written before the SEND is not in place")
	}
	a.wantDone(1, ib.WCRDMAWrite)
	a.wantDone(2, ib.WCSend)
	word := ib.SGE{Addr: a.mr.Addr() + 1<<19, Length: 8, LKey: a.mr.LKey()}
	_, err = a.qp.PostSend(
		verbs.SendWR{ID: 3, Opcode: ib.WRRDMARead, Flags: ib.SendSignaled,
			SGList: []ib.SGE{a.mr.SGE(1<<19+1000, 1000), a.mr.SGE(1<<19+3000, 1000)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()},
		verbs.SendWR{ID: 4, Opcode: ib.WRAtomicFetchAndAdd, Flags: ib.SendSignaled, SGList: []ib.SGE{word}, RemoteAddr: b.mr.Addr() + 1<<19, RKey: b.mr.RKey(), CompareAdd: 5},
		verbs.SendWR{ID: 5, Opcode: ib.WRAtomicCmpAndSwp, Flags: ib.SendSignaled, SGList: []ib.SGE{word}, RemoteAddr: b.mr.Addr() + 1<<19, RKey: b.mr.RKey(), CompareAdd: 5, Swap: 7},
		verbs.SendWR{ID: 6, Opcode: ib.WRRDMAWriteWithImm, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, 10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), ImmData: 99})
	check(t, err)
	a.wantDone(3, ib.WCRDMARead)
	a.wantDone(4, ib.WCFetchAdd)
	a.wantDone(5, ib.WCCompSwap)
	a.wantDone(6, ib.WCRDMAWrite)
	b.wantDone(6, ib.WCRecvRDMAWithImm)
	if !bytes.Equal(a.buf[1<<19+3000:][:1000], b.buf[1000:2000]) {
		t.Error("the second element of the READ differs")
	}
	if a.buf[1<<19] != 5 || b.buf[1<<19] != 7 {
		t.Errorf("the atomics found %d and left %d, want 5 and 7", a.buf[1<<19], b.buf[1<<19])
	}

	conn, err := backdoor.TRPConn(a.qp)
	check(t, err)
	conn.DisconnectTRP()
	for end := time.Now().Add(20 * time.Second); a.qp.State() != ib.QPErr || b.qp.State() != ib.QPErr; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("disconnected: %v and %v", a.qp.State(), b.qp.State())
		}
	}
}

// wantDone has the next completion be a success of this work request.
func (e *end) wantDone(id uint64, op ib.WCOpcode) {
	e.t.Helper()
	if wc := e.one(); wc.WRID != id || wc.Opcode != op {
		e.t.Fatalf("completion of %d, %v: want %d, %v", wc.WRID, wc.Opcode, id, op)
	}
}

// TestTRPSharedReceives has a queue pair take its receives from a shared queue.
func TestTRPSharedReceives(t *testing.T) {
	a, b := newEndOn(t, trpLoopback, ib.QPTypeRC, 4096), newEndOn(t, trpLoopback, ib.QPTypeRC, 4096)
	srq, err := b.pd.CreateSRQ(ib.SRQAttr{MaxWR: 4, MaxSGE: 1})
	check(t, err)
	check(t, b.qp.Destroy())
	b.qp, err = b.pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: b.cq, RecvCQ: b.cq, SRQ: srq, Cap: ib.QPCap{MaxSendWR: 4, MaxSendSGE: 1}})
	check(t, err)
	for _, e := range []*end{a, b} {
		check(t, e.qp.Modify(&ib.QPAttr{State: ib.QPInit, AccessFlags: ib.AccessRemote}, ib.QPStateAttr|ib.QPAccessFlags))
	}
	associate(t, a, b)
	_, err = srq.PostRecv(verbs.RecvWR{ID: 8, SGList: []ib.SGE{b.mr.SGE(0, 100)}})
	check(t, err)
	_, err = a.qp.PostSend(verbs.SendWR{ID: 1, Opcode: ib.WRSend, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, 100)}})
	check(t, err)
	b.wantDone(8, ib.WCRecv)
	a.wantDone(1, ib.WCSend)
}

// TestTRPRefuses has what TRP lacks refused with the errno and a reason.
func TestTRPRefuses(t *testing.T) {
	a := newEndOn(t, trpLoopback, ib.QPTypeRC, 1024)
	_, err := a.pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeUD, SendCQ: a.cq, RecvCQ: a.cq})
	wantError(t, err, syscall.EOPNOTSUPP, "attr.Type")
	check(t, a.qp.Modify(&ib.QPAttr{State: ib.QPInit}, ib.QPStateAttr))
	wantError(t, a.qp.Modify(&ib.QPAttr{State: ib.QPRTR}, ib.QPStateAttr), syscall.EINVAL, "State")
	_, err = backdoor.TRPConn(newEnd(t, ib.QPTypeRC, 64).qp)
	wantError(t, err, syscall.EOPNOTSUPP, "QP")
}
