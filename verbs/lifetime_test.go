// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"context"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/internal/testkit/loopback"
	"verbena/verbs"
)

// TestNothingGoesWhileItIsUsed takes everything down in the order that EBUSY
// asks for.
func TestNothingGoesWhileItIsUsed(t *testing.T) {
	c, err := verbs.Open(loopback.Device(t))
	check(t, err)
	defer c.Close()
	pd, err := c.AllocPD()
	check(t, err)
	ch, err := c.CreateCompChannel()
	check(t, err)
	cq, err := c.CreateCQ(4, ch)
	check(t, err)
	srq, err := pd.CreateSRQ(ib.SRQAttr{MaxWR: 4, MaxSGE: 1})
	check(t, err)
	qp, err := pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeUD, SendCQ: cq, RecvCQ: cq, SRQ: srq})
	check(t, err)
	mr, err := pd.RegMR(make([]byte, 8), 0)
	check(t, err)
	mw, err := pd.AllocMW(ib.MWType1)
	check(t, err)
	gid, err := c.QueryGID(1, 0)
	check(t, err)
	ah, err := pd.CreateAH(&ib.AHAttr{IsGlobal: true, GRH: ib.GRH{DGID: gid}})
	check(t, err)

	wantError(t, ch.Close(), syscall.EBUSY, "channel")
	wantError(t, cq.Destroy(), syscall.EBUSY, "CQ")
	wantError(t, srq.Destroy(), syscall.EBUSY, "SRQ")
	for _, end := range []func() error{qp.Destroy, srq.Destroy, mr.Dereg, mw.Dealloc, ah.Destroy} {
		wantError(t, pd.Dealloc(), syscall.EBUSY, "PD")
		check(t, end())
	}
	check(t, pd.Dealloc())
	wantError(t, pd.Dealloc(), syscall.EINVAL, "PD")
	wantError(t, ch.Close(), syscall.EBUSY, "channel")
	check(t, cq.Destroy())
	wantError(t, cq.Destroy(), syscall.EINVAL, "CQ")
	check(t, ch.Close())

	for _, make := range []func() error{
		func() error { _, err := pd.RegMR(make([]byte, 8), 0); return err },
		func() error { _, err := pd.AllocMR(1); return err },
		func() error { _, err := pd.AllocMW(ib.MWType2); return err },
		func() error { _, err := pd.CreateSRQ(ib.SRQAttr{MaxWR: 1}); return err },
		func() error { _, err := pd.CreateAH(&ib.AHAttr{IsGlobal: true, GRH: ib.GRH{DGID: gid}}); return err },
	} {
		wantError(t, make(), syscall.EINVAL, "PD")
	}
}

// postToNobody posts one more, which fails: a busy machine may have been so late to
// take the peer away that all those before had been done.
func (e *end) postToNobody() {
	e.t.Helper()
	_, err := e.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled})
	check(e.t, err)
}

