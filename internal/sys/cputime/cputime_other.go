// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package cputime

import "verbena/internal/monotime"

// Used returns the processor time that all threads of the process have used. ok is false if the
// system does not report it.
func Used() (d monotime.Duration, ok bool) { return 0, false }

// Preemptions returns 0 where the system does not report the processor time.
func Preemptions() uint64 { return 0 }
