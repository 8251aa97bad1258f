// SPDX-License-Identifier: BSD-2-Clause

package recorder

import (
	"os/signal"
	"syscall"
	"testing"
)

// A signal that the program ignores is still ignored.
func TestIgnoredSignal(t *testing.T) {
	signal.Ignore(syscall.SIGUSR1)
	defer signal.Reset(syscall.SIGUSR1)
	stop := OnSignal(func() { t.Error("called") })
	if !signal.Ignored(syscall.SIGUSR1) {
		t.Error("taken")
	}
	stop()
}
