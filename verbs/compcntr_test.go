// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/verbs"
)

// Counters of work requests and of bytes count each operation that they are attached to, signaled
// or not, and errors apart.
func TestCompletionCounters(t *testing.T) {
	a, b := newEnd(t, ib.QPTypeRC, 4096), newEnd(t, ib.QPTypeRC, 4096)
	counter := func(e *end, typ ib.CompCntrType, ops ib.CompCntrOps) *verbs.CompCntr {
		n, err := e.ctx.CreateCompCntr(typ)
		check(t, err)
		check(t, e.qp.AttachCompCntr(n, ops))
		return n
	}
	sends := counter(a, ib.CompCntrWRs, ib.CompCntrSend|ib.CompCntrRead)
	written := counter(a, ib.CompCntrBytes, ib.CompCntrWrite)
	received := counter(b, ib.CompCntrBytes, ib.CompCntrRecv)
	connect(t, a, b, ib.MTU1024)
	wantError(t, a.qp.AttachCompCntr(sends, ib.CompCntrRecv), syscall.EINVAL, "QP")

	received.Set(1000)
	_, err := b.qp.PostRecv(verbs.RecvWR{ID: 1, SGList: []ib.SGE{b.mr.SGE(0, 100)}})
	check(t, err)
	post := func(op ib.WROpcode, flags ib.SendFlags, n int, key ib.RKey) {
		_, err := a.qp.PostSend(verbs.SendWR{Opcode: op, Flags: flags, SGList: []ib.SGE{a.mr.SGE(0, n)}, RemoteAddr: b.mr.Addr(), RKey: key})
		check(t, err)
	}
	post(ib.WRSend, 0, 100, 0)
	post(ib.WRRDMAWrite, 0, 3000, b.mr.RKey())
	post(ib.WRRDMARead, ib.SendSignaled, 8, b.mr.RKey())
	wantStatus(t, a.poll(1)[0].Status, ib.WCSuccess)
	wantStatus(t, b.poll(1)[0].Status, ib.WCSuccess)
	post(ib.WRRDMAWrite, 0, 8, b.mr.RKey()+1)
	post(ib.WRSend, 0, 8, 0)
	wantStatus(t, a.poll(1)[0].Status, ib.WCRemAccessErr)
	wantStatus(t, a.poll(1)[0].Status, ib.WCWRFlushErr)
	for _, c := range []struct {
		what         string
		n            *verbs.CompCntr
		done, failed uint64
	}{
		{"SENDs and READs", sends, 2, 1},
		{"bytes of WRITEs", written, 3000, 1},
		{"bytes received", received, 1100, 0},
	} {
		if c.n.Read() != c.done || c.n.ReadErr() != c.failed {
			t.Errorf("%s: %d and %d errors, want %d and %d", c.what, c.n.Read(), c.n.ReadErr(), c.done, c.failed)
		}
	}
	sends.Inc(5)
	sends.IncErr(2)
	if sends.Read() != 7 || sends.ReadErr() != 3 {
		t.Errorf("%d and %d errors", sends.Read(), sends.ReadErr())
	}
	wantError(t, sends.Destroy(), syscall.EBUSY, "CompCntr")
	check(t, a.qp.Destroy())
	check(t, sends.Destroy())
	wantError(t, sends.Destroy(), syscall.EINVAL, "CompCntr")
}

func TestCompletionCountersRefused(t *testing.T) {
	a, b := newEnd(t, ib.QPTypeRC, 64), newEnd(t, ib.QPTypeRC, 64)
	n, err := a.ctx.CreateCompCntr(ib.CompCntrWRs)
	check(t, err)
	_, err = a.ctx.CreateCompCntr(2)
	wantError(t, err, syscall.EOPNOTSUPP, "type")
	wantError(t, b.qp.AttachCompCntr(n, ib.CompCntrSend), syscall.EINVAL, "counter")
	wantError(t, a.qp.AttachCompCntr(n, 0), syscall.EINVAL, "ops")
	wantError(t, a.qp.AttachCompCntr(n, ib.CompCntrRemoteWrite), syscall.EOPNOTSUPP, "ops")
	check(t, a.qp.AttachCompCntr(n, ib.CompCntrSend))
	wantError(t, a.qp.AttachCompCntr(n, ib.CompCntrSend|ib.CompCntrRecv), syscall.EBUSY, "ops")
	check(t, a.qp.AttachCompCntr(n, ib.CompCntrRecv))
	check(t, a.qp.Destroy())
	check(t, n.Destroy())
	wantError(t, b.qp.AttachCompCntr(nil, ib.CompCntrSend), syscall.EINVAL, "counter")
	if caps := a.ctx.QueryCompCntrCaps(); caps.Ops != ib.CompCntrSend|ib.CompCntrRecv|ib.CompCntrRead|ib.CompCntrWrite || caps.MaxCounters == 0 {
		t.Errorf("%+v", caps)
	}
}
