// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A process that is stopped while it has the counts locked keeps no other from its end.
func TestRetireWhileLocked(t *testing.T) {
	dir := shortDir(t)
	f, err := os.Create(filepath.Join(dir, "77-roce_a.port"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := Retire(dir, "77-1", sent("roce_a", 1)); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Error(err)
	}
}
