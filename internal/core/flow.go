// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"

	"verbena/ib"
	"verbena/internal/steer"
	"verbena/internal/transport/raw"
)

// Flow steers frames to a raw packet queue pair: ibv_flow.
type Flow struct {
	qp   *QP
	flow *raw.Flow
	gone atomic.Bool

	mu       sync.Mutex
	with     []*Counters // immutable: that it was made with
	counters []*Counters // guarded by mu: all that count it
}

// CreateFlow has frames that match go to the queue pair, and counts them: ibv_create_flow(3).
func (q *QP) CreateFlow(attr *ib.FlowAttr, with ...*Counters) (f *Flow, err error) {
	defer func() { q.ctx.logCall("ibv_create_flow", err, "qp", q) }()
	switch {
	case attr == nil:
		return nil, invalid("attr", "is missing")
	case !q.ctx.hasRaw():
		return nil, fail(syscall.EOPNOTSUPP, "QP", "devices of kind %v have no flows",
			q.ctx.info.Kind)
	case q.init.Type != ib.QPTypeRawPacket:
		return nil, invalid("QP", "is %v: flows are for RAW_PACKET queue pairs", q.init.Type)
	case attr.Port != 1:
		return nil, invalid("attr.Port", "%d: must be 1", attr.Port)
	}
	q.modifyMu.Lock()
	defer q.modifyMu.Unlock()
	if q.gone.Load() {
		return nil, invalid("QP", "was destroyed")
	}
	for i, n := range with {
		err := invalid("counters", "must be of this context")
		if n != nil && n.ctx == q.ctx {
			err = use(&n.users, "counters")
		}
		if err != nil {
			unuse(with[:i])
			return nil, err
		}
	}
	flow := &Flow{qp: q, with: with}
	flow.flow, err = raw.AddFlow(q.conn, attr)
	if err != nil {
		unuse(with)
	}
	switch {
	case err == nil:
	case errors.Is(err, steer.ErrInvalid):
		return nil, invalid("attr", "%v", err)
	case errors.Is(err, steer.ErrUnsupported):
		return nil, fail(syscall.EOPNOTSUPP, "attr", "%v", err)
	case errors.Is(err, syscall.EPERM):
		return nil, fail(syscall.EPERM, "QP", "flows need CAP_NET_RAW")
	default:
		return nil, fail(errnoOf(err, syscall.ENOMEM), "attr", "%v", err)
	}
	q.flows.Add(1)
	for _, n := range with {
		n.bind(flow)
		flow.counted(n)
	}
	return flow, nil
}

// unuse ends the use of counters by a flow.
func unuse(with []*Counters) {
	for _, n := range with {
		n.users.Add(-1)
	}
}

// counted notes counters that count the flow, unless it is destroyed.
func (f *Flow) counted(n *Counters) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counters = append(f.counters, n)
	return !f.gone.Load()
}

// hasRaw reports whether the device has raw packet queue pairs.
func (c *Context) hasRaw() bool {
	_, ok := c.info.Kind.Operations(ib.QPTypeRawPacket)
	return ok
}

// Destroy ends the flow: ibv_destroy_flow(3).
func (f *Flow) Destroy() (err error) {
	defer func() { f.qp.ctx.logCall("ibv_destroy_flow", err, "qp", f.qp) }()
	if f.gone.Swap(true) {
		return invalid("Flow", "was destroyed before")
	}
	f.flow.Remove()
	f.mu.Lock()
	counters := f.counters
	f.mu.Unlock()
	for _, n := range counters {
		n.leave(f)
	}
	unuse(f.with)
	f.qp.flows.Add(-1)
	return nil
}
