// Package backdoor lets packages of this module at what stands behind a
// verbs.Context, which is no part of the public API: rdmacm needs QP1. It holds
// no state but the function that package verbs puts here.
package backdoor

import "verbena/internal/engine"

// Engine returns what a *verbs.Context runs on. Package verbs sets it when it
// is initialised.
var Engine func(context any) *engine.Engine
