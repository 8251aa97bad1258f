// SPDX-License-Identifier: BSD-2-Clause

//go:build !amd64 || race

package queue

import "sync/atomic"

// publish stores v in a counter after all earlier writes.
func publish(p *atomic.Uint64, v uint64) { p.Store(v) }
