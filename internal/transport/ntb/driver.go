// SPDX-License-Identifier: BSD-2-Clause

package ntb

import (
	"verbena/internal/engine"
	"verbena/internal/ntb/rdma"
)

// Driver implements engine.Driver.
type Driver struct{}

// CounterNames implements engine.Driver.
func (Driver) CounterNames() []string { return rdma.CounterNames() }

// NewConn implements engine.Driver. The Device of q is a *Device.
func (Driver) NewConn(_ *engine.Engine, q *engine.QPSpec) (*engine.Conn, error) {
	return q.Device.(*Device).NewConn(q.Config, q.OnEvent)
}
