// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"verbena/internal/device"
)

// TestRandomCalls makes random calls of verbs and of librdmacm on threads, with signals and forks:
// no crash, no hang, no unexpected byte changes, and all objects can be destroyed. To try another
// seed or a longer time run the program itself: random_calls.c.
func TestRandomCalls(t *testing.T) {
	const milliseconds = "800"
	program := compile(t, "random_calls")
	lib, _ := libDir()
	for seed, c := range []struct {
		name string
		env  []string
	}{
		{"memory", nil},
		{"UDP", []string{"VERBENA_LOCAL=off"}},
		{"iWARP", []string{"VERBENA_DEVICES=iwarp", "LOOP_DEVICE=iwarp_lo"}},
		{"TRP", []string{"VERBENA_DEVICES=trp", "LOOP_DEVICE=trp_lo"}},
		{"link", []string{"VERBENA_DEVICES=ntb", "LOOP_DEVICE=ntb0", "LOOP_ADDRESS=10.99.0.1",
			device.LinksVariable + "=10.99.0.1+10.99.0.2=shm:s:" + filepath.Join(t.TempDir(), "link")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := append([]string{"LD_LIBRARY_PATH=" + lib}, c.env...)
			out, complaint := outputOf(t, program, env, fmt.Sprint(seed+1), milliseconds)
			if complaint != "" {
				t.Errorf("%s", complaint)
			}
			t.Log(strings.TrimSpace(out))
		})
	}
}
