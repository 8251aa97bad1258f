// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openFile is os.OpenFile without the Go runtime's poller. An application that
// closes all descriptors closes those of the poller too, and the runtime ends
// the process then; so nothing here starts it, by a file, by package net or by
// a timer.
func openFile(path string, flags int) (*os.File, error) {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil // one that blocks is left alone
}

// readFile is os.ReadFile, likewise.
func readFile(path string) ([]byte, error) {
	f, err := openFile(path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}
