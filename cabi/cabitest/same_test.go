// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSameAsRdmaCore runs the programs of testdata/same_*.c, which need no device, with our library
// and with the installed one: strings, rates and copies.
func TestSameAsRdmaCore(t *testing.T) {
	files, err := filepath.Glob("testdata/same_*.c")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".c")
		t.Run(name, func(t *testing.T) {
			installed, err := exec.Command(compile(t, name)).Output()
			if err != nil {
				t.Fatalf("with the installed library: %v", err)
			}
			ours := strings.Split(output(t, name), "\n")
			for i, want := range strings.Split(string(installed), "\n") {
				if i >= len(ours) || ours[i] != want {
					t.Fatalf("line %d: %q, rdma-core's is %q", i+1, append(ours, "nothing")[min(i, len(ours))], want)
				}
			}
		})
	}
}
