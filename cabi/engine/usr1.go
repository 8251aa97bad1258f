// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "usr1.h"
import "C"

import "sync/atomic"

// onSignal calls f for each SIGUSR1, until stop is called, unless the program wants the signal
// itself. The calling thread is the application's: its mask tells.
func onSignal(f func()) (stop func()) {
	if C.vb_usr1_take() == 0 {
		return func() {}
	}
	var ended atomic.Bool
	count := C.vb_usr1_count()
	go func() {
		for {
			if count = C.vb_usr1_await(count); ended.Load() {
				return
			}
			f()
		}
	}()
	return func() {
		ended.Store(true)
		C.vb_usr1_stop()
	}
}
