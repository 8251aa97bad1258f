// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"errors"
	"log/slog"
	"syscall"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/qp"
	"verbena/internal/queue"
	"verbena/internal/roce/rc"
)

// CreateTagSRQ creates a shared receive queue that matches tags: ibv_create_srq_ex(3). outside is
// CreateSRQ's.
func (p *PD) CreateTagSRQ(attr ib.SRQAttr, tm ib.TMAttr, cq *CQ,
	outside *queue.OutsideRecvQueue) (*SRQ, error) {
	caps := p.ctx.info.Attr().TM
	switch {
	case !caps.RC:
		return nil, fail(syscall.EOPNOTSUPP, "SRQ", "devices of kind %v match no tags",
			p.ctx.info.Kind)
	case cq == nil || cq.ctx != p.ctx:
		return nil, invalid("cq", "must be a completion queue of this context")
	}
	err := device.CheckRange("tm.MaxNumTags", int(tm.MaxNumTags), 1, caps.MaxNumTags)
	if err == nil {
		err = device.CheckRange("tm.MaxOps", int(tm.MaxOps), 1, caps.MaxOps)
	}
	if err != nil {
		return nil, err
	}
	if err := use(&cq.users, "cq"); err != nil {
		return nil, err
	}
	s, err := p.CreateSRQ(attr, outside)
	if err != nil {
		cq.users.Add(-1)
		return nil, err
	}
	s.cq = cq
	s.tags = queue.NewTagList(s.ring, int(tm.MaxNumTags), caps.MaxSGE, cq.push)
	return s, nil
}

// PostOps carries out operations on the list of tags in order, and sets the handles of those added:
// ibv_post_srq_ops(3).
func (s *SRQ) PostOps(wrs []ib.TagWR) (posted int, err error) {
	switch {
	case s.users.Load() < 0:
		return 0, invalid("SRQ", "was destroyed")
	case s.tags == nil:
		return 0, fail(syscall.EOPNOTSUPP, "SRQ", "matches no tags: see CreateTagSRQ")
	}
	for i := range wrs {
		err := s.tags.Post(&wrs[i])
		switch {
		case errors.Is(err, queue.ErrFull):
			err = fail(syscall.ENOMEM, "SRQ", "%v", err)
		case err != nil:
			err = invalid("wr", "%v", err)
		}
		s.logOp(&wrs[i], err)
		if err != nil {
			return posted, err
		}
		posted++
	}
	return posted, nil
}

func (s *SRQ) logOp(wr *ib.TagWR, err error) {
	if s.pd.ctx.log != nil {
		s.pd.ctx.logCall("ibv_post_srq_ops", err, slog.Uint64("wr_id", wr.ID),
			slog.Int("opcode", int(wr.Opcode)), slog.Uint64("tag", wr.Tag),
			slog.Uint64("handle", uint64(wr.Handle)))
	}
}

// matchTags gives the send queue of a queue pair to the machine, for rendezvous, and its receive
// completions to the completion queue of the shared receive queue.
func (q *QP) matchTags(cfg *qp.Config) {
	s := q.init.SRQ
	q.sq = rc.NewTagSendQueue(s.tags)
	q.mute = "matches tags: its send queue serves rendezvous"
	cfg.SQ, cfg.Tags, cfg.SignalAll = q.sq, s.tags, false
	cfg.RecvCQ = completer{s.cq}
	cfg.SendCQ = rc.TagCompleter{To: cfg.RecvCQ}
}
