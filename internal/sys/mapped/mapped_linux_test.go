// SPDX-License-Identifier: BSD-2-Clause

package mapped

import (
	"bytes"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// faults returns the page faults of this thread.
func faults(t *testing.T) int64 {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return u.Minflt + u.Majflt
}

// The memory is zero, no access to it faults, and it is none of the heap.
func TestPagesAreThere(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const size = 4 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b, err := New(size)
	if err != nil {
		t.Fatal(err)
	}
	defer Free(b)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > size/4 {
		t.Errorf("%d bytes came from the heap", n)
	}
	zeros := make([]byte, 1<<10)
	from := faults(t)
	for at := 0; at < size; at += len(zeros) {
		if !bytes.Equal(b[at:][:len(zeros)], zeros) {
			t.Fatalf("byte %d and those behind it are not zero", at)
		}
		b[at] = 1
	}
	if n := faults(t) - from; n > size/4096/8 {
		t.Errorf("%d page faults", n)
	}
}

func TestFreeOfOtherMemory(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Free of other memory does not panic")
		}
	}()
	Free(make([]byte, 4096))
}
