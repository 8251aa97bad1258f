// SPDX-License-Identifier: BSD-2-Clause

package verbs

import "verbena/internal/core"

// Vars returns the answer of this process to `verbena stat --json`, for package expvar:
//
//	expvar.Publish("verbena", expvar.Func(verbs.Vars))
//
// It has each open device with its counters, and each queue pair with its state, peer, round trip,
// window and counters. It is nil while no device is open. Only its form as JSON is stable.
func Vars() any { return core.Vars() }
