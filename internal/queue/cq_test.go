// SPDX-License-Identifier: BSD-2-Clause

package queue

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"verbena/ib"
)

// TestCQModel compares the ring with a slice, through polls, purges, resizes
// and overruns. Odd seeds keep times.
func TestCQModel(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		depth := 1 + rng.IntN(20)
		q := NewCQ(depth)
		var now uint64 // of the push
		if seed%2 == 1 {
			q.KeepTimes(func() ib.WCTime { return ib.WCTime{Device: now, Wallclock: 3 * now} })
		}
		var want []ib.WC
		lost := false
		for i := range uint64(3000) {
			switch rng.IntN(20) {
			case 0:
				qpn := ib.QPN(rng.IntN(3))
				before := len(want)
				want = slices.DeleteFunc(want, func(wc ib.WC) bool { return wc.QPN == qpn })
				if n := q.Purge(qpn); n != before-len(want) {
					t.Fatalf("seed %d: purged %d, want %d", seed, n, before-len(want))
				}
			case 1:
				n := rng.IntN(24)
				err := q.Resize(n)
				if ok := n >= 1 && n >= len(want); ok != (err == nil) || !ok && !errors.Is(err, ErrInvalid) {
					t.Fatalf("seed %d: resize to %d with %d held: %v", seed, n, len(want), err)
				}
				if err == nil {
					depth = n
				}
			case 2, 3, 4, 5, 6:
				dst := make([]ib.WC, rng.IntN(6))
				times := make([]ib.WCTime, len(dst))
				n := q.PollTimed(dst, times)
				for k, wc := range dst[:n] {
					if at := wc.WRID * (seed % 2); times[k] != (ib.WCTime{Device: at, Wallclock: 3 * at}) {
						t.Fatalf("seed %d: completion %d has time %+v", seed, wc.WRID, times[k])
					}
				}
				if n != min(len(dst), len(want)) || !slices.Equal(dst[:n], want[:n]) {
					t.Fatalf("seed %d: polled %d of %d: %+v", seed, n, len(want), dst[:n])
				}
				want = want[n:]
			default:
				wc := ib.WC{WRID: i, QPN: ib.QPN(rng.IntN(3)), ByteLen: rng.Uint32()}
				now = i
				ok := q.Push(&wc, false)
				if ok != (len(want) < depth) {
					t.Fatalf("seed %d: push with %d of %d: %v", seed, len(want), depth, ok)
				}
				if ok {
					want = append(want, wc)
				} else {
					lost = true
				}
			}
			if q.Len() != len(want) || q.Cap() != depth || q.Overflowed() != lost {
				t.Fatalf("seed %d: Len %d Cap %d Overflowed %v, want %d, %d, %v", seed, q.Len(), q.Cap(), q.Overflowed(), len(want), depth, lost)
			}
		}
	}
}

// Spec: IBTA vol. 1, 11.4.2.2; ibv_req_notify_cq(3).
func TestCQEvents(t *testing.T) {
	good, bad := ib.WC{}, ib.WC{Status: ib.WCRemAccessErr}
	const any, solicited = false, true
	for _, c := range []struct {
		name  string
		arm   []bool
		wc    ib.WC
		flag  bool
		event bool
	}{
		{"not armed", nil, good, true, false},
		{"next", []bool{any}, good, false, true},
		{"solicited: a plain one", []bool{solicited}, good, false, false},
		{"solicited: a solicited one", []bool{solicited}, good, true, true},
		{"solicited: an error", []bool{solicited}, bad, false, true},
		{"next, then solicited stays next", []bool{any, solicited}, good, false, true},
		{"solicited, then next", []bool{solicited, any}, good, false, true},
	} {
		q := NewCQ(8)
		events := 0
		q.OnEvent = func() {
			events++
			q.Arm(any) // the callback may use the queue
			q.Len()
		}
		q.Push(&good, true)
		q.Poll(make([]ib.WC, 1)) // polled completions make no event
		for _, s := range c.arm {
			q.Arm(s)
		}
		if events != 0 {
			t.Errorf("%s: arming made an event", c.name)
		}
		q.Push(&c.wc, c.flag)
		if (events == 1) != c.event {
			t.Errorf("%s: %d events, want %v", c.name, events, c.event)
		}
	}

	q := NewCQ(8) // one event an arming
	events := 0
	q.OnEvent = func() { events++ }
	q.Arm(any)
	for range 3 {
		q.Push(&good, true)
	}
	if events != 1 {
		t.Errorf("%d events for one arming", events)
	}

	q = NewCQ(1) // no listener
	q.Arm(any)
	q.Push(&good, false)
	if !q.Overflowed() && (q.Push(&good, false) || !q.Overflowed()) {
		t.Error("an overrun must be refused and remembered")
	}
}

