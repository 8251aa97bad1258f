// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/verbs"
)

// TestCreateRefuses wants each wrong argument named, and nothing half-made: the objects passed to
// the refused call can be destroyed afterwards.
func TestCreateRefuses(t *testing.T) {
	e, other := newEnd(t, ib.QPTypeRC, 64), newEnd(t, ib.QPTypeRC, 64)
	pd, err := e.ctx.AllocPD()
	check(t, err)
	cq, err := e.ctx.CreateCQ(4, nil)
	check(t, err)
	srq, err := pd.CreateSRQ(ib.SRQAttr{MaxWR: 4, MaxSGE: 1})
	check(t, err)
	foreign, err := other.pd.CreateSRQ(ib.SRQAttr{MaxWR: 4, MaxSGE: 1})
	check(t, err)
	good := verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq, SRQ: srq, Cap: ib.QPCap{MaxSendWR: 1 << 15, MaxSendSGE: 32, MaxInlineData: 512, MaxRecvWR: 1 << 20, MaxRecvSGE: 99}}
	qp, err := pd.CreateQP(&good) // at every limit, and past those that an SRQ makes void
	check(t, err)
	want := good.Cap
	want.MaxRecvWR, want.MaxRecvSGE = 0, 0 // there is no receive queue of its own
	if a, init := qp.Query(); a.Cap != want || init.Cap != want {
		t.Errorf("Query: %+v, %+v, want %+v", a.Cap, init.Cap, want)
	}
	check(t, qp.Destroy())
	for _, c := range []struct {
		arg    string
		errno  syscall.Errno
		change func(*verbs.QPInitAttr)
	}{
		{"attr.Type", syscall.EOPNOTSUPP, func(a *verbs.QPInitAttr) { a.Type = 7 }},
		{"attr.SendCQ", syscall.EINVAL, func(a *verbs.QPInitAttr) { a.SendCQ = nil }},
		{"attr.SendCQ", syscall.EINVAL, func(a *verbs.QPInitAttr) { a.SendCQ = other.cq }},
		{"attr.RecvCQ", syscall.EINVAL, func(a *verbs.QPInitAttr) { a.RecvCQ = nil }},
		{"attr.RecvCQ", syscall.EINVAL, func(a *verbs.QPInitAttr) { a.RecvCQ = other.cq }},
		{"attr.SRQ", syscall.EINVAL, func(a *verbs.QPInitAttr) { a.SRQ = foreign }},
		{"attr.SRQ", syscall.EINVAL, func(a *verbs.QPInitAttr) { a.Type = ib.QPTypeUC }},
		{"attr.Cap.MaxSendWR", syscall.EINVAL, func(a *verbs.QPInitAttr) { a.Cap.MaxSendWR = 1<<15 + 1 }},
		{"attr.Cap.MaxSendSGE", syscall.EINVAL, func(a *verbs.QPInitAttr) { a.Cap.MaxSendSGE = 33 }},
		{"attr.Cap.MaxInlineData", syscall.EINVAL, func(a *verbs.QPInitAttr) { a.Cap.MaxInlineData = 513 }},
		{"attr.Cap.MaxRecvWR", syscall.EINVAL, func(a *verbs.QPInitAttr) { a.SRQ = nil; a.Cap.MaxRecvWR = 1<<15 + 1 }},
		{"attr.Cap.MaxRecvSGE", syscall.EINVAL, func(a *verbs.QPInitAttr) { a.SRQ, a.Cap.MaxRecvWR = nil, 1; a.Cap.MaxRecvSGE = 33 }},
	} {
		bad := good
		c.change(&bad)
		_, err := pd.CreateQP(&bad)
		wantError(t, err, c.errno, c.arg)
	}
	_, err = pd.CreateQP(nil)
	wantError(t, err, syscall.EINVAL, "attr")

	gone, err := e.ctx.CreateCQ(4, nil)
	check(t, err)
	check(t, gone.Destroy())
	bad := good
	bad.RecvCQ = gone // the last that is looked at
	_, err = pd.CreateQP(&bad)
	wantError(t, err, syscall.EINVAL, "attr.RecvCQ")

	for _, depth := range []int{0, -1, 1<<22 + 1} {
		_, err = e.ctx.CreateCQ(depth, nil)
		wantError(t, err, syscall.EINVAL, "depth")
	}
	ch, err := other.ctx.CreateCompChannel()
	check(t, err)
	_, err = e.ctx.CreateCQ(4, ch)
	wantError(t, err, syscall.EINVAL, "channel")
	check(t, ch.Close())               // CVE-2025-38024: rxe freed a refused queue's memory twice
	_, err = other.ctx.CreateCQ(4, ch) // its last step
	wantError(t, err, syscall.EINVAL, "channel")
	wantError(t, ch.Close(), syscall.EINVAL, "channel")
	_, err = pd.CreateSRQ(ib.SRQAttr{MaxWR: 0})
	wantError(t, err, syscall.EINVAL, "attr.MaxWR")
	_, err = pd.CreateSRQ(ib.SRQAttr{MaxWR: 1<<15 + 1})
	wantError(t, err, syscall.EINVAL, "attr.MaxWR")
	_, err = pd.CreateSRQ(ib.SRQAttr{MaxWR: 1, MaxSGE: 33})
	wantError(t, err, syscall.EINVAL, "attr.MaxSGE")

	_, err = pd.RegMR(nil, 0)
	wantError(t, err, syscall.EINVAL, "buf")
	_, err = pd.RegMR(make([]byte, 8), ib.AccessRemoteWrite)
	wantError(t, err, syscall.EINVAL, "access")
	_, err = pd.RegMR(make([]byte, 8), ib.AccessRemoteAtomic)
	wantError(t, err, syscall.EINVAL, "access")
	_, err = pd.RegMR(make([]byte, 8), 1<<31)
	wantError(t, err, syscall.EINVAL, "access")
	onDemand, err := pd.RegMR(make([]byte, 8), ib.AccessOnDemand)
	if err != nil {
		t.Fatal(err)
	}
	if err := pd.AdviseMR(ib.AdvicePrefetch, []ib.SGE{onDemand.SGE(0, 8), onDemand.SGE(8, 0)}); err != nil {
		t.Error(err)
	}
	wantError(t, pd.AdviseMR(ib.AdvicePrefetchNoFault+1, nil), syscall.EOPNOTSUPP, "advice")
	wantError(t, pd.AdviseMR(ib.AdvicePrefetchWrite, []ib.SGE{onDemand.SGE(0, 8)}), syscall.EPERM, "sgl")
	wantError(t, pd.AdviseMR(ib.AdvicePrefetch, []ib.SGE{onDemand.SGE(0, 0), onDemand.SGE(0, 9)}), syscall.EFAULT, "sgl")
	wantError(t, pd.AdviseMR(ib.AdvicePrefetch, []ib.SGE{{LKey: onDemand.LKey() + 1}}), syscall.ENOENT, "sgl")
	if err := onDemand.Dereg(); err != nil {
		t.Error(err)
	}
	_, err = pd.AllocMR(0)
	wantError(t, err, syscall.EINVAL, "maxSegments")
	_, err = pd.AllocMR(513)
	wantError(t, err, syscall.EINVAL, "maxSegments")
	_, err = pd.AllocMW(3)
	wantError(t, err, syscall.EINVAL, "type")

	for _, port := range []int{0, 2} {
		_, err = e.ctx.QueryPort(port)
		wantError(t, err, syscall.EINVAL, "port")
		_, err = e.ctx.GIDTable(port)
		wantError(t, err, syscall.EINVAL, "port")
		_, err = e.ctx.QueryGID(port, 0)
		wantError(t, err, syscall.EINVAL, "port")
		_, err = e.ctx.QueryPKey(port, 0)
		wantError(t, err, syscall.EINVAL, "port")
	}
	_, err = e.ctx.QueryGID(1, 256)
	wantError(t, err, syscall.EINVAL, "index")
	if g, err := e.ctx.QueryGID(1, 255); err != nil || !g.IsZero() {
		t.Errorf("an entry that is not in use: %v, %v", g, err)
	}
	_, err = e.ctx.QueryPKey(1, 1)
	wantError(t, err, syscall.EINVAL, "index")
	if k, err := e.ctx.QueryPKey(1, 0); err != nil || k != ib.DefaultPKey {
		t.Errorf("P_Key %#x, %v", k, err)
	}
	_, err = verbs.Open("roce_nowhere0")
	wantError(t, err, syscall.ENODEV, `device "roce_nowhere0"`)
	_, err = verbs.Open("", verbs.WithoutSharing())
	wantError(t, err, syscall.EBUSY, "sharing")

	check(t, srq.Destroy())
	check(t, foreign.Destroy())
	check(t, cq.Destroy())
	check(t, pd.Dealloc())
}

