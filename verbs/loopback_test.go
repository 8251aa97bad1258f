// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bytes"
	"context"
	"runtime"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/testkit/loopback"
	"verbena/verbs"
)

// end is one side of a connection in a test.
type end struct {
	t   testing.TB
	ctx *verbs.Context
	pd  *verbs.PD
	cq  *verbs.CQ
	qp  *verbs.QP
	buf []byte
	mr  *verbs.MR
	// peer is the connected end, or nil.
	peer *end
}

const allAccess = ib.AccessLocalWrite | ib.AccessRemote | ib.AccessMWBind

func newEnd(t testing.TB, typ ib.QPType, size int, change ...func(*verbs.QPInitAttr)) *end {
	t.Helper()
	return newEndOn(t, loopback.Device(t), typ, size, change...)
}

func newEndOn(t testing.TB, device string, typ ib.QPType, size int, change ...func(*verbs.QPInitAttr)) *end {
	t.Helper()
	c, err := verbs.Open(device)
	check(t, err)
	e := &end{t: t, ctx: c}
	t.Cleanup(func() { check(t, c.Close()) })
	e.pd, err = c.AllocPD()
	check(t, err)
	e.cq, err = c.CreateCQ(1024, nil)
	check(t, err)
	attr := verbs.QPInitAttr{Type: typ, SendCQ: e.cq, RecvCQ: e.cq, Cap: ib.QPCap{MaxSendWR: 128, MaxRecvWR: 128, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 64}}
	for _, f := range change {
		f(&attr)
	}
	e.qp, err = e.pd.CreateQP(&attr)
	check(t, err)
	e.buf = make([]byte, size)
	e.mr, err = e.pd.RegMR(e.buf, allAccess)
	check(t, err)
	return e
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// connect takes both ends to RTS with each other. change alters the attributes of both on the way.
func connect(t testing.TB, a, b *end, mtu ib.MTU, change ...func(*ib.QPAttr)) {
	t.Helper()
	for _, p := range [][2]*end{{a, b}, {b, a}} {
		toInit(t, p[0])
	}
	for _, p := range [][2]*end{{a, b}, {b, a}} {
		me, peer := p[0], p[1]
		me.peer = peer
		gid, err := peer.ctx.QueryGID(1, 0)
		check(t, err)
		attr := ib.QPAttr{State: ib.QPRTR, PathMTU: mtu, DestQPN: peer.qp.QPN(), RQPSN: 77, MaxDestRdAtomic: 16, MinRNRTimer: 1,
			AH: ib.AHAttr{IsGlobal: true, PortNum: 1, GRH: ib.GRH{DGID: gid}}}
		for _, f := range change {
			f(&attr)
		}
		mask := ib.QPStateAttr | ib.QPAV | ib.QPPathMTU | ib.QPDestQPN | ib.QPRQPSN
		if me.qp.Type() == ib.QPTypeRC {
			mask |= ib.QPMaxDestRdAtomic | ib.QPMinRNRTimer
		}
		check(t, me.qp.Modify(&attr, mask))
		attr = ib.QPAttr{State: ib.QPRTS, SQPSN: 77, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 16}
		for _, f := range change {
			f(&attr)
		}
		mask = ib.QPStateAttr | ib.QPSQPSN
		if me.qp.Type() == ib.QPTypeRC {
			mask |= ib.QPTimeout | ib.QPRetryCnt | ib.QPRNRRetry | ib.QPMaxQPRdAtomic
		}
		check(t, me.qp.Modify(&attr, mask))
	}
}

func toInit(t testing.TB, e *end) {
	t.Helper()
	check(t, e.qp.Modify(&ib.QPAttr{State: ib.QPInit, PortNum: 1, AccessFlags: allAccess &^ ib.AccessMWBind},
		ib.QPStateAttr|ib.QPPort|ib.QPPKeyIndex|ib.QPAccessFlags))
}

// poll returns the next n completions.
func (e *end) poll(n int) []ib.WC {
	e.t.Helper()
	var out []ib.WC
	wc := make([]ib.WC, n)
	for deadline := time.Now().Add(10 * time.Second); len(out) < n; {
		k, err := e.cq.Poll(wc[:n-len(out)])
		check(e.t, err)
		out = append(out, wc[:k]...)
		if k == 0 {
			runtime.Gosched()
			if time.Now().After(deadline) {
				e.t.Fatalf("%d of %d completions after 10 s: %+v", len(out), n, out)
			}
		}
	}
	return out
}

// one returns the next completion, which must be a success.
func (e *end) one() ib.WC {
	e.t.Helper()
	wc := e.poll(1)[0]
	check(e.t, wc.Err())
	return wc
}

func pattern(b []byte, seed byte) {
	for i := range b {
		b[i] = byte(i*7) + seed + byte(i>>8)
	}
}

func TestRCOperations(t *testing.T) { onBothPaths(t, rcOperations) }

func rcOperations(t *testing.T) {
	const size = 1 << 20
	a, b := newEnd(t, ib.QPTypeRC, size), newEnd(t, ib.QPTypeRC, size)
	connect(t, a, b, ib.MTU4096)
	pattern(a.buf, 1)

	t.Run("write", func(t *testing.T) {
		for _, n := range []int{0, 1, 4095, 4096, 4097, 65536, size} {
			clear(b.buf)
			b.sync()
			_, err := a.qp.PostSend(verbs.SendWR{ID: uint64(n), Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, n)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			check(t, err)
			if wc := a.one(); wc.WRID != uint64(n) || wc.Opcode != ib.WCRDMAWrite {
				t.Fatalf("completion %+v", wc)
			}
			if !bytes.Equal(b.buf[:n], a.buf[:n]) || bytes.IndexFunc(b.buf[n:], func(r rune) bool { return r != 0 }) >= 0 {
				t.Fatalf("%d bytes did not arrive as sent", n)
			}
		}
	})
	t.Run("send", func(t *testing.T) {
		_, err := b.qp.PostRecv(verbs.RecvWR{ID: 9, SGList: []ib.SGE{b.mr.SGE(0, 100), b.mr.SGE(200, size-200)}})
		check(t, err)
		_, err = a.qp.PostSend(verbs.SendWR{ID: 8, Opcode: ib.WRSendWithImm, Flags: ib.SendSignaled, ImmData: 0xabcd, SGList: []ib.SGE{a.mr.SGE(0, 50), a.mr.SGE(50, 9950)}})
		check(t, err)
		a.one()
		wc := b.one()
		if wc.ByteLen != 10000 || wc.ImmData != 0xabcd || wc.Flags&ib.WCWithImm == 0 || wc.WRID != 9 || wc.Opcode != ib.WCRecv {
			t.Fatalf("completion %+v", wc)
		}
		if !bytes.Equal(b.buf[:100], a.buf[:100]) || !bytes.Equal(b.buf[200:10100], a.buf[100:10000]) {
			t.Fatal("message did not arrive as sent")
		}
	})
	t.Run("read", func(t *testing.T) {
		pattern(b.buf, 99)
		clear(a.buf)
		b.sync()
		_, err := a.qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMARead, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		check(t, err)
		if wc := a.one(); wc.ByteLen != size {
			t.Fatalf("completion %+v", wc)
		}
		if !bytes.Equal(a.buf, b.buf) {
			t.Fatal("memory read differs")
		}
	})
	t.Run("bad rkey", func(t *testing.T) {
		_, err := a.qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMARead, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() ^ 0x5a})
		check(t, err)
		// Only a NAK of the first request has this status: after it the peer answers nothing.
		if wc := a.poll(1)[0]; wc.Status != ib.WCRemAccessErr {
			t.Fatalf("completion %+v", wc)
		}
		if a.qp.State() != ib.QPErr || b.qp.State() != ib.QPErr {
			t.Errorf("states %v, %v", a.qp.State(), b.qp.State())
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		for { // COMM_EST comes first
			e, err := b.ctx.AsyncEvent(ctx)
			check(t, err)
			if e.Type == ib.EventQPAccessErr {
				break
			}
		}
	})
}
