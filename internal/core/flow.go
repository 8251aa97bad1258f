// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"errors"
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
}

// CreateFlow has frames that match go to the queue pair: ibv_create_flow(3).
func (q *QP) CreateFlow(attr *ib.FlowAttr) (*Flow, error) {
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
	f, err := raw.AddFlow(q.conn, attr)
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
	return &Flow{qp: q, flow: f}, nil
}

// hasRaw reports whether the device has raw packet queue pairs.
func (c *Context) hasRaw() bool {
	_, ok := c.info.Kind.Operations(ib.QPTypeRawPacket)
	return ok
}

// Destroy ends the flow: ibv_destroy_flow(3).
func (f *Flow) Destroy() error {
	if f.gone.Swap(true) {
		return invalid("Flow", "was destroyed before")
	}
	f.flow.Remove()
	f.qp.flows.Add(-1)
	return nil
}