// TestModifyRefuses has the argument named and the state as it was.
func TestModifyRefuses(t *testing.T) {
	e := newEnd(t, ib.QPTypeRC, 64)
	wantError(t, e.qp.Modify(nil, ib.QPStateAttr), syscall.EINVAL, "attr")
	wantError(t, e.qp.Modify(&ib.QPAttr{State: ib.QPRTS}, ib.QPStateAttr), syscall.EINVAL, "State")
	wantError(t, e.qp.Modify(&ib.QPAttr{State: ib.QPInit, PortNum: 1}, ib.QPStateAttr|ib.QPPort), syscall.EINVAL, "mask")
	wantError(t, e.qp.Modify(&ib.QPAttr{State: ib.QPInit, PortNum: 3}, ib.QPStateAttr|ib.QPPort|ib.QPPKeyIndex|ib.QPAccessFlags), syscall.EINVAL, "PortNum")
	if s := e.qp.State(); s != ib.QPReset {
		t.Fatalf("state %v", s)
	}
	toInit(t, e)
	rtr := ib.QPAttr{State: ib.QPRTR, PathMTU: ib.MTU1024, AH: ib.AHAttr{IsGlobal: true}}
	mask := ib.QPStateAttr | ib.QPAV | ib.QPPathMTU | ib.QPDestQPN | ib.QPRQPSN | ib.QPMaxDestRdAtomic | ib.QPMinRNRTimer
	wantError(t, e.qp.Modify(&rtr, mask), syscall.EINVAL, "AH.GRH.DGID")
	rtr.AH.GRH.SGIDIndex = 255
	wantError(t, e.qp.Modify(&rtr, mask), syscall.EINVAL, "AH.GRH.SGIDIndex")
	if a, init := e.qp.Query(); a.State != ib.QPInit || a.PathMTU != 0 || init.Cap != a.Cap || init.SendCQ != e.cq {
		t.Errorf("%+v %+v", a, init)
	}
}

