// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"os"

	"golang.org/x/sys/unix"

	"verbena/internal/ntb/window"
)

// backing is the memory of our window.
type backing struct {
	f fd // a memfd, to be passed; none if it is this process's alone
	b []byte
	w *window.Window
}

// newBacking makes a window, which takes only the memory that is used of it.
func newBacking(n uint64, shared bool) (*backing, error) {
	m := &backing{f: none}
	var err error
	if shared {
		err = m.openShared(n)
	} else if m.b, err = unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE); err != nil {
		err = os.NewSyscallError("mmap", err)
	}
	if err != nil {
		m.close()
		return nil, err
	}
	m.w = window.New(m.b)
	return m, nil
}

func (m *backing) openShared(n uint64) error {
	err := m.openMemory(n)
	if err == nil {
		m.b, err = mapShared(int(m.f), n)
	}
	return err
}

// openMemory makes memory without mapping it.
func (m *backing) openMemory(n uint64) error {
	f, err := unix.MemfdCreate("verbena-ntb", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return os.NewSyscallError("memfd_create", err)
	}
	m.f = hold(f)
	if err := unix.Ftruncate(f, int64(n)); err != nil {
		return os.NewSyscallError("ftruncate", err)
	}
	if _, err := unix.FcntlInt(uintptr(f), unix.F_ADD_SEALS, seals); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	return nil
}

func (m *backing) close() {
	m.f.close()
	if m.b != nil {
		unix.Munmap(m.b)
		m.b = nil
	}
}
