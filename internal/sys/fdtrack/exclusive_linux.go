// SPDX-License-Identifier: BSD-2-Clause

package fdtrack

import (
	"errors"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Exclusive is a file that the process makes: never one that was there before, nor the
// target of a symbolic link. It is opened by one goroutine at a time.
type Exclusive struct {
	Path string

	made     bool
	identity unix.Stat_t // of the file, once made
}

// Open makes the file, or opens one that this process made before to append to it.
func (e *Exclusive) Open() (io.WriteCloser, error) {
	fd, err := e.open()
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: e.Path, Err: err}
	}
	Add(fd)
	return file{fd}, nil
}

func (e *Exclusive) open() (int, error) {
	const flags = unix.O_WRONLY | unix.O_APPEND | unix.O_NOFOLLOW | unix.O_CLOEXEC
	if e.made {
		// a FIFO in its place must not hold us
		fd, err := unix.Open(e.Path, flags|unix.O_NONBLOCK, 0)
		if !errors.Is(err, unix.ENOENT) {
			return e.same(fd, err)
		}
	}
	fd, err := unix.Open(e.Path, flags|unix.O_CREAT|unix.O_EXCL, 0o666)
	if err != nil {
		return -1, err
	}
	if err := unix.Fstat(fd, &e.identity); err != nil {
		unix.Close(fd)
		return -1, err
	}
	e.made = true
	return fd, nil
}

// same returns fd if it is of the file that was made.
func (e *Exclusive) same(fd int, err error) (int, error) {
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && (st.Dev != e.identity.Dev || st.Ino != e.identity.Ino) {
		err = unix.EEXIST
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
