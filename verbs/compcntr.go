// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"verbena/ib"
	"verbena/internal/core"
)

// CompCntr is a completion counter: ibv_comp_cntr. It counts work requests that have completed,
// also those that make no completion. A thread that only reads it leaves the network to the
// background goroutine.
type CompCntr core.CompCntr

// QueryCompCntrCaps returns the bounds of completion counters: ibv_query_comp_cntr_caps(3).
func (c *Context) QueryCompCntrCaps() ib.CompCntrCaps {
	return (*core.Context)(c).QueryCompCntrCaps()
}

// CreateCompCntr creates a counter of work requests or of their bytes: ibv_create_comp_cntr(3).
func (c *Context) CreateCompCntr(typ ib.CompCntrType) (*CompCntr, error) {
	v, err := (*core.Context)(c).CreateCompCntr(typ)
	return (*CompCntr)(v), err
}

// Destroy removes the counter: ibv_destroy_comp_cntr(3). Errors: EBUSY while it is attached to a
// queue pair.
func (n *CompCntr) Destroy() error { return (*core.CompCntr)(n).Destroy() }

// Read returns the count of successes: ibv_read_comp_cntr(3).
func (n *CompCntr) Read() uint64 { return (*core.CompCntr)(n).Done().Load() }

// Set changes it: ibv_set_comp_cntr(3).
func (n *CompCntr) Set(v uint64) { (*core.CompCntr)(n).Done().Store(v) }

// Inc adds to it: ibv_inc_comp_cntr(3).
func (n *CompCntr) Inc(amount uint64) { (*core.CompCntr)(n).Done().Add(amount) }

// ReadErr returns the number of work requests that completed with an error:
// ibv_read_err_comp_cntr(3).
func (n *CompCntr) ReadErr() uint64 { return (*core.CompCntr)(n).Failed().Load() }

// SetErr changes it: ibv_set_err_comp_cntr(3).
func (n *CompCntr) SetErr(v uint64) { (*core.CompCntr)(n).Failed().Store(v) }

// IncErr adds to it: ibv_inc_err_comp_cntr(3).
func (n *CompCntr) IncErr(amount uint64) { (*core.CompCntr)(n).Failed().Add(amount) }

// AttachCompCntr makes a counter count operations of the queue pair, which is in RESET or INIT,
// until it is destroyed: ibv_qp_attach_comp_cntr(3). An operation has one counter at most.
//
// Errors: EINVAL for a counter of another context, no operation, or another state; EOPNOTSUPP for
// operations of the peer, and for XRC_RECV; EBUSY if an operation has a counter.
func (q *QP) AttachCompCntr(n *CompCntr, ops ib.CompCntrOps) error {
	return (*core.QP)(q).AttachCompCntr((*core.CompCntr)(n), ops)
}
