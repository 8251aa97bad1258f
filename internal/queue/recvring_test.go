// SPDX-License-Identifier: BSD-2-Clause

package queue

import (
	"errors"
	"testing"

	"verbena/ib"
)

// recvPoster posts into a ring by itself, as C does.
type recvPoster struct {
	r             RecvRing
	slots         []ib.SGE
	depth, maxSGE int
}

func newRecvPoster(depth, maxSGE int) *recvPoster {
	p := &recvPoster{depth: depth, maxSGE: maxSGE}
	p.slots = p.room(depth)
	return p
}

// room is memory for depth receives.
func (p *recvPoster) room(depth int) []ib.SGE {
	n := 1
	for n < depth {
		n *= 2
	}
	return make([]ib.SGE, n*(1+p.maxSGE))
}

func (p *recvPoster) post(wrid uint64, sge []ib.SGE) bool {
	t := p.r.tail.Load()
	if int(t-p.r.head.Load()) >= p.depth {
		return false
	}
	stride := 1 + p.maxSGE
	s := p.slots[int(t)%(len(p.slots)/stride)*stride:]
	n, _ := TotalLength(sge)
	s[0] = ib.SGE{Addr: wrid, Length: n, LKey: ib.LKey(len(sge))}
	copy(s[1:], sge)
	p.r.tail.Store(t + 1)
	return true
}

// Receives that another posts are a queue as those of ours are.
func TestOutsideRecvModel(t *testing.T) {
	for _, depth := range []int{1, 2, 5, 16} {
		p := newRecvPoster(depth, 3)
		q, err := NewOutsideRecvQueue(&p.r, p.slots, depth, 3)
		if err != nil {
			t.Fatal(err)
		}
		recvModel(t, depth, q, p.post, nil)

		p = newRecvPoster(depth, 3)
		if q, err = NewOutsideRecvQueue(&p.r, p.slots, depth, 3); err != nil {
			t.Fatal(err)
		}
		srq := NewOutsideSRQ(q, nil)
		recvModel(t, depth, srq, p.post, func(n int) error {
			slots := p.room(max(n, 1))
			err := srq.ResizeIn(n, slots)
			if err == nil {
				p.slots, p.depth = slots, n
			}
			return err
		})
	}
}

func TestOutsideRecvMemory(t *testing.T) {
	var r RecvRing
	for _, c := range []struct{ elements, depth, maxSGE int }{
		{0, 0, 0}, {0, 1, 1}, {3, 3, 0}, {7, 2, 2}, {4, 3, 1}, {4, 8, 0},
	} {
		if _, err := NewOutsideRecvQueue(&r, make([]ib.SGE, c.elements), c.depth, c.maxSGE); !errors.Is(err, ErrInvalid) {
			t.Errorf("%d elements for %d receives of %d: %v, want ErrInvalid", c.elements, c.depth, c.maxSGE, err)
		}
	}
	p := newRecvPoster(4, 1)
	q, err := NewOutsideRecvQueue(&p.r, p.slots, 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	s := NewOutsideSRQ(q, nil)
	for i := range uint64(3) {
		p.post(i, nil)
	}
	for _, slots := range [][]ib.SGE{nil, make([]ib.SGE, 3), make([]ib.SGE, 4), make([]ib.SGE, 6)} {
		if err := s.ResizeIn(3, slots); !errors.Is(err, ErrInvalid) {
			t.Errorf("moved to %d elements: %v, want ErrInvalid", len(slots), err)
		}
	}
	if err := s.Resize(8); !errors.Is(err, ErrInvalid) {
		t.Errorf("memory of ours for a queue of another's: %v, want ErrInvalid", err)
	}
	if err := s.Post(9, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("a post of ours: %v, want ErrInvalid", err)
	}
	if err := NewSRQ(4, 1, nil).ResizeIn(8, make([]ib.SGE, 16)); !errors.Is(err, ErrInvalid) {
		t.Errorf("another's memory for a queue of ours: %v, want ErrInvalid", err)
	}
	if s.Len() != 3 {
		t.Errorf("%d receives after all that was refused, want 3", s.Len())
	}
}

// A number of elements that no queue has does not lead out of the slot.
func TestOutsideRecvBounds(t *testing.T) {
	p := newRecvPoster(2, 1)
	q, err := NewOutsideRecvQueue(&p.r, p.slots, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	p.post(1, nil)
	p.slots[0].LKey = 1 << 31
	var w RecvWQE
	if !q.Pop(&w) || len(w.SGE) != 1 {
		t.Errorf("%d elements, want 1", len(w.SGE))
	}
}

// Leave and Let reach the posting thread. After Leave nothing reads its memory.
func TestOutsideRecvPosting(t *testing.T) {
	p := newRecvPoster(4, 1)
	q, err := NewOutsideRecvQueue(&p.r, p.slots, 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	posting := func() Posting { return Posting(p.r.posting.Load()) }
	if posting() != PostingRefused {
		t.Error("a new queue takes receives")
	}
	for _, want := range []Posting{PostingFree, PostingNotify} {
		if q.Let(want); posting() != want {
			t.Errorf("posting is %d, want %d", posting(), want)
		}
	}
	p.post(1, nil)
	p.post(2, nil)
	if q.Drop(); q.Len() != 0 || p.r.head.Load() != 2 {
		t.Errorf("%d receives left, head at %d", q.Len(), p.r.head.Load())
	}
	p.post(3, nil)
	q.Leave()
	p.post(4, nil)
	var w RecvWQE
	if posting() != PostingRefused || q.Len() != 0 || q.Pop(&w) || p.r.head.Load() != 2 {
		t.Errorf("after Leave: posting %d, %d receives, head at %d", posting(), q.Len(), p.r.head.Load())
	}
}
