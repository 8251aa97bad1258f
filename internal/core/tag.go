// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"errors"
	"log/slog"
	"syscall"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/engine"
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
	case caps.Flags&ib.TMCapRC == 0:
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
	s, err := p.newSRQ(attr, outside)
	if err != nil {
		cq.users.Add(-1)
		return nil, err
	}
	s.cq = cq
	s.tags = queue.NewTagList(s.ring, int(tm.MaxNumTags), caps.MaxSGE, cq.push)
	s.enter()
	return s, nil
}

// PostOps carries out operations on the list of tags in order, and sets the handles of those added:
// ibv_post_srq_ops(3).
func (s *SRQ) PostOps(wrs []ib.TagWR) (posted int, err error) {
	if s.tags == nil {
		return 0, fail(syscall.EOPNOTSUPP, "SRQ", "matches no tags: see CreateTagSRQ")
	}
	for i := range wrs {
		err := s.tags.Post(&wrs[i])
		switch {
		case errors.Is(err, queue.ErrFull):
			err = fail(syscall.ENOMEM, "SRQ", "%v", err)
		case errors.Is(err, queue.ErrClosed):
			err = invalid("SRQ", "was destroyed")
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

// recvCQ returns the queue in which receives complete, nil for an XRC queue pair.
func (q *QP) recvCQ() *CQ {
	if q.tags() != nil {
		return q.init.SRQ.cq
	}
	return q.init.RecvCQ
}

// lane returns the Lane of a new queue pair, which is that of a tag matching queue's completions.
func (q *QP) lane() *engine.Lane {
	if q.tags() != nil {
		return q.init.SRQ.cq.Lane()
	}
	return laneFor(q.init.SendCQ, q.init.RecvCQ)
}

// tags returns the tagged receives that messages to the queue pair may take, or nil.
func (q *QP) tags() *queue.TagList {
	if q.init.SRQ == nil {
		return nil
	}
	return q.init.SRQ.tags
}

// matchTags has the machine look for tags, and complete receives to the queue of the shared receive
// queue. A queue pair without send work requests of its own READs the data of rendezvous, with a
// send queue of the machine's.
//
// Source: Linux, drivers/infiniband/hw/mlx5/qp.c, and UCX, rc_mlx5_ep.c, have these two kinds.
func (q *QP) matchTags(cfg *qp.Config) {
	s := q.init.SRQ
	cfg.Tags, cfg.RecvCQ = s.tags, completer{s.cq}
	if q.init.Cap.MaxSendWR > 0 {
		return
	}
	q.sq = rc.NewTagSendQueue(s.tags)
	q.mute = "was created with attr.Cap.MaxSendWR 0: its send queue READs rendezvous"
	cfg.SQ, cfg.ReadsTags, cfg.SignalAll = q.sq, true, false
	cfg.SendCQ = rc.TagCompleter{To: cfg.RecvCQ}
}