// TestPostRefuses wants each wrong field named, nothing of the work request
// taken, and those before it under way.
func TestPostRefuses(t *testing.T) {
	a, b := rcPair(t, 4096)
	other := newEnd(t, ib.QPTypeRC, 64)
	good := verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	mw1, err := a.pd.AllocMW(ib.MWType1)
	check(t, err)
	mw2, err := a.pd.AllocMW(ib.MWType2)
	check(t, err)
	theirs, err := other.pd.AllocMW(ib.MWType2)
	check(t, err)
	big, err := a.pd.RegMRIOVA(a.buf, 0, 0)
	check(t, err)
	for _, c := range []struct {
		arg    string
		of     verbs.SendWR
		change func(*verbs.SendWR)
	}{
		{"Opcode", good, func(w *verbs.SendWR) { w.Opcode = ib.WRTSO }},
		{"Opcode", good, func(w *verbs.SendWR) { w.Opcode = 200 }},
		{"Flags", good, func(w *verbs.SendWR) { w.Flags = 1 << 7 }},
		{"SGList", good, func(w *verbs.SendWR) { w.SGList = make([]ib.SGE, 5) }},
		{"SGList", good, func(w *verbs.SendWR) {
			w.SGList = []ib.SGE{{Length: 1 << 31, LKey: big.LKey()}, {Length: 1, LKey: big.LKey()}}
		}},
		{"Inline", good, func(w *verbs.SendWR) { w.Flags, w.Inline = ib.SendInline, make([]byte, 65) }},
		{"SGList", good, func(w *verbs.SendWR) { w.Flags, w.SGList = ib.SendInline, []ib.SGE{a.mr.SGE(0, 65)} }},
		{"SGList", good, func(w *verbs.SendWR) { w.Flags, w.SGList[0].LKey = ib.SendInline, 3 }},
		{"Flags", good, func(w *verbs.SendWR) { w.Opcode, w.Flags = ib.WRRDMARead, ib.SendInline }},
		{"FlushType", good, func(w *verbs.SendWR) { w.Opcode = ib.WRFlush }},
		{"FlushLevel", good, func(w *verbs.SendWR) { w.Opcode, w.FlushType, w.FlushLevel = ib.WRFlush, ib.FlushGlobal, 2 }},
		{"Bind.MW", good, func(w *verbs.SendWR) { w.Opcode = ib.WRBindMW }},
		{"Bind.MW", good, func(w *verbs.SendWR) { w.Opcode, w.Bind = ib.WRBindMW, &verbs.BindWR{MW: mw1, MR: a.mr} }},
		{"Bind.MW", good, func(w *verbs.SendWR) { w.Opcode, w.Bind = ib.WRBindMW, &verbs.BindWR{MW: theirs, MR: a.mr} }},
		{"Bind.MR", good, func(w *verbs.SendWR) { w.Opcode, w.Bind = ib.WRBindMW, &verbs.BindWR{MW: mw2, Length: 1} }},
		{"Bind.MR", good, func(w *verbs.SendWR) {
			w.Opcode, w.Bind = ib.WRBindMW, &verbs.BindWR{MW: mw2, MR: other.mr, Length: 1}
		}},
		{"Reg.MR", good, func(w *verbs.SendWR) { w.Opcode = ib.WRRegMR }},
		{"Reg.MR", good, func(w *verbs.SendWR) { w.Opcode, w.Reg = ib.WRRegMR, &verbs.RegWR{MR: other.mr} }},
	} {
		bad := c.of
		bad.SGList = append([]ib.SGE{}, c.of.SGList...)
		c.change(&bad)
		n, err := a.qp.PostSend(good, bad, good)
		wantError(t, err, syscall.EINVAL, c.arg)
		if n != 1 {
			t.Errorf("%s: %d posted", c.arg, n)
		}
		a.one()
	}
	wantError(t, a.qp.BindMW(mw2, verbs.BindWR{MR: a.mr, Length: 1}), syscall.EINVAL, "Bind.MW")
	wantError(t, a.qp.BindMW(nil, verbs.BindWR{}), syscall.EINVAL, "Bind.MW")

	_, err = b.qp.PostRecv(verbs.RecvWR{SGList: make([]ib.SGE, 5)})
	wantError(t, err, syscall.EINVAL, "SGList")
	_, err = b.qp.PostRecv(verbs.RecvWR{SGList: []ib.SGE{{Length: 1 << 31}, {Length: 1}}})
	wantError(t, err, syscall.EINVAL, "SGList")
	n, err := b.qp.PostRecv(make([]verbs.RecvWR, 129)...)
	wantError(t, err, syscall.ENOMEM, "receive queue")
	if n != 128 {
		t.Errorf("%d of 128 posted", n)
	}
	wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRSend}).Status, ib.WCSuccess) // nothing was harmed
	b.one()

	// By state and service.
	fresh := newEnd(t, ib.QPTypeUC, 64)
	_, err = fresh.qp.PostRecv(verbs.RecvWR{})
	wantError(t, err, syscall.EINVAL, "QP")
	for _, s := range []func(){func() {}, func() { toInit(t, fresh) }} {
		s()
		_, err = fresh.qp.PostSend(good)
		wantError(t, err, syscall.EINVAL, "QP")
		wantError(t, fresh.qp.BindMW(mw1, verbs.BindWR{}), syscall.EINVAL, "QP")
	}
	check(t, fresh.qp.Modify(&ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr))
	for _, op := range []ib.WROpcode{ib.WRRDMARead, ib.WRSendWithInv, ib.WRAtomicCmpAndSwp, ib.WRAtomicWrite, ib.WRFlush} {
		_, err = fresh.qp.PostSend(verbs.SendWR{Opcode: op})
		wantError(t, err, syscall.EINVAL, "Opcode")
	}
	wantStatus(t, fresh.post(verbs.SendWR{Opcode: ib.WRRDMAWrite}).Status, ib.WCWRFlushErr)
	// The longest message there is may be posted.
	long := verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{{Length: 1 << 30}, {Length: 1 << 30}}}
	wantStatus(t, fresh.post(long).Status, ib.WCWRFlushErr)

	check(t, fresh.qp.Destroy())
	wantError(t, fresh.qp.Destroy(), syscall.EINVAL, "QP")
	_, err = fresh.qp.PostSend(good)
	wantError(t, err, syscall.EINVAL, "QP")
	_, err = fresh.qp.PostRecv(verbs.RecvWR{})
	wantError(t, err, syscall.EINVAL, "QP")
	wantError(t, fresh.qp.Modify(&ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr), syscall.EINVAL, "QP")
	wantError(t, fresh.qp.BindMW(mw1, verbs.BindWR{}), syscall.EINVAL, "QP")
}

// TestSendQueueFull wants ENOMEM for the one that does not fit, and room again
// once one has completed.
func TestSendQueueFull(t *testing.T) {
	a, b := rcPair(t, 64)
	n, err := a.qp.PostSend(make129(verbs.SendWR{Opcode: ib.WRSend})...) // wait for receives
	wantError(t, err, syscall.ENOMEM, "send queue")
	if n != 128 {
		t.Errorf("%d posted", n)
	}
	b.recv(2, 8)
	b.poll(2)
	wr := verbs.SendWR{ID: 7, Opcode: ib.WRSend, Flags: ib.SendSignaled}
	for {
		if _, err := a.qp.PostSend(wr); err == nil {
			break
		}
		a.cq.Poll(nil)
	}
}

func make129(wr verbs.SendWR) []verbs.SendWR {
	out := make([]verbs.SendWR, 129)
	for i := range out {
		out[i] = wr
	}
	return out
}
