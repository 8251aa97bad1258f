// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"testing"

	"verbena/internal/testkit/loopback"
	"verbena/verbs"
)

// onBothPaths runs a test over shared memory, as is usual within a host, and over
// UDP.
func onBothPaths(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	for name, opts := range map[string][]verbs.Option{"memory": nil, "UDP": {verbs.WithoutLocalPath()}} {
		t.Run(name, func(t *testing.T) {
			first, err := verbs.Open(loopback.Device(t), opts...) // whose options are those of the process
			check(t, err)
			defer first.Close()
			t.Run("", f) // its contexts are closed before the first one is
		})
	}
}
