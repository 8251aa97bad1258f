// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"bytes"
	"runtime"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/verbs"
)

// initEnd returns a queue pair of iWARP in INIT, where its connection finds it.
func initEnd(t *testing.T, dev string, size int, change ...func(*verbs.QPInitAttr)) *end {
	t.Helper()
	e := newEndOn(t, dev, ib.QPTypeRC, size, change...)
	check(t, e.qp.Modify(&ib.QPAttr{State: ib.QPInit, AccessFlags: ib.AccessRemote}, ib.QPStateAttr|ib.QPAccessFlags))
	return e
}

// wantWC has the next completion be a success of this work request.
func (e *end) wantWC(id uint64, op ib.WCOpcode) {
	e.t.Helper()
	if wc := e.one(); wc.WRID != id || wc.Opcode != op {
		e.t.Fatalf("completion of %d, %v: want %d, %v", wc.WRID, wc.Opcode, id, op)
	}
}

// speakSameVerbs runs, between two ends of iWARP of depth 8, the operations that
// RoCE has too, and has one of them disconnect.
func speakSameVerbs(t *testing.T, a, b *end, disconnect func() error) {
	t.Helper()
	if q, _ := a.qp.Query(); q.State != ib.QPRTS || q.MaxRdAtomic != 8 || q.MaxDestRdAtomic != 8 {
		t.Errorf("connected: %+v, want the depths of 8 that were agreed on", q)
	}
	pattern(a.buf, 1)
	_, err := b.qp.PostRecv(verbs.RecvWR{ID: 5, SGList: []ib.SGE{b.mr.SGE(0, 100)}}, verbs.RecvWR{ID: 6})
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
	b.sync()

	word := []ib.SGE{{Addr: a.mr.Addr() + 1<<19, Length: 8, LKey: a.mr.LKey()}}
	counter := b.mr.Addr() + 1<<19
	_, err = a.qp.PostSend(
		verbs.SendWR{ID: 3, Opcode: ib.WRRDMARead, Flags: ib.SendSignaled,
			SGList: []ib.SGE{a.mr.SGE(1<<19+1000, 1000), a.mr.SGE(1<<19+3000, 1000)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()},
		verbs.SendWR{ID: 4, Opcode: ib.WRAtomicFetchAndAdd, Flags: ib.SendSignaled, SGList: word, RemoteAddr: counter, RKey: b.mr.RKey(), CompareAdd: 5},
		verbs.SendWR{ID: 5, Opcode: ib.WRAtomicCmpAndSwp, Flags: ib.SendSignaled, SGList: word, RemoteAddr: counter, RKey: b.mr.RKey(), CompareAdd: 5, Swap: 7},
		verbs.SendWR{ID: 6, Opcode: ib.WRRDMAWriteWithImm, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, 10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), ImmData: 99})
	check(t, err)
	a.wantWC(3, ib.WCRDMARead)
	a.wantWC(4, ib.WCFetchAdd)
	a.wantWC(5, ib.WCCompSwap)
	a.wantWC(6, ib.WCRDMAWrite)
	if wc := b.one(); wc.WRID != 6 || wc.Opcode != ib.WCRecvRDMAWithImm || wc.ImmData != 99 || wc.ByteLen != 10 {
		t.Errorf("immediate data: %+v", wc)
	}
	if !bytes.Equal(a.buf[1<<19+3000:][:1000], b.buf[1000:2000]) {
		t.Error("the second element of the READ differs")
	}
	if a.buf[1<<19] != 5 || b.buf[1<<19] != 7 {
		t.Errorf("the atomics found %d and left %d, want 5 and 7", a.buf[1<<19], b.buf[1<<19])
	}

	check(t, disconnect())
	for end := time.Now().Add(20 * time.Second); a.qp.State() != ib.QPErr || b.qp.State() != ib.QPErr; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("disconnected: %v and %v", a.qp.State(), b.qp.State())
		}
	}
	for _, e := range []*end{a, b} {
		check(t, e.qp.Modify(&ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr))
	}
}

// wantRefusals wants an iWARP device to refuse the features that it lacks, with the errno and a
// reason.
func wantRefusals(t *testing.T, dev string) {
	t.Helper()
	a := newEndOn(t, dev, ib.QPTypeRC, 1024)
	_, err := a.pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeUD, SendCQ: a.cq, RecvCQ: a.cq})
	wantError(t, err, syscall.EOPNOTSUPP, "attr.Type")
	_, err = a.pd.CreateAH(&ib.AHAttr{IsGlobal: true})
	wantError(t, err, syscall.EOPNOTSUPP, "AH")
	_, err = a.ctx.OpenXRCD(nil, 0)
	wantError(t, err, syscall.EOPNOTSUPP, "XRCD")
	check(t, a.qp.Modify(&ib.QPAttr{State: ib.QPInit, AccessFlags: ib.AccessRemote}, ib.QPStateAttr|ib.QPAccessFlags))
	wantError(t, a.qp.Modify(&ib.QPAttr{State: ib.QPRTR}, ib.QPStateAttr), syscall.EINVAL, "State")
	wantError(t, a.qp.Modify(&ib.QPAttr{State: ib.QPRTS}, ib.QPStateAttr), syscall.EINVAL, "State")
	if gid, err := a.ctx.QueryGID(1, 0); err != nil || gid.IsZero() {
		t.Errorf("GID %v, %v", gid, err)
	}
	if gid, err := a.ctx.QueryGID(1, 1); err == nil {
		t.Errorf("GID 1 of a table of 1: %v", gid)
	}
}
