// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/verbs"
)

// withChannel gives an end a queue pair whose completions are announced on a
// channel.
func (e *end) withChannel() (*end, *verbs.CompChannel) {
	e.t.Helper()
	ch, err := e.ctx.CreateCompChannel()
	check(e.t, err)
	cq, err := e.ctx.CreateCQ(1024, ch)
	check(e.t, err)
	s := e.sibling(func(a *verbs.QPInitAttr) { a.SendCQ, a.RecvCQ = cq, cq })
	s.cq = cq
	return s, ch
}

// wait waits for an event on a channel.
func wait(t testing.TB, ch *verbs.CompChannel) *verbs.CQ {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cq, err := ch.Wait(ctx)
	if err != nil {
		t.Fatalf("no event came: %v", err)
	}
	return cq
}

// quiet wants no event on a channel.
func quiet(t testing.TB, ch *verbs.CompChannel) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if cq, err := ch.Wait(ctx); err == nil {
		t.Errorf("event of %p", cq)
	} else if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestSolicitedOnly: a queue armed for solicited completions makes an event for
// one of these or for an error, and only one.
func TestSolicitedOnly(t *testing.T) {
	a := newEnd(t, ib.QPTypeRC, 64)
	b, ch := newEnd(t, ib.QPTypeRC, 4096).withChannel()
	connect(t, a, b, ib.MTU1024)
	send := func(flags ib.SendFlags) {
		b.recv(1, 64)
		wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRSend, Flags: flags}).Status, ib.WCSuccess)
	}
	check(t, b.cq.RequestNotify(true))
	send(0)
	quiet(t, ch)
	send(ib.SendSolicited)
	if wait(t, ch) != b.cq {
		t.Error("event of another queue")
	}
	send(ib.SendSolicited) // one shot
	quiet(t, ch)
	b.poll(3)
	check(t, b.cq.RequestNotify(false))
	send(0)
	wait(t, ch)
	check(t, b.cq.RequestNotify(true)) // completions that are in the queue already make none
	quiet(t, ch)
	b.recv(1, 64)
	check(t, b.qp.Modify(&ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr)) // a flush is an error
	wait(t, ch)
	wc := b.poll(2)
	wantStatus(t, wc[1].Status, ib.WCWRFlushErr)
}

// TestNoLostWakeUp sends many messages to a receiver that sleeps on its channel
// between them, in the order that ibv_get_cq_event(3) gives: event, arm, empty.
func TestNoLostWakeUp(t *testing.T) { onBothPaths(t, noLostWakeUp) }

