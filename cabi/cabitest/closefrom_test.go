// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestClosingAllWithCaptureAndFaults: faults and captures need no poller of the Go runtime, which
// would end a program that closes all descriptors.
func TestClosingAllWithCaptureAndFaults(t *testing.T) {
	for name, env := range map[string]string{
		"capture": "VERBENA_PCAP=" + filepath.Join(t.TempDir(), "%p.pcapng"),
		"delay":   "VERBENA_FAULTS=delay=1ms,jitter=1ms,seed=1",
		"reorder": "VERBENA_FAULTS=reorder=50%,loss=10%,seed=1",
	} {
		t.Run(name, func(t *testing.T) {
			key, value, _ := strings.Cut(env, "=")
			t.Setenv(key, value)
			for _, program := range []string{"verbs_poller", "verbs_closefrom", "verbs_closefrom_busy", "cm_closefrom"} {
				run(t, program)
			}
		})
	}
}
