// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/iwarp/rdmap"
)

// Driver implements engine.Driver.
type Driver struct{}

// CounterNames implements engine.Driver.
func (Driver) CounterNames() []string { return rdmap.AssociationCounterNames() }

// NewConn implements engine.Driver.
func (Driver) NewConn(e *engine.Engine, q *engine.QPSpec) (*engine.Conn, error) {
	t := Of(e)
	return t.NewConn(q.Counters, func(n ib.QPN) *rdmap.Association {
		return rdmap.NewAssociation(q.Config(n), t.reorder)
	}, q.OnEvent, q.Lane)
}
