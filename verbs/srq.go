package verbs

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/queue"
)

// SRQ is a shared receive queue: receives that several queue pairs take from.
// ibv_srq.
type SRQ struct {
	pd    *PD
	ring  *queue.SRQ
	attr  ib.SRQAttr
	users atomic.Int32 // queue pairs; -1 once destroyed

	modifyMu sync.Mutex // one Modify at a time
}

// CreateSRQ creates a shared receive queue: ibv_create_srq(3). attr.SRQLimit
// is ignored: arm it with Modify.
func (p *PD) CreateSRQ(attr ib.SRQAttr) (*SRQ, error) {
	if err := p.ctx.alive(); err != nil {
		return nil, err
	}
	if err := device.CheckRange("attr.MaxWR", int(attr.MaxWR), 1, device.MaxSRQWR); err != nil {
		return nil, err
	}
	if err := device.CheckRange("attr.MaxSGE", int(attr.MaxSGE), 0, ib.MaxSGE); err != nil {
		return nil, err
	}
	if err := use(&p.users, "PD"); err != nil {
		return nil, err
	}
	attr.SRQLimit = 0
	s := &SRQ{pd: p, attr: attr}
	s.ring = queue.NewSRQ(int(attr.MaxWR), int(attr.MaxSGE), func() {
		p.ctx.events.put(AsyncEvent{Type: ib.EventSRQLimitReached, SRQ: s})
	})
	return s, nil
}

// PostRecv posts receive work requests: ibv_post_srq_recv(3). As QP.PostRecv.
func (s *SRQ) PostRecv(wrs ...RecvWR) (posted int, err error) {
	if s.users.Load() < 0 {
		return 0, invalid("SRQ", "was destroyed")
	}
	for i := range wrs {
		switch err := s.ring.Post(wrs[i].ID, wrs[i].SGList); {
		case errors.Is(err, queue.ErrFull):
			return posted, fail(syscall.ENOMEM, "SRQ", "is full: %d work requests are posted", s.ring.Cap())
		case err != nil:
			return posted, invalid("SGList", "%v", err)
		}
		posted++
	}
	return posted, nil
}

// Modify changes the size or arms the limit event: ibv_modify_srq(3). On error
// nothing changed.
func (s *SRQ) Modify(attr ib.SRQAttr, mask ib.SRQAttrMask) error {
	s.modifyMu.Lock()
	defer s.modifyMu.Unlock()
	if s.users.Load() < 0 {
		return invalid("SRQ", "was destroyed")
	}
	if mask&^(ib.SRQMaxWR|ib.SRQLimit) != 0 {
		return invalid("mask", "unknown bits %#x", mask)
	}
	if mask&ib.SRQMaxWR != 0 {
		if err := device.CheckRange("attr.MaxWR", int(attr.MaxWR), 1, device.MaxSRQWR); err != nil {
			return err
		}
		if mask&ib.SRQLimit != 0 && attr.SRQLimit > attr.MaxWR {
			return invalid("attr.SRQLimit", "%d is more than attr.MaxWR %d", attr.SRQLimit, attr.MaxWR)
		}
		if err := s.ring.Resize(int(attr.MaxWR)); err != nil {
			return invalid("attr.MaxWR", "%v", err)
		}
	}
	if mask&ib.SRQLimit != 0 { // cannot fail after the above
		if err := s.ring.SetLimit(int(attr.SRQLimit)); err != nil {
			return invalid("attr.SRQLimit", "%v", err)
		}
	}
	return nil
}

// Query returns size and armed limit: ibv_query_srq(3).
func (s *SRQ) Query() ib.SRQAttr {
	return ib.SRQAttr{MaxWR: uint32(s.ring.Cap()), MaxSGE: s.attr.MaxSGE, SRQLimit: uint32(s.ring.Limit())}
}

// Destroy removes the queue: ibv_destroy_srq(3). Errors: EBUSY while a queue
// pair uses it.
func (s *SRQ) Destroy() error {
	if err := retire(&s.users, "SRQ"); err != nil {
		return err
	}
	s.pd.ctx.events.forget(func(e *AsyncEvent) bool { return e.SRQ == s })
	s.pd.users.Add(-1)
	return nil
}
