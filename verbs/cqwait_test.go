// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/verbs"
)

// sends posts n WRITEs of nothing, whose IDs count from 0.
func (e *end) sends(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		_, err := e.qp.PostSend(verbs.SendWR{ID: uint64(i), Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled})
		check(t, err)
	}
}

// Goroutines that wait for one queue get one completion each, however they come.
func TestWaitersShareAQueue(t *testing.T) {
	a, _ := rcPair(t, 64)
	const waiters = 8
	got := make(chan uint64, waiters)
	for range waiters {
		go func() {
			var wc [1]ib.WC
			n, err := a.cq.Wait(context.Background(), wc[:])
			if n != 1 || err != nil || wc[0].Status != ib.WCSuccess {
				t.Errorf("%d, %v, %v", n, err, wc[0].Status)
			}
			got <- wc[0].WRID
		}()
	}
	a.sends(t, waiters)
	var ids []uint64
	for range waiters {
		ids = append(ids, <-got)
	}
	slices.Sort(ids)
	if !slices.Equal(ids, []uint64{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("%d", ids)
	}
}

// Wait ends with its context, with the queue, and with the device's context.
func TestWaitEnds(t *testing.T) {
	dev := openLoopback()
	var wc [1]ib.WC
	for _, c := range []struct {
		name string
		end  func(q *verbs.CQ, cancel func()) error
		want error
	}{
		{"context", func(_ *verbs.CQ, cancel func()) error { cancel(); return nil }, context.Canceled},
		{"Destroy", func(q *verbs.CQ, _ func()) error { return q.Destroy() }, syscall.EINVAL},
		{"Close", func(*verbs.CQ, func()) error { return dev.Close() }, syscall.EBADF},
	} {
		q, err := dev.CreateCQ(4, nil)
		check(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		const waiters = 3
		ended := make(chan error, waiters)
		for range waiters {
			go func() {
				_, err := q.Wait(ctx, wc[:])
				ended <- err
			}()
		}
		check(t, c.end(q, cancel))
		for range waiters {
			if err := <-ended; !errors.Is(err, c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		if _, err := q.Wait(ctx, wc[:]); !errors.Is(err, c.want) {
			t.Errorf("%s, and then Wait: %v", c.name, err)
		}
		if _, err := q.Poll(wc[:]); c.want != context.Canceled && !errors.Is(err, c.want) {
			t.Errorf("%s, and then Poll: %v", c.name, err)
		}
	}
}

func TestWaitRefusals(t *testing.T) {
	dev := openLoopback()
	defer dev.Close()
	ch, err := dev.CreateCompChannel()
	check(t, err)
	with, err := dev.CreateCQ(1, ch)
	check(t, err)
	without, err := dev.CreateCQ(1, nil)
	check(t, err)
	_, err = with.Wait(context.Background(), make([]ib.WC, 1))
	wantError(t, err, syscall.EINVAL, "CQ")
	_, err = without.Wait(context.Background(), nil)
	wantError(t, err, syscall.EINVAL, "wc")
	wantError(t, without.RequestNotify(false), syscall.EINVAL, "CQ")
}

// A loop over completions that breaks leaves the rest in the queue.
func TestIteratorsOverCompletions(t *testing.T) {
	a, _ := rcPair(t, 64)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a.sends(t, 5)
	var ids []uint64
	for wc, err := range a.cq.Completions(ctx) {
		check(t, err)
		if ids = append(ids, wc.WRID); len(ids) == 2 {
			break
		}
	}
	for batch, err := range a.cq.Batches(ctx, make([]ib.WC, 2)) {
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			continue // the loop ends by itself
		}
		for _, wc := range batch {
			ids = append(ids, wc.WRID)
		}
		if len(ids) == 5 {
			cancel()
		}
	}
	if !slices.Equal(ids, []uint64{0, 1, 2, 3, 4}) {
		t.Errorf("%d", ids)
	}
	for _, err := range a.cq.Completions(ctx) {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

func TestPool(t *testing.T) {
	a, b := rcPair(t, 64)
	pool, err := b.pd.NewPool(1000, allAccess)
	check(t, err)
	blocks := map[uint64]*verbs.Block{}
	for range 100 { // more than are registered at once
		x, err := pool.Get()
		check(t, err)
		if blocks[x.ID()] != nil || pool.Block(x.ID()) != x || len(x.Bytes()) != 1000 || cap(x.Bytes()) != 1000 {
			t.Fatalf("block %d, %d bytes", x.ID(), len(x.Bytes()))
		}
		blocks[x.ID()] = x
		a.buf[0] = byte(x.ID())
		wantStatus(t, a.write(1, x.Addr(), x.RKey()), ib.WCSuccess)
	}
	for id, x := range blocks {
		if x.Bytes()[0] != byte(id) {
			t.Errorf("block %d has %d", id, x.Bytes()[0])
		}
	}
	wantError(t, pool.Close(), syscall.EBUSY, "pool")
	if pool.Block(1<<40) != nil {
		t.Error("a block of no ID")
	}
	for _, x := range blocks {
		x.Release()
		if pool.Block(x.ID()) != nil {
			t.Errorf("block %d is found after its release", x.ID())
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		x, _ := pool.Get()
		x.Release()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	check(t, pool.Close())
	wantStatus(t, a.write(1, blocks[0].Addr(), blocks[0].RKey()), ib.WCRemAccessErr)
	_, err = pool.Get()
	wantError(t, err, syscall.EBADF, "pool")
	wantError(t, pool.Close(), syscall.EBADF, "pool")
	_, err = b.pd.NewPool(0, 0)
	wantError(t, err, syscall.EINVAL, "size")
	defer func() {
		if recover() == nil {
			t.Error("a block was released twice")
		}
	}()
	blocks[0].Release()
}

// Await leaves completions in the queue, and Wake ends it.
func TestAwait(t *testing.T) {
	a, _ := rcPair(t, 64)
	ctx := context.Background()
	var wc [4]ib.WC
	for range 10 {
		a.sends(t, 1)
		for range 2 {
			check(t, a.cq.Await(ctx))
		}
		n, err := a.cq.Poll(wc[:])
		if n != 1 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	for range 10 {
		done := make(chan error)
		go func() { done <- a.cq.Await(ctx) }()
		a.cq.Wake()
		check(t, <-done)
	}
	short, cancel := context.WithCancel(ctx)
	cancel()
	for range 3 { // an event may be left
		if err := a.cq.Await(short); errors.Is(err, context.Canceled) {
			return
		}
	}
	t.Error("Await does not end with its context")
}