func noLostWakeUp(t *testing.T) {
	const messages = 3000
	a := newEnd(t, ib.QPTypeRC, 64)
	b, ch := newEnd(t, ib.QPTypeRC, 64*64).withChannel()
	connect(t, a, b, ib.MTU1024)
	b.recv(64, 64)
	check(t, b.cq.RequestNotify(false))
	var receiver sync.WaitGroup
	receiver.Add(1)
	go func() {
		defer receiver.Done()
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		wc := make([]ib.WC, 16)
		for got := 0; got < messages; {
			cq, err := ch.Wait(ctx)
			if err != nil {
				t.Errorf("after %d messages: %v", got, err)
				return
			}
			check(t, cq.RequestNotify(false))
			for {
				n, err := cq.Poll(wc)
				if err != nil {
					t.Error(err)
					return
				}
				if n == 0 {
					break
				}
				got += n
				for _, c := range wc[:n] {
					if _, err := b.qp.PostRecv(verbs.RecvWR{ID: c.WRID, SGList: []ib.SGE{b.mr.SGE(int(c.WRID)*64, 64)}}); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}()
	for i := 0; i < messages; {
		burst := 1 + i%7
		for range burst {
			_, err := a.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled})
			check(t, err)
		}
		for _, wc := range a.poll(burst) {
			check(t, wc.Err())
		}
		i += burst
	}
	receiver.Wait()
}

// TestManyWaiters has several goroutines wait on one channel for the events of
// several queues: each event wakes one of them.
func TestManyWaiters(t *testing.T) {
	e := newEnd(t, ib.QPTypeRC, 64)
	ch, err := e.ctx.CreateCompChannel()
	check(t, err)
	const queues = 8
	got := make(chan *verbs.CQ, queues)
	for range queues {
		go func() {
			cq, err := ch.Wait(context.Background())
			if err != nil {
				t.Error(err)
			}
			got <- cq
		}()
	}
	want := map[*verbs.CQ]bool{}
	for range queues {
		cq, err := e.ctx.CreateCQ(4, ch)
		check(t, err)
		s := e.sibling(func(a *verbs.QPInitAttr) { a.SendCQ, a.RecvCQ = cq, cq })
		check(t, s.qp.Modify(&ib.QPAttr{State: ib.QPInit, PortNum: 1}, ib.QPStateAttr|ib.QPPort|ib.QPPKeyIndex|ib.QPAccessFlags))
		s.recv(1, 64)
		check(t, cq.RequestNotify(false))
		check(t, s.qp.Modify(&ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr)) // flushes the receive
		want[cq] = true
	}
	for range queues {
		cq := <-got
		if !want[cq] {
			t.Error("an event came twice")
		}
		delete(want, cq)
	}
}

func TestChannelEnds(t *testing.T) {
	e := newEnd(t, ib.QPTypeRC, 64)
	ch, err := e.ctx.CreateCompChannel()
	check(t, err)
	cq, err := e.ctx.CreateCQ(4, ch)
	check(t, err)
	wantError(t, ch.Close(), syscall.EBUSY, "channel")
	ended := make(chan error)
	for range 2 {
		go func() {
			_, err := ch.Wait(context.Background())
			ended <- err
		}()
	}
	check(t, cq.Destroy())
	check(t, ch.Close())
	for range 2 {
		wantError(t, <-ended, syscall.EBADF, "channel")
	}
	wantError(t, ch.Close(), syscall.EINVAL, "channel")
	_, err = e.ctx.CreateCQ(4, ch)
	wantError(t, err, syscall.EINVAL, "channel")
	wantError(t, cq.RequestNotify(false), syscall.EINVAL, "CQ")
	wantError(t, cq.Resize(8), syscall.EINVAL, "CQ")
	wantError(t, e.cq.RequestNotify(false), syscall.EINVAL, "CQ")

	// An event that was not fetched goes with its queue.
	ch, err = e.ctx.CreateCompChannel()
	check(t, err)
	cq, err = e.ctx.CreateCQ(4, ch)
	check(t, err)
	s := e.sibling(func(a *verbs.QPInitAttr) { a.SendCQ, a.RecvCQ = cq, cq })
	toInit(t, s)
	s.recv(1, 64)
	check(t, cq.RequestNotify(true))
	check(t, s.qp.Modify(&ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr))
	check(t, s.qp.Destroy())
	check(t, cq.Destroy())
	quiet(t, ch)
}

func TestResizeCQ(t *testing.T) {
	e := newEnd(t, ib.QPTypeRC, 64)
	toInit(t, e)
	e.recv(6, 8)
	check(t, e.qp.Modify(&ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr))
	wantError(t, e.cq.Resize(5), syscall.EINVAL, "depth")
	wantError(t, e.cq.Resize(0), syscall.EINVAL, "depth")
	wantError(t, e.cq.Resize(1<<22+1), syscall.EINVAL, "depth")
	if d := e.cq.Depth(); d != 1024 {
		t.Errorf("depth %d", d)
	}
	e.poll(2)
	check(t, e.cq.Resize(4))
	if d := e.cq.Depth(); d != 4 {
		t.Errorf("depth %d", d)
	}
	for i, wc := range e.poll(4) {
		if wc.WRID != uint64(i+2) {
			t.Errorf("completion %d is of %d", i, wc.WRID)
		}
	}
}

// TestCQOverrun loses completions; the application hears of it by an event and
// by the error of Poll, after those that are there.
func TestCQOverrun(t *testing.T) {
	e := newEnd(t, ib.QPTypeRC, 64)
	cq, err := e.ctx.CreateCQ(3, nil)
	check(t, err)
	s := e.sibling(func(a *verbs.QPInitAttr) { a.SendCQ, a.RecvCQ = cq, cq })
	toInit(t, s)
	s.recv(5, 8)
	check(t, s.qp.Modify(&ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr))
	if ev := e.event(ib.EventCQErr); ev.CQ != cq {
		t.Errorf("event %+v", ev)
	}
	var wc [8]ib.WC
	if n, err := cq.Poll(wc[:]); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	n, err := cq.Poll(wc[:])
	wantError(t, err, syscall.ENOMEM, "CQ")
	if n != 0 {
		t.Errorf("%d completions", n)
	}
	e.noEvent()
}
