// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"math/bits"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/mem"
	"verbena/internal/queue"
	"verbena/internal/steer"
	"verbena/internal/transport/raw"
)

// WQInitAttr has the attributes of a new work queue: ibv_wq_init_attr.
type WQInitAttr struct {
	CQ     *CQ
	MaxWR  uint32
	MaxSGE uint32
	// Outside is QPInitAttr's.
	Outside *queue.OutsideRecvQueue
}

// WQ is a work queue: receives for the frames that queue pairs spread. It is half of a raw packet
// queue pair, without a send queue.
type WQ struct {
	qp    *QP
	users atomic.Int32 // tables; -1 once destroyed
}

// CreateWQ creates a work queue in the RESET state: ibv_create_wq(3).
func (p *PD) CreateWQ(attr *WQInitAttr) (w *WQ, err error) {
	c := p.ctx
	defer func() { c.logCall("ibv_create_wq", err, numberOf(w)...) }()
	switch err := c.alive(); {
	case err != nil:
		return nil, err
	case attr == nil:
		return nil, invalid("attr", "is missing")
	case !c.hasRaw():
		return nil, fail(syscall.EOPNOTSUPP, "WQ", "devices of kind %v have none", c.info.Kind)
	case attr.CQ == nil || attr.CQ.ctx != c:
		return nil, invalid("attr.CQ", "must be a completion queue of this context")
	}
	init := QPInitAttr{Type: ib.QPTypeRawPacket, RecvCQ: attr.CQ, Outside: attr.Outside,
		Cap: ib.QPCap{MaxRecvWR: attr.MaxWR, MaxRecvSGE: attr.MaxSGE}}
	q, err := p.newQP(&init)
	if err != nil {
		return nil, err
	}
	return &WQ{qp: q}, nil
}

// numberOf returns the number of a receive queue for the log; w may be nil.
func numberOf(w *WQ) []any {
	if w == nil {
		return nil
	}
	return []any{"wq_num", text{w.Num()}}
}

// newQP makes a queue pair whose type has been checked.
func (p *PD) newQP(attr *QPInitAttr) (*QP, error) {
	if err := checkCap(attr); err != nil {
		return nil, err
	}
	undo, err := useAll(p, attr)
	if err != nil {
		return nil, err
	}
	q := &QP{ctx: p.ctx, pd: p, init: *attr}
	ops, _ := p.ctx.info.Kind.Operations(attr.Type)
	q.ops = opBits(ops)
	if q.init.SRQ != nil {
		q.init.Cap.MaxRecvWR, q.init.Cap.MaxRecvSGE = 0, 0
	}
	if q.conn, err = q.newConn(); err != nil {
		undo()
		return nil, q.connError(err)
	}
	if err := q.enlist(); err != nil {
		return nil, err
	}
	q.conn.Near.Beside(mem.LinesOf(q))
	if cq := attr.RecvCQ; cq != nil {
		cq.beside(q.conn)
	}
	return q, nil
}

// Num returns the number of the work queue, which its completions carry.
func (w *WQ) Num() ib.QPN { return w.qp.QPN() }

// State returns the current state.
func (w *WQ) State() ib.WQState {
	switch w.qp.State() {
	case ib.QPReset:
		return ib.WQReset
	case ib.QPErr:
		return ib.WQErr
	}
	return ib.WQReady
}

// Modify changes the state: ibv_modify_wq(3).
func (w *WQ) Modify(to ib.WQState) (err error) {
	q := w.qp
	defer func() { q.ctx.logCall("ibv_modify_wq", err, append(numberOf(w), "state", to)...) }()
	q.modifyMu.Lock()
	defer q.modifyMu.Unlock()
	if q.gone.Load() {
		return invalid("WQ", "was destroyed")
	}
	steps := map[ib.WQState][]ib.QPState{ib.WQReset: {ib.QPReset}, ib.WQErr: {ib.QPErr},
		ib.WQReady: {ib.QPInit, ib.QPRTR}}[to]
	switch cur := w.State(); {
	case steps == nil, to == ib.WQReady && cur == ib.WQErr:
		return invalid("state", "cannot go from %d to %d", cur, to)
	case to == ib.WQReady && cur == ib.WQReady:
		return nil
	}
	for _, s := range steps {
		err := q.conn.Modify(&ib.QPAttr{State: s}, ib.QPStateAttr, netip.Addr{},
			func(ib.QPState) error { return nil })
		if err != nil {
			return err
		}
	}
	if to == ib.WQReset {
		q.purge()
	}
	return nil
}

