// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestVerbs runs every program of testdata that tests libibverbs.
func TestVerbs(t *testing.T) {
	files, err := filepath.Glob("testdata/verbs_*.c")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".c")
		t.Run(strings.TrimPrefix(name, "verbs_"), func(t *testing.T) { run(t, name) })
	}
}
