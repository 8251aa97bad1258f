// SPDX-License-Identifier: BSD-2-Clause

package queue

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"verbena/ib"
)

func postRecv(q *RecvQueue, wrid uint64, sge []ib.SGE) bool {
	w, ok := q.Reserve()
	if !ok {
		return false
	}
	w.WRID, w.SGE = wrid, append(w.SGE, sge...)
	w.Length, _ = TotalLength(sge)
	q.Commit()
	return true
}

// TestRecvModel compares both kinds of receive queue with a slice.
func TestRecvModel(t *testing.T) {
	for _, depth := range []int{1, 2, 5, 16} {
		rq, srq := NewRecvQueue(depth, 3), NewSRQ(depth, 3, nil)
		recvModel(t, depth, rq, func(wrid uint64, sge []ib.SGE) bool { return postRecv(rq, wrid, sge) }, nil)
		recvModel(t, depth, srq, func(wrid uint64, sge []ib.SGE) bool { return srq.Post(wrid, sge) == nil }, srq.Resize)
	}
}

func recvModel(t *testing.T, depth int, q recvRing, post func(uint64, []ib.SGE) bool, resize func(int) error) {
	rng := rand.New(rand.NewPCG(uint64(depth), 2))
	var want []RecvWQE
	got := RecvWQE{SGE: make([]ib.SGE, 0, 3)}
	for i := range uint64(4000) {
		switch rng.IntN(7) {
		case 0, 1, 2:
			sge := make([]ib.SGE, rng.IntN(4))
			for j := range sge {
				sge[j] = ib.SGE{Addr: i, Length: uint32(rng.IntN(9)), LKey: ib.LKey(j)}
			}
			n, _ := TotalLength(sge)
			if ok := post(i, sge); ok != (len(want) < depth) {
				t.Fatalf("post with %d of %d: %v", len(want), depth, ok)
			} else if ok {
				want = append(want, RecvWQE{WRID: i, SGE: slices.Clone(sge), Length: n})
			}
			clear(sge) // the queue has its own copy
		case 3, 4, 5:
			if ok := q.Pop(&got); ok != (len(want) > 0) {
				t.Fatalf("pop with %d: %v", len(want), ok)
			} else if ok {
				if w := want[0]; got.WRID != w.WRID || got.Length != w.Length || !slices.Equal(got.SGE, w.SGE) {
					t.Fatalf("popped %+v, want %+v", got, w)
				}
				want = want[1:]
			}
		case 6:
			if resize == nil {
				break
			}
			n := rng.IntN(2*depth + 2)
			if err := resize(n); (err == nil) != (n >= 1 && n >= len(want)) {
				t.Fatalf("resize to %d with %d posted: %v", n, len(want), err)
			} else if err == nil {
				depth = n
			}
		}
		if q.Len() != len(want) || q.Cap() != depth || q.MaxSGE() != 3 {
			t.Fatalf("Len %d Cap %d MaxSGE %d, want %d, %d, 3", q.Len(), q.Cap(), q.MaxSGE(), len(want), depth)
		}
	}
}

func TestSRQPostErrors(t *testing.T) {
	s := NewSRQ(1, 2, nil)
	if err := s.Post(1, make([]ib.SGE, 3)); !errors.Is(err, ErrInvalid) {
		t.Errorf("three elements: %v, want ErrInvalid", err)
	}
	if err := s.Post(1, []ib.SGE{{Length: 1 << 31}, {Length: 1}}); !errors.Is(err, ErrInvalid) {
		t.Errorf("too many bytes: %v, want ErrInvalid", err)
	}
	if s.Len() != 0 {
		t.Error("a refused post is in the queue")
	}
	if err := s.Post(1, nil); err != nil {
		t.Error(err)
	}
	if err := s.Post(2, nil); !errors.Is(err, ErrFull) {
		t.Errorf("full: %v, want ErrFull", err)
	}
}

func TestSRQLimit(t *testing.T) {
	events := 0
	var s *SRQ
	s = NewSRQ(8, 1, func() {
		events++
		s.Len() // the callback may use the queue
	})
	var dst RecvWQE
	want := func(what string, n int) {
		t.Helper()
		if events != n {
			t.Errorf("%s: %d events, want %d", what, events, n)
		}
	}
	fill := func(n int) {
		for range n {
			if err := s.Post(0, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, n := range []int{-1, 9} {
		if err := s.SetLimit(n); !errors.Is(err, ErrInvalid) {
			t.Errorf("limit %d: %v, want ErrInvalid", n, err)
		}
	}
	fill(8)
	s.Pop(&dst)
	want("not armed", 0)
	if err := s.SetLimit(6); err != nil || s.Limit() != 6 {
		t.Fatal(err, s.Limit())
	}
	s.Pop(&dst)
	want("6 remain, not below the limit", 0)
	s.Pop(&dst)
	want("5 remain", 1)
	if s.Limit() != 0 {
		t.Error("the limit is still armed after its event")
	}
	s.Pop(&dst)
	want("disarmed", 1)

	if err := s.SetLimit(2); err != nil {
		t.Fatal(err)
	}
	if err := s.SetLimit(0); err != nil {
		t.Fatal(err)
	}
	for s.Pop(&dst) {
	}
	want("disarmed by hand", 1)

	// Armed when the queue is too low already: the next message tells.
	if err := s.SetLimit(3); err != nil {
		t.Fatal(err)
	}
	want("arming alone", 1)
	s.Pop(&dst)
	want("nothing to pop", 2)

	if err := s.SetLimit(3); err != nil {
		t.Fatal(err)
	}
	if err := s.Resize(2); !errors.Is(err, ErrInvalid) {
		t.Errorf("resize below the limit: %v", err)
	}
}

// TestSRQShared: several takers get every posted request once, with its own
// elements, and the limit event comes once each time it was armed.
func TestSRQShared(t *testing.T) {
	const takers, total = 3, 6000
	var mu sync.Mutex
	events, armed := 0, 0
	seen := make([]bool, total)
	s := NewSRQ(32, 2, func() {
		mu.Lock()
		events++
		mu.Unlock()
	})
	var wg sync.WaitGroup
	left := total
	for range takers {
		wg.Go(func() {
			var dst RecvWQE
			for {
				ok := s.Pop(&dst)
				mu.Lock()
				if ok {
					if seen[dst.WRID] || len(dst.SGE) != 1 || dst.SGE[0].Addr != dst.WRID {
						t.Errorf("popped %+v", dst)
					}
					seen[dst.WRID] = true
					left--
				}
				done := left == 0
				mu.Unlock()
				if done {
					return
				}
				if !ok {
					runtime.Gosched()
				}
			}
		})
	}
	for i := range uint64(total) {
		for s.Post(i, []ib.SGE{{Addr: i}}) != nil {
			runtime.Gosched()
		}
		switch {
		case i%500 == 0:
			if s.Limit() == 0 {
				if err := s.SetLimit(4); err != nil {
					t.Error(err)
				}
				armed++
			}
		case i%777 == 0:
			if err := s.Resize(32 + int(i/777)); err != nil {
				t.Error(err)
			}
		}
	}
	wg.Wait()
	if s.Limit() != 0 { // the last arming had its cause in the final pops
		t.Errorf("limit %d still armed on an empty queue", s.Limit())
	}
	if events != armed {
		t.Errorf("%d limit events for %d armings", events, armed)
	}
}
