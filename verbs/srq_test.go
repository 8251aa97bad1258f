// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/verbs"
)

// event waits for an event of a type, passing over others.
func (e *end) event(want ib.EventType) verbs.AsyncEvent {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		ev, err := e.ctx.AsyncEvent(ctx)
		if err != nil {
			e.t.Fatalf("waiting for %v: %v", want, err)
		}
		if ev.Type == want {
			return ev
		}
	}
}

// noEvent wants none waiting.
func (e *end) noEvent() {
	e.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if ev, err := e.ctx.AsyncEvent(ctx); err == nil {
		e.t.Errorf("event %+v", ev)
	}
}

// TestSharedReceiveQueue has three queue pairs take from one queue, and the
// limit event come once.
func TestSharedReceiveQueue(t *testing.T) { onBothPaths(t, sharedReceiveQueue) }

func sharedReceiveQueue(t *testing.T) {
	const peers = 3
	b := newEnd(t, ib.QPTypeRC, 64*20)
	srq, err := b.pd.CreateSRQ(ib.SRQAttr{MaxWR: 16, MaxSGE: 1, SRQLimit: 9})
	check(t, err)
	if a := srq.Query(); a.MaxWR != 16 || a.MaxSGE != 1 || a.SRQLimit != 0 {
		t.Errorf("%+v", a)
	}
	var senders, takers []*end
	for range peers {
		y := b.sibling(func(a *verbs.QPInitAttr) { a.SRQ, a.SendCQ, a.RecvCQ = srq, b.cq, b.cq })
		y.cq = b.cq
		x := newEnd(t, ib.QPTypeRC, 64)
		connect(t, x, y, ib.MTU1024)
		senders, takers = append(senders, x), append(takers, y)
	}
	_, err = takers[0].qp.PostRecv(verbs.RecvWR{})
	wantError(t, err, syscall.EINVAL, "QP")
	for i := range 16 {
		_, err := srq.PostRecv(verbs.RecvWR{ID: uint64(i), SGList: []ib.SGE{b.mr.SGE(64*i, 64)}})
		check(t, err)
	}
	n, err := srq.PostRecv(verbs.RecvWR{ID: 99})
	wantError(t, err, syscall.ENOMEM, "SRQ")
	if n != 0 {
		t.Errorf("%d posted", n)
	}
	_, err = srq.PostRecv(verbs.RecvWR{SGList: make([]ib.SGE, 2)})
	wantError(t, err, syscall.EINVAL, "SGList")

	check(t, srq.Modify(ib.SRQAttr{SRQLimit: 12}, ib.SRQLimit))
	for i := range 6 {
		x := senders[i%peers]
		pattern(x.buf, byte(i))
		wantStatus(t, x.post(verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{x.mr.SGE(0, 64)}}).Status, ib.WCSuccess)
		wc := b.one()
		if wc.WRID != uint64(i) || wc.QPN != takers[i%peers].qp.QPN() || string(b.buf[64*i:64*i+64]) != string(x.buf) {
			t.Fatalf("completion %d: %+v", i, wc)
		}
	}
	if ev := b.event(ib.EventSRQLimitReached); ev.SRQ != srq || ev.QP != nil || ev.CQ != nil {
		t.Errorf("event %+v", ev)
	}
	b.noEvent()
	if a := srq.Query(); a.SRQLimit != 0 {
		t.Errorf("the limit stays armed: %+v", a)
	}

	// All or nothing.
	wantError(t, srq.Modify(ib.SRQAttr{MaxWR: 9, SRQLimit: 2}, ib.SRQMaxWR), syscall.EINVAL, "attr.MaxWR") // 10 wait
	wantError(t, srq.Modify(ib.SRQAttr{MaxWR: 20, SRQLimit: 21}, ib.SRQMaxWR|ib.SRQLimit), syscall.EINVAL, "attr.SRQLimit")
	wantError(t, srq.Modify(ib.SRQAttr{SRQLimit: 17}, ib.SRQLimit), syscall.EINVAL, "attr.SRQLimit")
	wantError(t, srq.Modify(ib.SRQAttr{}, ib.SRQMaxWR), syscall.EINVAL, "attr.MaxWR")
	wantError(t, srq.Modify(ib.SRQAttr{}, 4), syscall.EINVAL, "mask")
	if a := srq.Query(); a.MaxWR != 16 || a.SRQLimit != 0 {
		t.Errorf("a refused change left %+v", a)
	}
	check(t, srq.Modify(ib.SRQAttr{MaxWR: 20, SRQLimit: 1}, ib.SRQMaxWR|ib.SRQLimit))

	// A queue pair that ends says that it takes no more, and leaves the queue to
	// the others.
	check(t, takers[0].qp.Modify(&ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr))
	if ev := b.event(ib.EventQPLastWQEReached); ev.QP != takers[0].qp {
		t.Errorf("event %+v", ev)
	}
	wantError(t, srq.Destroy(), syscall.EBUSY, "SRQ")
	wantStatus(t, senders[1].post(verbs.SendWR{Opcode: ib.WRSend}).Status, ib.WCSuccess)
	if wc := b.one(); wc.WRID != 6 {
		t.Errorf("%+v", wc)
	}
	for _, y := range takers {
		check(t, y.qp.Destroy())
	}
	check(t, srq.Destroy())
	wantError(t, srq.Destroy(), syscall.EINVAL, "SRQ")
	_, err = srq.PostRecv(verbs.RecvWR{})
	wantError(t, err, syscall.EINVAL, "SRQ")
	wantError(t, srq.Modify(ib.SRQAttr{}, ib.SRQLimit), syscall.EINVAL, "SRQ")
}

// TestSRQOfDatagrams has a UD queue pair take its receives from a shared queue.
func TestSRQOfDatagrams(t *testing.T) {
	a := datagrams(t, 64)
	b := newEnd(t, ib.QPTypeUD, 256)
	srq, err := b.pd.CreateSRQ(ib.SRQAttr{MaxWR: 4, MaxSGE: 2})
	check(t, err)
	b = b.sibling(func(a *verbs.QPInitAttr) { a.SRQ, a.SendCQ, a.RecvCQ = srq, b.cq, b.cq })
	_, attr := b.qp.Query()
	b.cq = attr.RecvCQ
	toUD(t, b)
	_, err = srq.PostRecv(verbs.RecvWR{ID: 5, SGList: []ib.SGE{b.mr.SGE(0, 40), b.mr.SGE(100, 64)}})
	check(t, err)
	_, gid := a.gidOf("127.0.0.1")
	copy(a.buf, "apart from the header")
	wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{a.mr.SGE(0, 21)}, AH: a.handle(0, gid), RemoteQPN: b.qp.QPN(), RemoteQKey: testQKey}).Status, ib.WCSuccess)
	if wc := b.one(); wc.WRID != 5 || wc.ByteLen != 61 || string(b.buf[100:121]) != "apart from the header" {
		t.Errorf("%+v %q", wc, b.buf[100:121])
	}
}
