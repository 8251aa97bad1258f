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
)

// An SRQ is a receive queue that several queue pairs take from. It has its own
// lock; all methods may be called concurrently.
//
// Spec: IBTA vol. 1, 10.2.9.
type SRQ struct {
	onLimit func() // immutable

	mu sync.Mutex
	// guarded by mu
	q     *RecvQueue
	limit int // 0: not armed
}

// NewSRQ returns a queue of depth work requests with at most maxSGE elements
// each. onLimit is called, without the lock, when the limit set with SetLimit
// is passed; it may be nil.
func NewSRQ(depth, maxSGE int, onLimit func()) *SRQ {
	return &SRQ{onLimit: onLimit, q: NewRecvQueue(depth, maxSGE)}
}

// Post appends a work request. sge is copied.
//
// Errors: ErrFull; ErrInvalid if sge has too many elements or bytes.
func (s *SRQ) Post(wrid uint64, sge []ib.SGE) error {
	n, ok := TotalLength(sge)
	if !ok {
		return fmt.Errorf("%w: receive of more than %d bytes", ErrInvalid, uint32(ib.MaxMessage))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(sge) > s.q.maxSGE {
		return fmt.Errorf("%w: %d elements, the queue takes %d", ErrInvalid, len(sge), s.q.maxSGE)
	}
	w, ok := s.q.Reserve()
	if !ok {
		return fmt.Errorf("%w: %d receives", ErrFull, s.q.Len())
	}
	w.WRID, w.Length, w.SGE = wrid, n, append(w.SGE, sge...)
	s.q.Commit()
	return nil
}

// Pop copies the oldest work request to dst, as RecvQueue.Pop does, and
// removes it; false if there is none. If fewer than the limit remain, the
// limit is disarmed and onLimit called, also when there was nothing to pop:
// who arms a limit on an empty queue hears of the first message in want.
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
// Errors: ErrInvalid if n is less than 1, than Len or than the limit.
func (s *SRQ) Resize(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < 1 || n < s.q.Len() || n < s.limit {
		return fmt.Errorf("%w: size %d, %d posted, limit %d", ErrInvalid, n, s.q.Len(), s.limit)
	}
	old := s.q
	s.q = NewRecvQueue(n, old.maxSGE)
	for old.Len() > 0 {
		w, _ := s.q.Reserve()
		old.Pop(w)
		s.q.Commit()
	}
	return nil
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
func (s *SRQ) MaxSGE() int { return s.q.maxSGE }
