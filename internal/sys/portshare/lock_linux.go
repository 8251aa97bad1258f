// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
)

// keeperByte is the byte of the lock file that the keeper holds. Bytes 1 to 63
// are the slots.
const keeperByte = 0

// lockFile is this process's open file description of the lock file: what it
// locks is released when it is closed, by us or by the kernel. Its locks do not
// conflict with each other, so callers keep track of their own.
type lockFile struct {
	f  *os.File
	is os.FileInfo
}

func openLock(path string) (lockFile, error) {
	f, err := openFile(path, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return lockFile{}, fmt.Errorf("share: lock file: %w", err)
	}
	is, err := f.Stat()
	if err != nil {
		f.Close()
		return lockFile{}, fmt.Errorf("share: lock file: %w", err)
	}
	fdtrack.AddConn(f)
	return lockFile{f, is}, nil
}

// intact reports whether the descriptor is still ours: an application that
// closes all descriptors has given up what was locked, and may have another
// file under the number.
func (l lockFile) intact() bool {
	is, err := l.f.Stat()
	return err == nil && os.SameFile(is, l.is)
}

func (l lockFile) set(typ int16, at int) error {
	return unix.FcntlFlock(l.f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: typ, Whence: 0, Start: int64(at), Len: 1})
}

// try locks byte at; false if another process holds it.
func (l lockFile) try(at int) bool { return l.intact() && l.set(unix.F_WRLCK, at) == nil }

func (l lockFile) unlock(at int) { l.set(unix.F_UNLCK, at) }

// slotsHeld reports whether another process owns any slot.
func (l lockFile) slotsHeld() bool { return l.held(1, Slots-1) }

// held reports whether another process holds any of n bytes.
func (l lockFile) held(at, n int) bool {
	q := unix.Flock_t{Type: unix.F_WRLCK, Whence: 0, Start: int64(at), Len: int64(n)}
	return unix.FcntlFlock(l.f.Fd(), unix.F_OFD_GETLK, &q) != nil || q.Type != unix.F_UNLCK
}

func (l lockFile) close() error { return fdtrack.CloseConn(l.f) }
