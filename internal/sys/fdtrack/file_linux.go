// SPDX-License-Identifier: BSD-2-Clause

package fdtrack

import (
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// file is a file for writing. It is none of package os, which starts the Go
// runtime's poller: that one does not outlive an application that closes all
// descriptors.
type file struct{ fd int }

// Create is os.Create. Writes after the descriptors are lost are lost with them: EBADF.
func Create(path string) (io.WriteCloser, error) { return create(path, unix.O_TRUNC) }

// CreateNew is Create, and fails if there is something of that name.
func CreateNew(path string) (io.WriteCloser, error) { return create(path, unix.O_EXCL) }

func create(path string, flags int) (io.WriteCloser, error) {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC|flags, 0o666)
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: path, Err: err}
	}
	Add(fd)
	return file{fd}, nil
}

func (f file) Write(b []byte) (n int, err error) {
	if Check() {
		return 0, unix.EBADF
	}
	for n < len(b) {
		k, err := unix.Write(f.fd, b[n:])
		if err != nil && err != unix.EINTR {
			return n, err
		}
		n += max(k, 0)
	}
	return n, nil
}

func (f file) Close() error { return Close(f.fd) }

// ReadFile is os.ReadFile, likewise.
func ReadFile(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path) // one that blocks is left alone
	defer f.Close()
	return io.ReadAll(f)
}