// TestDestroyWithWorkOutstanding leaves no completion of the queue pair behind
// and those of others alone; the peer, which still sends, learns of it.
func TestDestroyWithWorkOutstanding(t *testing.T) {
	a, b := rcPair(t, 64<<10, func(q *ib.QPAttr) { q.Timeout, q.RetryCnt = 12, 7 })
	other := b.sibling(func(x *verbs.QPInitAttr) { x.SendCQ, x.RecvCQ = b.cq, b.cq })
	toInit(t, other)
	other.recv(2, 8)
	b.recv(8, 64)
	for range 4 {
		_, err := a.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend})
		check(t, err)
	}
	_, err := a.qp.PostSend(verbs.SendWR{ID: 1, Opcode: ib.WRSend, Flags: ib.SendSignaled})
	check(t, err)
	a.one()                                                                // all five have arrived, and their completions wait
	check(t, other.qp.Modify(&ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr)) // two flushes behind them
	for range 100 {
		_, err := a.qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{a.mr.SGE(0, 64<<10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		check(t, err)
	}
	check(t, b.qp.Destroy())
	check(t, b.mr.Dereg()) // which is granted nobody any more
	a.postToNobody()
	for _, wc := range b.poll(2) {
		if wc.QPN != other.qp.QPN() {
			t.Errorf("a completion of the destroyed queue pair: %+v", wc)
		}
	}
	b.noEvent()
	if wc := a.poll(1)[0]; wc.Status != ib.WCRetryExcErr && wc.Status != ib.WCRemAccessErr {
		t.Errorf("%+v", wc)
	}
}

// TestContextCloseWithEverythingOpen closes under traffic, with waiters of both
// kinds, and wants them woken and every later call refused.
func TestContextCloseWithEverythingOpen(t *testing.T) {
	a := newEnd(t, ib.QPTypeRC, 64<<10)
	c, err := verbs.Open(loopback.Device(t))
	check(t, err)
	b := &end{t: t, ctx: c}
	b.pd, err = c.AllocPD()
	check(t, err)
	ch, err := c.CreateCompChannel()
	check(t, err)
	b.cq, err = c.CreateCQ(64, ch)
	check(t, err)
	b.qp, err = b.pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: b.cq, RecvCQ: b.cq, Cap: ib.QPCap{MaxSendWR: 4, MaxSendSGE: 1, MaxRecvWR: 4, MaxRecvSGE: 1}})
	check(t, err)
	b.buf = make([]byte, 64<<10)
	b.mr, err = b.pd.RegMR(b.buf, allAccess)
	check(t, err)
	connect(t, a, b, ib.MTU4096, func(q *ib.QPAttr) { q.Timeout, q.RetryCnt = 12, 7 })
	for range 100 {
		_, err := a.qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{a.mr.SGE(0, 64<<10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		check(t, err)
	}
	var woken sync.WaitGroup
	woken.Add(2)
	go func() {
		defer woken.Done()
		_, err := ch.Wait(context.Background())
		wantError(t, err, syscall.EBADF, "channel")
	}()
	go func() {
		defer woken.Done()
		for {
			if _, err := c.AsyncEvent(context.Background()); err != nil {
				wantError(t, err, syscall.EBADF, "context")
				return
			}
		}
	}()
	check(t, c.Close())
	woken.Wait()
	clear(b.buf) // nobody else touches it: the race detector looks on
	check(t, c.Close())
	a.postToNobody()
	if wc := a.poll(1)[0]; wc.Status == ib.WCSuccess {
		t.Errorf("%+v", wc)
	}

	for _, call := range []func() error{
		func() error { _, err := c.AllocPD(); return err },
		func() error { _, err := c.CreateCQ(1, nil); return err },
		func() error { _, err := c.CreateCompChannel(); return err },
		func() error { _, err := b.pd.CreateQP(&verbs.QPInitAttr{}); return err },
		func() error { _, err := b.pd.RegMR(make([]byte, 8), 0); return err },
		func() error { _, err := b.pd.AllocMR(1); return err },
		func() error { _, err := b.pd.AllocMW(ib.MWType1); return err },
		func() error { _, err := b.pd.CreateSRQ(ib.SRQAttr{MaxWR: 1}); return err },
		func() error { _, err := b.pd.CreateAH(&ib.AHAttr{}); return err },
	} {
		wantError(t, call(), syscall.EBADF, "context")
	}
	_, err = b.qp.PostSend(verbs.SendWR{})
	wantError(t, err, syscall.EINVAL, "QP")
	_, err = b.cq.Poll(make([]ib.WC, 1))
	wantError(t, err, syscall.EBADF, "context")
}

// TestTwoContexts: keys, domains and events of one are nothing to the other,
// though both share the process's sockets.
func TestTwoContexts(t *testing.T) {
	a, b := rcPair(t, 64)
	if a.ctx.Info() != b.ctx.Info() {
		t.Error("not the same device")
	}
	// a's key at b: not there, or somebody else's.
	wantStatus(t, a.write(8, a.mr.Addr(), a.mr.RKey()), ib.WCRemAccessErr)
	b.event(ib.EventQPAccessErr)
	check(t, a.qp.Destroy()) // its events are its context's
	a.noEvent()
}

// TestConcurrentCalls has every kind of call made at once on the same objects,
// for the race detector. The thread that receives an answer counts it while others poll
// and read the counters (CVE-2024-38544: rxe counted an answer after another
// thread had taken and freed it).
func TestConcurrentCalls(t *testing.T) {
	a, b := rcPair(t, 4096)
	var all sync.WaitGroup
	for _, f := range []func(){
		func() {
			a.qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, 64)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		},
		func() { a.cq.Poll(make([]ib.WC, 8)) },
		func() { b.qp.PostRecv(verbs.RecvWR{}) },
		func() { a.qp.Query(); a.qp.State(); a.ctx.Counters() },
		func() { a.qp.Modify(&ib.QPAttr{MinRNRTimer: 3}, ib.QPMinRNRTimer) },
		func() { a.cq.Resize(1024) },
		func() {
			if mr, err := b.pd.RegMR(make([]byte, 8), allAccess); err == nil {
				mr.Rereg(ib.ReregAccess, nil, nil, 0)
				mr.Dereg()
			}
		},
		func() { s := b.sibling(); s.qp.Destroy(); s.cq.Destroy() },
		func() { b.mr.Rereg(ib.ReregAccess, nil, nil, allAccess); b.mr.RKey(); b.mr.Bytes() },
	} {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 50 {
				f()
				runtime.Gosched()
			}
		}()
	}
	all.Wait()
}

