// SPDX-License-Identifier: BSD-2-Clause

package recorder

import (
	"os"
	"os/signal"
	"syscall"
)

// OnSignal calls f for each SIGUSR1, until stop is called. It is for programs in Go: other
// receivers of the program get the signal, too. A program that ignores the signal still ignores it.
func OnSignal(f func()) (stop func()) {
	if signal.Ignored(syscall.SIGUSR1) {
		return func() {}
	}
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR1)
	go func() {
		for range c {
			f()
		}
	}()
	return func() {
		signal.Stop(c)
		close(c)
	}
}
