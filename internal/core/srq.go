// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/queue"
	"verbena/internal/roce/rc"
	"verbena/internal/transport/roce"
)

// SRQ is a shared receive queue: receives that several queue pairs take from.
type SRQ struct {
	pd   *PD
	ring *queue.SRQ
	attr ib.SRQAttr
	xrcd *XRCD          // nil unless XRC
	cq   *CQ            // XRC, tag matching: where its receives complete
	num  ib.SRQN        // XRC: by which peers name it
	tags *queue.TagList // nil unless it matches tags

	number uint32       // immutable: of the process
	users  atomic.Int32 // queue pairs; -1 once destroyed

	modifyMu sync.Mutex // one Modify at a time
}

// CreateSRQ creates a shared receive queue: ibv_create_srq(3). The C library posts receives in
// outside by itself, if that is not nil.
func (p *PD) CreateSRQ(attr ib.SRQAttr, outside *queue.OutsideRecvQueue) (s *SRQ, err error) {
	if s, err = p.newSRQ(attr, outside); err == nil {
		s.enter()
	}
	return s, err
}

// newSRQ is CreateSRQ without enter.
func (p *PD) newSRQ(attr ib.SRQAttr, outside *queue.OutsideRecvQueue) (s *SRQ, err error) {
	defer func() { p.ctx.logCall("ibv_create_srq", err, "max_wr", attr.MaxWR) }()
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
	s = &SRQ{pd: p, attr: attr}
	onLimit := func() { p.ctx.events.put(AsyncEvent{Type: ib.EventSRQLimitReached, SRQ: s}) }
	if outside != nil {
		s.ring = queue.NewOutsideSRQ(outside, onLimit)
	} else {
		s.ring = queue.NewSRQ(int(attr.MaxWR), int(attr.MaxSGE), onLimit)
	}
	s.number = p.ctx.host.numbers.Add(1)
	return s, nil
}

// enter adds the queue to those of its context, where other threads see it.
func (s *SRQ) enter() {
	s.pd.ctx.mu.Lock()
	s.pd.ctx.srqs[s] = struct{}{}
	s.pd.ctx.mu.Unlock()
}

// CreateXRCSRQ creates a shared receive queue of an XRC domain: ibv_create_srq_ex(3). outside is
// CreateSRQ's.
func (p *PD) CreateXRCSRQ(attr ib.SRQAttr, xrcd *XRCD, cq *CQ,
	outside *queue.OutsideRecvQueue) (*SRQ, error) {
	switch {
	case xrcd == nil || xrcd.ctx != p.ctx:
		return nil, invalid("xrcd", "must be an XRC domain of this context")
	case cq == nil || cq.ctx != p.ctx:
		return nil, invalid("cq", "must be a completion queue of this context")
	}
	s, err := p.newSRQ(attr, outside)
	if err != nil {
		return nil, err
	}
	if err := s.makeXRC(xrcd, cq); err != nil {
		p.users.Add(-1)
		return nil, err
	}
	s.enter()
	return s, nil
}

// makeXRC gives a new queue its number and adds it to the domain.
func (s *SRQ) makeXRC(xrcd *XRCD, cq *CQ) error {
	c := s.pd.ctx
	if err := use(&xrcd.users, "xrcd"); err != nil {
		return err
	}
	if err := use(&cq.users, "cq"); err != nil {
		xrcd.users.Add(-1)
		return err
	}
	num, err := c.host.xrc.number(roce.Of(c.eng))
	if err != nil {
		xrcd.users.Add(-1)
		cq.users.Add(-1)
		return fail(syscall.ENOMEM, "SRQ", "%v", err)
	}
	s.xrcd, s.cq, s.num = xrcd, cq, num
	xrcd.dom.add(num, &rc.Inbox{PD: s.pd.num, Mem: c.keys, RQ: s.ring, CQ: completer{cq}})
	if err := c.keep(s); err != nil {
		s.quit()
		return err
	}
	return nil
}

