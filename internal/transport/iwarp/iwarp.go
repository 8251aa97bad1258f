// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import (
	"sync"

	"verbena/internal/engine"
)

// Transport is iWARP's part of an engine.
type Transport struct {
	engine.BaseComponent
	eng *engine.Engine // immutable

	mu sync.Mutex
	in *input // guarded by mu; nil until a stream is wanted
}

// Of returns the engine's Transport, made by the first call.
func Of(e *engine.Engine) *Transport {
	return engine.ComponentOf(e, func(e *engine.Engine) *Transport { return &Transport{eng: e} })
}
