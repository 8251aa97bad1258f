// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/internal/testkit/loopback"
	"verbena/verbs"
)

// CVE-2021-47078: an rxe queue pair whose creation failed kept pointers to its objects, which were
// released a second time with it. Here every step of CreateQP fails in turn, with all steps before
// it done. Nothing stays behind: the domain, the queues and the SRQ are unused. EBUSY or a count
// below zero would show a leftover.
func TestCVE_2021_47078_FailedCreateQPLeavesNothing(t *testing.T) {
	e, other := newEnd(t, ib.QPTypeRC, 64), newEnd(t, ib.QPTypeRC, 64)
	pd, err := e.ctx.AllocPD()
	check(t, err)
	newCQ := func() *verbs.CQ { cq, err := e.ctx.CreateCQ(4, nil); check(t, err); return cq }
	newSRQ := func() *verbs.SRQ {
		srq, err := pd.CreateSRQ(ib.SRQAttr{MaxWR: 4, MaxSGE: 1})
		check(t, err)
		return srq
	}
	send, recv, srq := newCQ(), newCQ(), newSRQ()
	goneCQ, goneSRQ := newCQ(), newSRQ()
	check(t, goneCQ.Destroy())
	check(t, goneSRQ.Destroy())
	gonePD, err := e.ctx.AllocPD()
	check(t, err)
	check(t, gonePD.Dealloc())
	closed, err := verbs.Open(loopback.Device(t))
	check(t, err)
	closedPD, err := closed.AllocPD()
	check(t, err)
	check(t, closed.Close())

	good := verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: send, RecvCQ: recv, SRQ: srq, Cap: ib.QPCap{MaxSendWR: 4, MaxSendSGE: 1}}
	create := func() *verbs.QP { qp, err := pd.CreateQP(&good); check(t, err); return qp }
	check(t, create().Destroy())
	for _, c := range []struct {
		name  string
		pd    *verbs.PD
		arg   string
		errno syscall.Errno
		spoil func(*verbs.QPInitAttr)
	}{
		{"closed context", closedPD, "context", syscall.EBADF, func(*verbs.QPInitAttr) {}},
		{"bad type", pd, "attr.Type", syscall.EOPNOTSUPP, func(a *verbs.QPInitAttr) { a.Type = 7 }},
		{"send queue too long", pd, "attr.Cap.MaxSendWR", syscall.EINVAL, func(a *verbs.QPInitAttr) { a.Cap.MaxSendWR = 1 << 31 }},
		{"foreign send CQ", pd, "attr.SendCQ", syscall.EINVAL, func(a *verbs.QPInitAttr) { a.SendCQ = other.cq }},
		{"foreign receive CQ", pd, "attr.RecvCQ", syscall.EINVAL, func(a *verbs.QPInitAttr) { a.RecvCQ = other.cq }},
		{"destroyed PD", gonePD, "PD", syscall.EINVAL, func(*verbs.QPInitAttr) {}},
		{"destroyed send CQ", pd, "attr.SendCQ", syscall.EINVAL, func(a *verbs.QPInitAttr) { a.SendCQ = goneCQ }},
		{"destroyed receive CQ", pd, "attr.RecvCQ", syscall.EINVAL, func(a *verbs.QPInitAttr) { a.RecvCQ = goneCQ }},
		{"destroyed SRQ", pd, "attr.SRQ", syscall.EINVAL, func(a *verbs.QPInitAttr) { a.SRQ = goneSRQ }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := good
			c.spoil(&bad)
			qp, err := c.pd.CreateQP(&bad)
			if qp != nil {
				t.Error("a queue pair came with the error")
			}
			wantError(t, err, c.errno, c.arg)
		})
	}

	after := create()
	wantError(t, srq.Destroy(), syscall.EBUSY, "SRQ") // counts did not sink below the number of users
	wantError(t, send.Destroy(), syscall.EBUSY, "CQ")
	wantError(t, recv.Destroy(), syscall.EBUSY, "CQ")
	check(t, after.Destroy())
	check(t, srq.Destroy())
	check(t, send.Destroy())
	check(t, recv.Destroy())
	check(t, pd.Dealloc())
	check(t, other.qp.Destroy())
	check(t, other.cq.Destroy()) // lent to a queue pair of another context in vain
}