// Num returns the number by which a peer's XRC_SEND work requests name the queue, 0 unless it is
// of an XRC domain: ibv_get_srq_num(3).
func (s *SRQ) Num() ib.SRQN { return s.num }

// leave takes an XRC queue out of its domain, once.
func (s *SRQ) leave() {
	if s.pd.ctx.unkeep(s) {
		s.quit()
	}
}

func (s *SRQ) quit() {
	s.xrcd.dom.remove(s.num)
	s.pd.ctx.host.xrc.free(s.num)
	s.xrcd.users.Add(-1)
	s.cq.users.Add(-1)
}

// PostRecv posts receive work requests: ibv_post_srq_recv(3).
func (s *SRQ) PostRecv(wrs []RecvWR) (posted int, err error) {
	if s.users.Load() < 0 {
		return 0, invalid("SRQ", "was destroyed")
	}
	for i := range wrs {
		err := s.ring.Post(wrs[i].ID, wrs[i].SGList)
		if l := s.pd.ctx.log; l != nil {
			l.received("ibv_post_srq_recv", slog.Uint64("srqn", uint64(s.num)), nil,
				&wrs[i], err)
		}
		switch {
		case errors.Is(err, queue.ErrFull):
			return posted, fail(syscall.ENOMEM, "SRQ", "is full: %d work requests are posted",
				s.ring.Cap())
		case err != nil:
			return posted, invalid("SGList", "%v", err)
		}
		posted++
	}
	return posted, nil
}

// Modify changes the size or arms the limit event: ibv_modify_srq(3).
func (s *SRQ) Modify(attr ib.SRQAttr, mask ib.SRQAttrMask) error {
	return s.modify(attr, mask, s.ring.Resize)
}

// ModifyIn is Modify of a queue that the C library posts into; slots are where the receives move to
// with ib.SRQMaxWR. Nobody posts meanwhile.
func (s *SRQ) ModifyIn(attr ib.SRQAttr, mask ib.SRQAttrMask, slots []ib.SGE) error {
	return s.modify(attr, mask, func(n int) error { return s.ring.ResizeIn(n, slots) })
}

func (s *SRQ) modify(attr ib.SRQAttr, mask ib.SRQAttrMask, resize func(int) error) (err error) {
	defer func() {
		s.pd.ctx.logCall("ibv_modify_srq", err, "max_wr", attr.MaxWR, "srq_limit", attr.SRQLimit)
	}()
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
			return invalid("attr.SRQLimit", "%d is more than attr.MaxWR %d", attr.SRQLimit,
				attr.MaxWR)
		}
		if err := resize(int(attr.MaxWR)); err != nil {
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

// LogQuery is Context.LogQuery of Query.
func (s *SRQ) LogQuery() { s.pd.ctx.LogQuery("ibv_query_srq", nil) }

// Query returns size and armed limit: ibv_query_srq(3).
func (s *SRQ) Query() ib.SRQAttr {
	return ib.SRQAttr{MaxWR: uint32(s.ring.Cap()), MaxSGE: s.attr.MaxSGE,
		SRQLimit: uint32(s.ring.Limit())}
}

// Destroy removes the queue: ibv_destroy_srq(3).
func (s *SRQ) Destroy() (err error) {
	defer func() { s.pd.ctx.logCall("ibv_destroy_srq", err) }()
	if err := retire(&s.users, "SRQ"); err != nil {
		return err
	}
	switch {
	case s.xrcd != nil:
		s.leave()
	case s.tags != nil:
		s.tags.Close()
		s.cq.users.Add(-1)
	}
	s.ring.Leave()
	s.pd.ctx.forgetSRQ(s)
	s.pd.ctx.events.forget(func(e *AsyncEvent) bool { return e.SRQ == s })
	s.pd.users.Add(-1)
	return nil
}

// forgetSRQ removes a queue from those of the context.
func (c *Context) forgetSRQ(s *SRQ) {
	c.mu.Lock()
	delete(c.srqs, s)
	c.mu.Unlock()
}
