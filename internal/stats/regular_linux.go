// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"os"
	"syscall"
)

// openRegular opens a file of the directory. It follows no link, and refuses and does not wait for
// a FIFO or a device.
func openRegular(path string, flags int) (*os.File, error) {
	fd, err := syscall.Open(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC,
		0o600)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var is syscall.Stat_t
	err = syscall.Fstat(fd, &is)
	if err == nil && is.Mode&syscall.S_IFMT != syscall.S_IFREG {
		err = errRegular
	}
	if err == nil {
		err = syscall.SetNonblock(fd, false)
	}
	if err != nil {
		syscall.Close(fd)
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil // one that blocks is not polled
}