// TestNothingLeft opens and closes contexts with queue pairs of all services.
func TestNothingLeft(t *testing.T) {
	cycle := func() {
		t.Run("cycle", func(t *testing.T) {
			a, b := rcPair(t, 64)
			wantStatus(t, a.write(8, b.mr.Addr(), b.mr.RKey()), ib.WCSuccess)
			datagrams(t, 64)
			connect(t, newEnd(t, ib.QPTypeUC, 8), newEnd(t, ib.QPTypeUC, 8), ib.MTU256)
		})
	}
	left := func() int { // descriptors, once no goroutine of ours runs
		buf := make([]byte, 1<<20)
		for i := 0; strings.Contains(string(buf[:runtime.Stack(buf, true)]), "verbena/internal/"); i++ {
			if i == 1<<14 {
				t.Fatalf("goroutines are left:\n%s", buf)
			}
			runtime.Gosched() // one that has said that it is done may still be on its last line
		}
		d, _ := os.ReadDir("/proc/self/fd") // nothing where there is no such thing
		return len(d)
	}
	cycle() // the runtime and the package open some descriptors for good
	open := left()
	for range 3 {
		cycle()
	}
	if n := left(); n != open {
		t.Errorf("%d descriptors, before %d", n, open)
	}
}

// TestDestroyAcknowledgesWhatHasArrived destroys queue pairs to which a message is on its way
// within the host. An adapter would have received and acknowledged it.
func TestDestroyAcknowledgesWhatHasArrived(t *testing.T) {
	for range 50 {
		a, b := newEnd(t, ib.QPTypeRC, 64), newEnd(t, ib.QPTypeRC, 64)
		connect(t, a, b, ib.MTU1024, func(attr *ib.QPAttr) { attr.Timeout, attr.RetryCnt = 8, 1 })
		_, err := b.qp.PostRecv(verbs.RecvWR{SGList: []ib.SGE{b.mr.SGE(0, 64)}})
		check(t, err)
		_, err = a.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, 64)}})
		check(t, err)
		check(t, b.qp.Destroy())
		a.one()
	}
}
