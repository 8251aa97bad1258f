// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"verbena/ib"
	"verbena/internal/core"
)

// Flow steers frames to a raw packet queue pair: ibv_flow.
type Flow core.Flow

// CreateFlow has the frames that match all specs go to a raw packet queue pair:
// ibv_create_flow(3). A frame goes to the flow of the lowest Priority that matches, of these to the
// oldest, and to all that are equal to it. Frames that other queue pairs of the interface send are
// steered too, those of its kernel are not. The kernel gets each frame that arrives as well, also
// one that FlowActionDrop keeps from the queue pairs.
//
// Errors: EINVAL for a queue pair of another type, an unknown type of flow, or specs with another
// type than FlowNormal; EINVAL for two specs of one header, two actions, or FlowActionDrop with
// FlowDontTrap; EOPNOTSUPP for other flags than FlowDontTrap; EPERM without CAP_NET_RAW; ENOMEM
// if the interface has 4096 flows.
//
// The counters, of the same context, count the flow from the beginning.
func (q *QP) CreateFlow(attr *ib.FlowAttr, counters ...*Counters) (*Flow, error) {
	var with []*core.Counters
	for _, n := range counters {
		with = append(with, (*core.Counters)(n))
	}
	f, err := (*core.QP)(q).CreateFlow(attr, with...)
	return (*Flow)(f), err
}

// Destroy ends the flow: ibv_destroy_flow(3).
func (f *Flow) Destroy() error { return (*core.Flow)(f).Destroy() }
