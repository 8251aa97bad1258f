// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"sync"
	"sync/atomic"

	"verbena/internal/engine"
	"verbena/internal/mem"
	"verbena/internal/transport/frames"
)

// Transport is TRP's part of an engine.
type Transport struct {
	engine.BaseComponent
	eng     *engine.Engine // immutable
	reorder *mem.Budget    // of all queue pairs; immutable
	seats   *frames.Set    // immutable

	mu sync.Mutex
	in *input // guarded by mu; nil until a port is wanted

	listeners     listeners
	repeatingFINs atomic.Int32 // associations without queue pairs whose FIN is not answered
}

// Of returns the engine's Transport, made by the first call.
func Of(e *engine.Engine) *Transport {
	seats := frames.Of(e)
	return engine.ComponentOf(e, func(e *engine.Engine) *Transport {
		return &Transport{eng: e, reorder: mem.NewBudget(reorderBytes), seats: seats}
	})
}

// reorderBytes is the memory of a process for segments that arrive before their turn. One
// association may use half: 1 Gb/s carries as much in half a second.
const reorderBytes = 128 << 20

// AppendCounts implements engine.Component.
func (t *Transport) AppendCounts(_ *engine.DeviceCounters, list []engine.Counter) []engine.Counter {
	return append(list, t.listeners.counts()...)
}