// TestCQMissedCompletions: arming a queue that holds completions that no event
// has told of makes one at once. An application that arms and sleeps without
// another look, as UCX does, depends on it.
func TestCQMissedCompletions(t *testing.T) {
	const any, solicited = false, true
	q := NewCQ(16)
	events := 0
	q.OnEvent = func() { events++ }
	push := func(qpn ib.QPN, solicited bool) { q.Push(&ib.WC{QPN: qpn}, solicited) }
	poll := func(n int) { q.Poll(make([]ib.WC, n)) }
	want := func(what string, solicitedOnly bool, n int) {
		t.Helper()
		events = 0
		q.Arm(solicitedOnly)
		if events != n {
			t.Errorf("%s: %d events at arming, want %d", what, events, n)
		}
	}

	push(1, false)
	push(1, false)
	poll(1)
	want("one of two is not polled", any, 1)
	want("told already", any, 0)
	push(1, false) // takes the arming before
	if events != 1 {
		t.Errorf("%d events for a completion after arming", events)
	}
	want("told when it came", any, 0)
	poll(16)
	want("empty", any, 0)
	push(1, false)
	push(1, false)
	poll(1)
	want("came after the event of another, and stays", any, 1)
	poll(16)

	push(1, false)
	want("no solicited one", solicited, 0)
	push(1, true)
	push(1, false)
	want("a solicited one is not told yet", solicited, 0) // it took the arming before
	want("a plain one came after that", any, 1)
	push(1, true)
	push(1, false)
	want("a solicited one is not polled", solicited, 1)
	push(1, true)
	poll(16)
	want("the solicited one is polled", solicited, 0)
	q.Push(&ib.WC{Status: ib.WCWRFlushErr}, false) // takes the arming
	q.Push(&ib.WC{Status: ib.WCWRFlushErr}, false)
	want("an error is not polled", solicited, 1)
	poll(16)

	// Purge leaves no trace of the completions that it removes. Those that it moves are notified as
	// before.
	push(1, false)
	want("the purged one's neighbour", any, 1)
	push(2, true)
	q.Purge(2)
	want("the only new one was purged", any, 0)
	want("the only solicited one was purged", solicited, 0)
	push(2, false) // takes the arming
	push(1, true)
	push(2, false)
	q.Purge(2)
	want("a new one was kept", solicited, 1)
	want("and is told", any, 0)
	if n := q.Len(); n != 2 {
		t.Errorf("%d completions, want 2", n)
	}
}

// TestCQAwaitNext: a consumer that polls all completions is called for the next one, once, even if
// the queue is not armed.
func TestCQAwaitNext(t *testing.T) {
	q, events, calls := NewCQ(16), 0, 0
	q.OnEvent = func() { events++ }
	q.OnNext = func() { calls++ }
	push := func(wantEvents, wantCalls int) {
		t.Helper()
		if q.Push(&ib.WC{}, false); events != wantEvents || calls != wantCalls {
			t.Errorf("%d events, %d calls, want %d, %d", events, calls, wantEvents, wantCalls)
		}
	}
	await := func(n int, want bool) {
		t.Helper()
		if got := q.AwaitNext(n); got != want {
			t.Errorf("%d completions, %d polled: %v, want %v", q.Len(), n, got, want)
		}
	}

	await(1, true) // all are polled
	push(0, 1)
	await(1, true)
	push(0, 2)
	push(0, 2) // one call
	await(2, false)
	push(0, 2)
	await(4, true)
	q.Poll(make([]ib.WC, 4))
	q.Arm(true)
	push(0, 3)
	await(1, true)
	q.Arm(false) // at once for the completion that is there
	push(1, 4)
	await(2, true)
	q.Poll(make([]ib.WC, 2))
	q.Arm(false)
	push(2, 4) // one call of the two
	push(2, 4)
}

