// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/core"
	"verbena/internal/engine"
	"verbena/verbs"
)

// sleeper is an end whose goroutine sleeps on a channel of its own between messages.
type sleeper struct {
	*end
	ch *verbs.CompChannel
	wc []ib.WC
}

func newSleeper(t *testing.T) *sleeper {
	e, ch := newEnd(t, ib.QPTypeRC, 64).withChannel()
	return &sleeper{e, ch, make([]ib.WC, 4)}
}

// receive waits for one message and posts the receive for the next.
func (s *sleeper) receive(ctx context.Context) error {
	for {
		if err := s.cq.RequestNotify(false); err != nil {
			return err
		}
		n, err := s.cq.Poll(s.wc)
		if err != nil {
			return err
		}
		came := false
		for _, wc := range s.wc[:n] {
			if wc.Status != ib.WCSuccess {
				return wc.Err()
			}
			came = came || wc.Opcode == ib.WCRecv
		}
		if came {
			return s.postReceive()
		}
		if n > 0 {
			continue // until the queue is empty
		}
		if _, err := s.ch.Wait(ctx); err != nil {
			return err
		}
	}
}

func (s *sleeper) postReceive() error {
	_, err := s.qp.PostRecv(verbs.RecvWR{SGList: []ib.SGE{s.mr.SGE(0, 64)}})
	return err
}

func (s *sleeper) send() error {
	_, err := s.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled})
	return err
}

// sleepers returns two connected ends, each with receives posted.
func sleepers(t *testing.T) (a, b *sleeper) {
	a, b = newSleeper(t), newSleeper(t)
	connect(t, a.end, b.end, ib.MTU1024, func(attr *ib.QPAttr) { attr.Timeout = 17 }) // 0.5 s
	for range 2 {
		check(t, a.postReceive())
		check(t, b.postReceive())
	}
	return a, b
}

// TestWaitersTakeTurns has goroutines wait on a channel each. The one that reads the network leaves
// with its event, and another has to go on.
func TestWaitersTakeTurns(t *testing.T) { onBothPaths(t, waitersTakeTurns) }

func waitersTakeTurns(t *testing.T) {
	const pairs, messages = 5, 200
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	for range pairs {
		a, b := sleepers(t)
		running.Go(func() { // answers
			for range messages {
				if err := errors.Join(b.receive(ctx), b.send()); err != nil {
					t.Error(err)
					return
				}
			}
		})
		running.Go(func() {
			for range messages {
				if err := errors.Join(a.send(), a.receive(ctx)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
}

// TestWaitEndsWithItsContext cancels a goroutine that reads the network, and one beside it. Others
// receive their messages all the same.
func TestWaitEndsWithItsContext(t *testing.T) {
	a, b := sleepers(t)
	other := newSleeper(t)
	for range 50 {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 2)
		for _, s := range []*sleeper{other, other} {
			go func() {
				_, err := s.ch.Wait(ctx)
				ended <- err
			}()
		}
		long, stop := context.WithTimeout(context.Background(), time.Minute)
		received := make(chan error, 1)
		go func() { received <- b.receive(long) }()
		check(t, a.send())
		cancel()
		for range cap(ended) {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("it ended with %v", err)
			}
		}
		check(t, <-received)
		stop()
		for _, wc := range a.poll(1) {
			check(t, wc.Err())
		}
	}
}

// TestWaitAllocatesNothing exchanges messages between two goroutines that sleep.
func TestWaitAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates: run without -race")
	}
	a, b := sleepers(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	list := []verbs.SendWR{{Opcode: ib.WRSend, Flags: ib.SendSignaled}}
	recv := []verbs.RecvWR{{SGList: []ib.SGE{a.mr.SGE(0, 64)}}}
	receive := func(s *sleeper) error {
		for {
			s.cq.RequestNotify(false)
			came := false
			n, err := s.cq.Poll(s.wc)
			for i := range n {
				came = came || s.wc[i].Opcode == ib.WCRecv
				err = errors.Join(err, s.wc[i].Err())
			}
			if came || err != nil {
				return err
			}
			if n > 0 {
				continue
			}
			if _, err := s.ch.Wait(ctx); err != nil {
				return err
			}
		}
	}
	recvB := []verbs.RecvWR{{SGList: []ib.SGE{b.mr.SGE(0, 64)}}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for receive(b) == nil {
			b.qp.PostRecv(recvB...)
			b.qp.PostSend(list...)
		}
	}()
	once := func() {
		a.qp.PostRecv(recv...)
		a.qp.PostSend(list...)
		if err := receive(a); err != nil {
			t.Error(err)
		}
	}
	for range 100 { // pools and queues reach their sizes
		once()
	}
	n := testing.AllocsPerRun(200, once)
	for try := 0; n != 0 && try < 10; try++ { // as in noAllocations
		n = testing.AllocsPerRun(200, once)
	}
	if n != 0 {
		t.Errorf("%v allocations a message", n)
	}
	cancel()
	<-done
}

// rightToRead returns the channel with the right to read the network. Only Linux has the
// descriptors for it.
func rightToRead(s *sleeper) <-chan *engine.ReadToken {
	s.t.Helper()
	right := (*core.Context)(s.ctx).Engine().ReadTokens()
	switch {
	case right != nil:
	case runtime.GOOS == "linux":
		s.t.Fatal("the background goroutine reads, and no goroutine that waits")
	default:
		s.t.Skip("the background goroutine reads: this system has no descriptors for arrivals")
	}
	return right
}

// TestWaitReads shows that a goroutine in Wait has the right to read, and gives it back.
func TestWaitReads(t *testing.T) {
	a, b := sleepers(t)
	right := rightToRead(b)
	for range 20 {
		received := make(chan error, 1)
		go func() { received <- b.receive(context.Background()) }()
		for len(right) > 0 {
			runtime.Gosched()
		}
		check(t, a.send())
		check(t, <-received)
		if len(right) == 0 {
			t.Fatal("Wait has kept the right to read")
		}
		for _, wc := range a.poll(1) {
			check(t, wc.Err())
		}
	}
}

// TestWaiterLeavesReadingToPollers has a goroutine wait beside one that polls. It gives up the
// right to read, and still receives its message when nobody polls any more.
func TestWaiterLeavesReadingToPollers(t *testing.T) {
	a, b := sleepers(t)
	x, y := newEnd(t, ib.QPTypeRC, 64), newEnd(t, ib.QPTypeRC, 64)
	connect(t, x, y, ib.MTU1024)
	right := rightToRead(b)
	received := make(chan error, 1)
	go func() { received <- b.receive(context.Background()) }()
	for len(right) > 0 {
		runtime.Gosched()
	}
	for len(right) == 0 {
		y.recv(1, 64)
		_, err := x.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled})
		check(t, err)
		check(t, x.poll(1)[0].Err())
		check(t, y.poll(1)[0].Err())
	}
	check(t, a.send())
	check(t, <-received)
}
