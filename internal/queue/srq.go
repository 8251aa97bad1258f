// SPDX-License-Identifier: BSD-2-Clause

package queue

import (
	"errors"
	"fmt"
	"sync"

	"verbena/ib"
)

// Errors of posting and resizing, wrapped with the numbers at fault.
var (
	ErrFull    = errors.New("queue: full")
	ErrInvalid = errors.New("queue: invalid argument")
	ErrClosed  = errors.New("queue: closed")
)

// An SRQ is a receive queue that several queue pairs take from. It has its own
// lock; all methods may be called concurrently.
//
// Spec: IBTA vol. 1, 10.2.9.
type SRQ struct {
	onLimit func() // immutable

	mu sync.Mutex
	// guarded by mu
	q       recvRing          // own or outside
	own     *RecvQueue        // nil where another posts
	outside *OutsideRecvQueue // nil where Post does
	limit   int               // 0: not armed
}

// recvRing is the part that the two kinds of receive queue share.
type recvRing interface {
	Pop(dst *RecvWQE) bool
	Len() int
	Cap() int
	MaxSGE() int
}

// NewSRQ returns a queue of depth work requests with at most maxSGE elements
// each. onLimit is called, without the lock, when the limit set with SetLimit
// is passed; it may be nil.
func NewSRQ(depth, maxSGE int, onLimit func()) *SRQ {
	q := NewRecvQueue(depth, maxSGE)
	return &SRQ{onLimit: onLimit, q: q, own: q}
}

// NewOutsideSRQ returns a queue whose receives another posts, without Post.
func NewOutsideSRQ(q *OutsideRecvQueue, onLimit func()) *SRQ {
	q.Let(PostingFree)
	return &SRQ{onLimit: onLimit, q: q, outside: q}
}

// Post appends a work request. sge is copied.
//
// Errors: ErrFull; ErrInvalid if sge has too many elements or bytes, or if another
// posts.
func (s *SRQ) Post(wrid uint64, sge []ib.SGE) error {
	n, ok := TotalLength(sge)
	if !ok {
		return fmt.Errorf("%w: receive of more than %d bytes", ErrInvalid, uint32(ib.MaxMessage))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own == nil {
		return fmt.Errorf("%w: another posts", ErrInvalid)
	}
	if len(sge) > s.own.maxSGE {
		return fmt.Errorf("%w: %d elements, the queue takes %d", ErrInvalid, len(sge), s.own.maxSGE)
	}
	w, ok := s.own.Reserve()
	if !ok {
		return fmt.Errorf("%w: %d receives", ErrFull, s.own.Len())
	}
	w.WRID, w.Length, w.SGE = wrid, n, append(w.SGE, sge...)
	s.own.Commit()
	return nil
}

// Pop copies the oldest work request to dst, as RecvQueue.Pop does, and removes it; false if there
// is none. If fewer than the limit remain, the limit is disarmed and onLimit called, also when
// there was nothing to pop. So a limit that is armed on an empty queue reports the first message
// without a receive.
func (s *SRQ) Pop(dst *RecvWQE) bool {
	s.mu.Lock()
	ok := s.q.Pop(dst)
	below := s.q.Len() < s.limit
	if below {
		s.limit = 0
	}
	s.mu.Unlock()
	if below && s.onLimit != nil {
		s.onLimit()
	}
	return ok
}

// SetLimit arms the limit event for when fewer than n work requests remain
// after a Pop; 0 disarms it. The event comes once.
//
// Errors: ErrInvalid if n is negative or more than Cap.
func (s *SRQ) SetLimit(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < 0 || n > s.q.Cap() {
		return fmt.Errorf("%w: limit %d of a queue of %d", ErrInvalid, n, s.q.Cap())
	}
	s.limit = n
	return nil
}

// Limit returns the limit that is armed, 0 for none.
func (s *SRQ) Limit() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit
}

// Resize changes how many work requests there can be; those posted stay.
//
// Errors: ErrInvalid if n is less than 1, than Len or than the limit, or if another
// posts.
func (s *SRQ) Resize(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fits(n); err != nil {
		return err
	}
	old := s.own
	if old == nil {
		return fmt.Errorf("%w: the memory is another's", ErrInvalid)
	}
	s.own = NewRecvQueue(n, old.maxSGE)
	s.q = s.own
	for old.Len() > 0 {
		w, _ := s.own.Reserve()
		old.Pop(w)
		s.own.Commit()
	}
	return nil
}

// ResizeIn is Resize to other memory of the posting program, which does not post meanwhile.
//
// Errors: those of Resize and NewOutsideRecvQueue.
func (s *SRQ) ResizeIn(n int, slots []ib.SGE) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fits(n); err != nil {
		return err
	}
	if s.outside == nil {
		return fmt.Errorf("%w: the memory is ours", ErrInvalid)
	}
	return s.outside.move(slots, n)
}

// fits reports why there cannot be n work requests. The caller holds mu.
func (s *SRQ) fits(n int) error {
	if n < 1 || n < s.q.Len() || n < s.limit {
		return fmt.Errorf("%w: size %d, %d posted, limit %d", ErrInvalid, n, s.q.Len(), s.limit)
	}
	return nil
}

// Leave is OutsideRecvQueue's, of a queue that another posts into.
func (s *SRQ) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outside != nil {
		s.outside.Leave()
	}
}

// Len returns the number of work requests in the queue.
func (s *SRQ) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.q.Len()
}

// Cap returns how many there can be.
func (s *SRQ) Cap() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.q.Cap()
}

// MaxSGE returns how many elements a work request may have.
func (s *SRQ) MaxSGE() int { return s.q.MaxSGE() }
