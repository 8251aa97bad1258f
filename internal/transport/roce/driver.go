// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/roce/uc"
	"verbena/internal/roce/ud"
)

// Driver implements engine.Driver.
type Driver struct{}

// CounterNames implements engine.Driver.
func (Driver) CounterNames() []string { return roce.CounterNames() }

// NewConn implements engine.Driver.
func (Driver) NewConn(e *engine.Engine, q *engine.QPSpec) (*engine.Conn, error) {
	return Of(e).NewConn(q.Counters, func(n ib.QPN) roce.Machine {
		cfg := q.Config(n)
		cfg.Reorder, cfg.Congestion = Of(e).Reorder, Of(e).congestion
		switch q.Type {
		case ib.QPTypeXRCSend:
			return rc.NewXRCSend(cfg)
		case ib.QPTypeUC:
			return uc.New(cfg)
		case ib.QPTypeUD:
			return ud.New(ud.Config{Config: cfg, Source: q.Source, MTU: q.MTU})
		}
		return rc.New(cfg)
	}, q.OnEvent, q.Lane)
}