// PostRecv posts receives: ibv_post_wq_recv(3).
func (w *WQ) PostRecv(wrs []RecvWR) (posted int, err error) { return w.qp.PostRecv(wrs) }

// ReceivesPosted is that of QP.
func (w *WQ) ReceivesPosted() { w.qp.ReceivesPosted() }

// Destroy removes the work queue: ibv_destroy_wq(3).
func (w *WQ) Destroy() (err error) {
	defer func() { w.qp.ctx.logCall("ibv_destroy_wq", err, numberOf(w)...) }()
	if err := retire(&w.users, "WQ"); err != nil {
		return err
	}
	w.qp.destroy()
	return nil
}

// RWQTable is an indirection table: the work queues that frames are spread over.
type RWQTable struct {
	ctx   *Context
	wqs   []*WQ
	users atomic.Int32 // queue pairs; -1 once destroyed
}

// CreateRWQTable makes an indirection table: ibv_create_rwq_ind_table(3).
func (c *Context) CreateRWQTable(wqs []*WQ) (t *RWQTable, err error) {
	defer func() { c.logCall("ibv_create_rwq_ind_table", err, "wqs", len(wqs)) }()
	if err := c.alive(); err != nil {
		return nil, err
	}
	if !c.hasRaw() {
		return nil, fail(syscall.EOPNOTSUPP, "table", "devices of kind %v have none", c.info.Kind)
	}
	if n := len(wqs); bits.OnesCount(uint(n)) != 1 || n > device.MaxRWQTable {
		return nil, invalid("wqs", "%d: must be a power of two, up to %d", n, device.MaxRWQTable)
	}
	for i, w := range wqs {
		err := invalid("wqs", "%d must be of this context", i)
		if w != nil && w.qp.ctx == c {
			err = use(&w.users, "wqs")
		}
		if err != nil {
			leaveAll(wqs[:i])
			return nil, err
		}
	}
	return &RWQTable{ctx: c, wqs: slices.Clone(wqs)}, nil
}

func leaveAll(wqs []*WQ) {
	for _, w := range wqs {
		w.users.Add(-1)
	}
}

// Destroy removes the table: ibv_destroy_rwq_ind_table(3).
func (t *RWQTable) Destroy() (err error) {
	defer func() { t.ctx.logCall("ibv_destroy_rwq_ind_table", err, "wqs", len(t.wqs)) }()
	if err := retire(&t.users, "RWQTable"); err != nil {
		return err
	}
	leaveAll(t.wqs)
	return nil
}

// RSSInitAttr has the attributes of a queue pair that spreads frames.
type RSSInitAttr struct {
	Table  *RWQTable
	Key    []byte
	Fields ib.RXHashFields
}

// CreateRSSQP makes a raw packet queue pair that spreads its frames over work queues:
// ibv_create_qp_ex(3).
func (p *PD) CreateRSSQP(attr *RSSInitAttr) (q *QP, err error) {
	defer func() { p.ctx.logCall("ibv_create_qp", err, "qp", q) }()
	switch err := p.ctx.alive(); {
	case err != nil:
		return nil, err
	case attr == nil || attr.Table == nil || attr.Table.ctx != p.ctx:
		return nil, invalid("attr.Table", "must be one of this context")
	case len(attr.Key) != steer.HashKeyBytes:
		return nil, invalid("attr.Key", "%d bytes: must be %d", len(attr.Key), steer.HashKeyBytes)
	}
	hash, ok := steer.NewHash([steer.HashKeyBytes]byte(attr.Key), attr.Fields)
	if !ok {
		return nil, invalid("attr.Fields", "%#x: IPv4 or IPv6, TCP or UDP", uint64(attr.Fields))
	}
	if err := use(&attr.Table.users, "attr.Table"); err != nil {
		return nil, err
	}
	if q, err = p.newQP(&QPInitAttr{Type: ib.QPTypeRawPacket}); err != nil {
		attr.Table.users.Add(-1)
		return nil, err
	}
	q.spreads = attr.Table
	var to []raw.Receiver
	for _, w := range attr.Table.wqs {
		to = append(to, raw.ReceiverOf(w.qp.conn))
	}
	raw.Spread(q.conn, hash, to)
	return q, nil
}
