// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"math/bits"
	"sync/atomic"
	"syscall"

	"verbena/ib"
	"verbena/internal/device"
)

// CompCntr is a completion counter: ibv_comp_cntr.
type CompCntr struct {
	ctx   *Context
	count compCounter
	users atomic.Int32 // queue pairs; -1 once destroyed
}

// QueryCompCntrCaps returns the bounds of completion counters: ibv_query_comp_cntr_caps(3).
func (c *Context) QueryCompCntrCaps() ib.CompCntrCaps { return device.CompCntrCaps }

// CreateCompCntr creates a completion counter: ibv_create_comp_cntr(3).
func (c *Context) CreateCompCntr(typ ib.CompCntrType) (n *CompCntr, err error) {
	defer func() { c.logCall("ibv_create_comp_cntr", err) }()
	if err := c.alive(); err != nil {
		return nil, err
	}
	if typ > ib.CompCntrBytes {
		return nil, fail(syscall.EOPNOTSUPP, "type", "%d: must be CompCntrWRs or CompCntrBytes",
			typ)
	}
	n = &CompCntr{ctx: c}
	n.count.Type = typ
	return n, nil
}

// Destroy removes the counter: ibv_destroy_comp_cntr(3).
func (n *CompCntr) Destroy() (err error) {
	defer func() { n.ctx.logCall("ibv_destroy_comp_cntr", err) }()
	return retire(&n.users, "CompCntr")
}

// Done returns the count of successes, which the caller may change.
func (n *CompCntr) Done() *atomic.Uint64 { return &n.count.Done }

// Failed returns the count of errors, which the caller may change.
func (n *CompCntr) Failed() *atomic.Uint64 { return &n.count.Failed }

// AttachCompCntr makes a counter count operations of the queue pair, until that is destroyed:
// ibv_qp_attach_comp_cntr(3).
func (q *QP) AttachCompCntr(n *CompCntr, ops ib.CompCntrOps) (err error) {
	defer func() { q.ctx.logCall("ibv_qp_attach_comp_cntr", err, "qp", q) }()
	if n == nil || n.ctx != q.ctx {
		return invalid("counter", "must be one of this context")
	}
	if ops == 0 {
		return invalid("ops", "names no operation")
	}
	if unknown := ops &^ device.CompCntrCaps.Ops; unknown != 0 || q.target != nil {
		return fail(syscall.EOPNOTSUPP, "ops", "%#x: not counted", ops)
	}
	q.modifyMu.Lock()
	defer q.modifyMu.Unlock()
	if s := q.State(); q.gone.Load() || s != ib.QPReset && s != ib.QPInit {
		return invalid("QP", "must be in RESET or INIT")
	}
	if q.counted.has(ops) {
		return fail(syscall.EBUSY, "ops", "%#x: some have a counter", ops)
	}
	if err := use(&n.users, "counter"); err != nil {
		return err
	}
	q.cntrs = append(q.cntrs, n)
	q.counted.attach(&n.count, ops)
	return nil
}

// leaveCntrs ends the use of counters by a queue pair that is destroyed. The caller holds modifyMu.
func (q *QP) leaveCntrs() {
	q.counted.attach(nil, device.CompCntrCaps.Ops)
	for _, n := range q.cntrs {
		n.users.Add(-1)
	}
	q.cntrs = nil
}

// compCounter counts work requests that have completed: ibv_create_comp_cntr(3). Several queue
// pairs may count in one.
type compCounter struct {
	Type   ib.CompCntrType // immutable
	Done   atomic.Uint64   // completed with success, or their bytes
	Failed atomic.Uint64   // work requests that completed with an error
}

// compCounters has the counters of a queue pair by the bit of the operation, nil where there is
// none. They count requests that make no completion, too.
type compCounters [6]atomic.Pointer[compCounter]

// attach sets the counter of operations. The caller has checked that they have none.
func (c *compCounters) attach(to *compCounter, ops ib.CompCntrOps) {
	for i := range c {
		if ops>>i&1 != 0 {
			c[i].Store(to)
		}
	}
}

// has reports whether one of the operations has a counter.
func (c *compCounters) has(ops ib.CompCntrOps) bool {
	for i := range c {
		if ops>>i&1 != 0 && c[i].Load() != nil {
			return true
		}
	}
	return false
}

// Count counts a completion of n bytes. It implements qp.Counter.
func (c *compCounters) Count(op ib.CompCntrOps, s ib.WCStatus, n uint32) {
	if op == 0 {
		return
	}
	to := c[bits.TrailingZeros32(uint32(op))].Load()
	switch {
	case to == nil:
	case s != ib.WCSuccess:
		to.Failed.Add(1)
	case to.Type == ib.CompCntrBytes:
		to.Done.Add(uint64(n))
	default:
		to.Done.Add(1)
	}
}
