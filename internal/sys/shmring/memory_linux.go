// SPDX-License-Identifier: BSD-2-Clause

package shmring

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// seals keep every holder of the descriptor from making the memory shorter: a reader would get
// SIGBUS.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// newMemory returns an empty ring and its descriptor.
func newMemory() (memory []byte, fd int, err error) {
	fd, err = unix.MemfdCreate("verbena-ring", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, 0, os.NewSyscallError("memfd_create", err)
	}
	if err = unix.Ftruncate(fd, totalBytes); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err == nil {
		memory, err = mapMemory(fd)
	}
	if err != nil {
		unix.Close(fd)
		return nil, 0, err
	}
	return memory, fd, nil
}

// mapMemory maps a ring if it is as long as it should be, and stays so.
func mapMemory(fd int) ([]byte, error) {
	if got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil ||
		got&seals != seals {
		return nil, fmt.Errorf("shmring: memory is not sealed (%#x, %v)", got, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Size != totalBytes {
		return nil, fmt.Errorf("shmring: memory of %d bytes, not %d (%v)", st.Size, totalBytes, err)
	}
	memory, err := newMapping(fd, totalBytes)
	if err != nil {
		return nil, err
	}
	// A child of a fork has no part in it.
	if err := unix.Madvise(memory, unix.MADV_DONTFORK); err != nil {
		endMapping(memory)
		return nil, os.NewSyscallError("madvise", err)
	}
	return memory, nil
}
