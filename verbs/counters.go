// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"verbena/ib"
	"verbena/internal/core"
)

// Counters counts the frames of flows, in up to 256 values: ibv_counters.
type Counters core.Counters

// CreateCounters makes counters that count nothing yet: ibv_create_counters(3). Errors: EOPNOTSUPP
// on devices without flows.
func (c *Context) CreateCounters() (*Counters, error) {
	n, err := (*core.Context)(c).CreateCounters()
	return (*Counters)(n), err
}

// Attach adds a count of a flow to the value of an index, from now on. With nil it is of the flows
// that are made with the counters later: ibv_attach_counters_point_flow(3).
//
// Errors: EINVAL for an index that is too large, or a flow of another context; ENOTSUP for an
// unknown count; EBUSY with nil while there is a flow that was made with the counters.
func (n *Counters) Attach(what ib.CounterKind, index uint32, flow *Flow) error {
	return (*core.Counters)(n).Attach(what, index, (*core.Flow)(flow))
}

// Read stores the values by their index, with those of flows that are gone: ibv_read_counters(3).
// Errors: EINVAL for more values than there may be.
func (n *Counters) Read(values []uint64) error {
	err := (*core.Counters)(n).Read(values)
	(*core.Counters)(n).LogRead(err)
	return err
}

// Destroy removes the counters: ibv_destroy_counters(3). Errors: EBUSY while they count a flow.
func (n *Counters) Destroy() error { return (*core.Counters)(n).Destroy() }
