// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"syscall"

	"verbena/ib"
	"verbena/internal/queue"
)

// CreateQP creates an XRC_RECV queue pair of the domain in the RESET state: ibv_create_qp_ex(3).
func (x *XRCD) CreateQP(attr *QPInitAttr) (q *QP, err error) {
	defer func() { x.ctx.logCall("ibv_create_qp", err, "qp", q) }()
	return x.createQP(attr)
}

func (x *XRCD) createQP(attr *QPInitAttr) (*QP, error) {
	if err := x.ctx.alive(); err != nil {
		return nil, err
	}
	if attr != nil && attr.Type != 0 && attr.Type != ib.QPTypeXRCRecv {
		return nil, invalid("attr.Type", "%v: an XRC domain has XRC_RECV queue pairs", attr.Type)
	}
	q, err := x.newQP()
	if err != nil {
		return nil, err
	}
	t := &xrcTarget{ctx: x.ctx, dom: x.dom, qps: map[*QP]struct{}{q: {}}}
	t.conn, err = x.dom.newTarget(t.event)
	if err != nil {
		x.users.Add(-1)
		return nil, fail(syscall.ENOMEM, "QP", "%v", err)
	}
	q.target, q.conn = t, t.conn
	x.dom.mu.Lock()
	x.dom.targets[t.conn.QPN()] = t
	x.dom.mu.Unlock()
	if err := q.enlist(); err != nil {
		return nil, err
	}
	return q, nil
}

// OpenQP opens an XRC_RECV queue pair of the domain once more, by its number: ibv_open_qp(3).
func (x *XRCD) OpenQP(qpn ib.QPN) (q *QP, err error) {
	defer func() { x.ctx.logCall("ibv_open_qp", err, "qpn", text{qpn}) }()
	if err := x.ctx.alive(); err != nil {
		return nil, err
	}
	q, err = x.newQP()
	if err != nil {
		return nil, err
	}
	if !x.dom.join(qpn, q) {
		if err := x.dom.joinAway(qpn, q); err != nil {
			x.users.Add(-1)
			return nil, err
		}
	}
	if err := q.enlist(); err != nil {
		return nil, err
	}
	return q, nil
}

// newQP returns a QP that has no target yet.
func (x *XRCD) newQP() (*QP, error) {
	if err := use(&x.users, "XRCD"); err != nil {
		return nil, err
	}
	return &QP{ctx: x.ctx, init: QPInitAttr{Type: ib.QPTypeXRCRecv, XRCD: x},
		sq: queue.NewSendQueue(0, 0, 0), mute: muteXRCRecv}, nil
}

const muteXRCRecv = "is XRC_RECV: it has no send queue"