// TestCQNoLostWakeUp: a consumer that arms, polls once more and then waits for
// the event receives everything, whatever the producers' timing. A lost
// wake-up leaves it waiting for ever.
func TestCQNoLostWakeUp(t *testing.T) {
	const producers, each = 2, 4000
	q := NewCQ(producers * each)
	event := make(chan struct{}, 1)
	var events, armings atomic.Int64
	q.OnEvent = func() {
		events.Add(1)
		event <- struct{}{} // would block if an arming made two events
	}
	for p := range uint64(producers) {
		go func() {
			for i := range uint64(each) {
				q.Push(&ib.WC{WRID: i, QPN: ib.QPN(p)}, i%3 == 0 || i == each-1)
			}
		}()
	}
	next := make([]uint64, producers)
	dst := make([]ib.WC, 7)
	drain := func() int {
		total := 0
		for n := q.Poll(dst); n > 0; n = q.Poll(dst) {
			for _, wc := range dst[:n] {
				if wc.WRID != next[wc.QPN] {
					t.Fatalf("queue pair %v: completion %d, want %d", wc.QPN, wc.WRID, next[wc.QPN])
				}
				next[wc.QPN]++
			}
			total += n
		}
		return total
	}
	for got := 0; got < producers*each; {
		q.Arm(armings.Load()%2 == 1)
		armings.Add(1)
		got += drain()
		if got < producers*each {
			<-event
			got += drain()
		} else if events.Load() == armings.Load() {
			<-event
		}
	}
	if e, a := events.Load(), armings.Load(); e > a || e < a-1 {
		t.Errorf("%d events for %d armings", e, a)
	}
}

// TestCQConcurrent: producers, a poller, purges and resizes at once; each
// queue pair's completions stay in order, and none comes twice or is lost but
// by its purge.
func TestCQConcurrent(t *testing.T) {
	const producers, each, purged = 3, 3000, ib.QPN(2)
	q := NewCQ(64)
	var wg sync.WaitGroup
	var purgedCount atomic.Int64
	for p := range ib.QPN(producers) {
		wg.Go(func() {
			for i := range uint64(each) {
				for q.Len() > 32 { // room for all three: no overrun
					runtime.Gosched()
				}
				if !q.Push(&ib.WC{WRID: i, QPN: p}, false) {
					t.Error("overrun")
				}
			}
		})
	}
	stop := make(chan struct{})
	var side sync.WaitGroup
	side.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			purgedCount.Add(int64(q.Purge(purged)))
			if err := q.Resize(64 + i%70); err != nil {
				t.Error(err)
			}
			runtime.Gosched()
		}
	})
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	next := make([]uint64, producers)
	var polled int64
	dst := make([]ib.WC, 5)
	for finished := false; ; {
		n := q.Poll(dst)
		for _, wc := range dst[:n] {
			if wc.WRID < next[wc.QPN] || wc.QPN != purged && wc.WRID != next[wc.QPN] {
				t.Fatalf("queue pair %v: completion %d after %d", wc.QPN, wc.WRID, next[wc.QPN])
			}
			next[wc.QPN] = wc.WRID + 1
		}
		polled += int64(n)
		if n > 0 {
			continue
		}
		if finished {
			break
		}
		select {
		case <-done:
			finished = true
		default:
			runtime.Gosched()
		}
	}
	close(stop)
	side.Wait()
	if total := polled + purgedCount.Load(); total != producers*each {
		t.Errorf("%d completions polled or purged, want %d", total, producers*each)
	}
}

// Push copies each field by itself: none may be left out.
func TestPushKeepsEachField(t *testing.T) {
	var zero ib.WC
	kind := reflect.TypeOf(zero)
	for i := range kind.NumField() {
		q := NewCQ(1)
		var want ib.WC
		reflect.ValueOf(&want).Elem().Field(i).SetUint(0x7f)
		for _, wc := range []ib.WC{want, zero} { // what was in the slot before does not stay
			q.Push(&wc, false)
			var got [1]ib.WC
			if q.Poll(got[:]); got[0] != wc {
				t.Errorf("%s: %+v, want %+v", kind.Field(i).Name, got[0], wc)
			}
		}
	}
}
