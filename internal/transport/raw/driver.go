// SPDX-License-Identifier: BSD-2-Clause

package raw

import (
	"verbena/internal/engine"
	"verbena/internal/roce"
)

// Driver implements engine.Driver.
type Driver struct{}

// CounterNames implements engine.Driver.
func (Driver) CounterNames() []string { return roce.CounterNames() }

// NewConn implements engine.Driver.
func (Driver) NewConn(e *engine.Engine, q *engine.QPSpec) (*engine.Conn, error) {
	return of(e).newConn(q)
}
