// SPDX-License-Identifier: BSD-2-Clause

package window

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// A window in a file that becomes shorter is lost, not the process.
func TestFragile(t *testing.T) {
	const size = 1 << 16
	path := filepath.Join(t.TempDir(), "file")
	for name, touch := range map[string]func(w *Window) bool{
		"Load4":   func(w *Window) bool { return w.Load4(size-8) != 0 },
		"Load8":   func(w *Window) bool { return w.Load8(size-8) != 0 },
		"Store4":  func(w *Window) bool { return w.Store4(size-8, 7) },
		"Store8":  func(w *Window) bool { return w.Store8(size-8, 7) },
		"Put4":    func(w *Window) bool { return w.Put4(size-8, 7) },
		"Put8":    func(w *Window) bool { return w.Put8(size-8, 7) },
		"CopyIn":  func(w *Window) bool { return w.CopyIn(size-100, make([]byte, 100)) },
		"CopyOut": func(w *Window) bool { return w.CopyOut(size-100, make([]byte, 100)) },
		"Clear":   func(w *Window) bool { w.Clear(size-8, 8); return !w.gone.Load() },
	} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		w := Fragile(b, new(atomic.Bool))
		w.Store8(size-8, 1<<40|1)
		if !touch(w) || w.gone.Load() {
			t.Errorf("%s fails where the memory is there", name)
		}
		if n := testing.AllocsPerRun(10, func() { touch(w) }); n > 0 && name[0] != 'C' { // copies are of a buffer of this test's
			t.Errorf("%s allocates %v times", name, n)
		}
		if err := os.Truncate(path, 4096); err != nil {
			t.Fatal(err)
		}
		if touch(w) || !w.gone.Load() {
			t.Errorf("%s does not notice that the memory is gone", name)
		}
		if w.Store8(0, 5); w.Load8(0) != 5 {
			t.Error("what is left of it cannot be used")
		}
		unix.Munmap(b)
		f.Close()
	}
}
