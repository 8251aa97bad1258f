// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
)

// Bytes of the lock file: the keeper's, and behind it one for each slot.
const (
	keeperByte = 0
	firstByte  = 1
)

// byteOf returns the byte that the owner of a slot holds.
func byteOf(slot int) int { return slot + firstByte }

// lockFile is this process's open file description of the lock file: its locks are released when it
// is closed, by us or by the kernel. Its locks do not conflict with each other, so callers keep
// track of their own.
type lockFile struct {
	f  *os.File
	is os.FileInfo
}

// openLock opens the file that has the path, which a keeper that ends removes.
func openLock(path string) (lockFile, error) {
	f, err := openFile(path, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return lockFile{}, fmt.Errorf("portshare: lock file: %w", err)
	}
	is, err := f.Stat()
	if err != nil {
		f.Close()
		return lockFile{}, fmt.Errorf("portshare: lock file: %w", err)
	}
	fdtrack.AddConn(f)
	return lockFile{f, is}, nil
}

// intact reports whether the descriptor is still ours: an application that closes all descriptors
// has given up the locks, and may have another file under the number.
func (l lockFile) intact() bool {
	is, err := l.f.Stat()
	return err == nil && os.SameFile(is, l.is)
}

// at reports whether the file has a path.
func (l lockFile) at(path string) bool {
	is, err := os.Lstat(path)
	return err == nil && os.SameFile(is, l.is)
}

func (l lockFile) set(typ int16, at int) error {
	return unix.FcntlFlock(l.f.Fd(), unix.F_OFD_SETLK,
		&unix.Flock_t{Type: typ, Whence: 0, Start: int64(at), Len: 1})
}

// try locks byte at; false if another process holds it.
func (l lockFile) try(at int) bool { return l.intact() && l.set(unix.F_WRLCK, at) == nil }

func (l lockFile) unlock(at int) { l.set(unix.F_UNLCK, at) }

// held reports whether another process holds any of n bytes.
func (l lockFile) held(at, n int) bool {
	q := unix.Flock_t{Type: unix.F_WRLCK, Whence: 0, Start: int64(at), Len: int64(n)}
	return unix.FcntlFlock(l.f.Fd(), unix.F_OFD_GETLK, &q) != nil || q.Type != unix.F_UNLCK
}

// owned reports whether another process owns a slot.
func (l lockFile) owned(slot int) bool { return l.held(byteOf(slot), 1) }

// anyOwned reports whether another process owns any.
func (l lockFile) anyOwned() bool { return l.held(byteOf(0), Slots) }

// startPatience bounds the time that a started keeper has to begin: a busy machine takes some time
// to execute a command. Shorter in tests.
var startPatience = time.Second

// claimStart reports whether a keeper is to be started, and notes that it is. The file has
// contents from then on until the keeper has begun.
func (l lockFile) claimStart() bool {
	is, err := l.f.Stat()
	if err != nil || is.Size() > 0 && time.Since(is.ModTime()).Abs() < startPatience {
		return false
	}
	_, err = l.f.WriteAt([]byte{0}, 0)
	return err == nil
}

// begun says that the keeper has begun.
func (l lockFile) begun() { l.f.Truncate(0) }

func (l lockFile) close() error { return fdtrack.CloseConn(l.f) }
