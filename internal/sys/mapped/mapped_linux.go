// SPDX-License-Identifier: BSD-2-Clause

package mapped

import (
	"os"

	"golang.org/x/sys/unix"
)

// New returns n bytes of zeros, n > 0, until Free.
func New(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	// Without large pages, or before Linux 5.14, the pages come otherwise.
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	_ = unix.Madvise(b, unix.MADV_POPULATE_WRITE)
	return b, nil
}

// Free ends memory of New, which nothing may use any more.
func Free(b []byte) {
	if err := unix.Munmap(b); err != nil {
		panic("mapped: the memory is not from New: " + err.Error())
	}
}
