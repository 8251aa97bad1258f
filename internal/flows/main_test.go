// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain has garbage collected less often: with a heap of some megabytes, and a piece of memory
// for each burst, that is half of the processor's time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// notShort skips a test of timing and congestion on an emulated machine, where it takes minutes. No
// byte order matters there.
func notShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("an emulated machine takes minutes, and no byte order matters here")
	}
}
