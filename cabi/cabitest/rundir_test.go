// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRuntimeDirectoryOfAll uses a directory that all may write, as an emptyDir of Kubernetes:
// processes use a directory of their own below it, and print nothing.
func TestRuntimeDirectoryOfAll(t *testing.T) {
	base := t.TempDir()
	if err := os.Chmod(base, 0o777); err != nil {
		t.Fatal(err)
	}
	if out := strings.TrimSpace(output(t, "alloc_pd", "XDG_RUNTIME_DIR="+base, "VERBENA_KEEPER=/nonexistent")); out != "made" {
		t.Errorf("the first object: %s", out)
	}
	dir := filepath.Join(base, fmt.Sprintf("verbena-%d", os.Geteuid()))
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", fi, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 0 {
		t.Errorf("left in it: %q, %v", left, err)
	}
}

// TestRuntimeDirectoryThatIsNot: the program uses another directory, and prints a line.
func TestRuntimeDirectoryThatIsNot(t *testing.T) {
	lib, err := libDir()
	if err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(t.TempDir(), "gone")
	out, complaint := outputOf(t, compile(t, "alloc_pd"), []string{"LD_LIBRARY_PATH=" + lib, "XDG_RUNTIME_DIR=" + gone})
	if strings.TrimSpace(out) != "made" || strings.Count(complaint, "\n") != 1 ||
		!strings.HasPrefix(complaint, "verbena: XDG_RUNTIME_DIR="+gone+" cannot be used") {
		t.Errorf("%q, and it said %q", out, complaint)
	}
}
