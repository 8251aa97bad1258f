// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package tcp

import (
	"io"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
)

// maxVectors is UIO_MAXIOV: the longest scatter list the kernel takes.
const maxVectors = 1024

// Vectors is the memory of one system call's scatter list, for one call at a
// time.
type Vectors struct {
	iov [maxVectors]unix.Iovec
	n   int
	msg unix.Msghdr // of Writev
}

// set takes a scatter list, as far as it goes.
func (v *Vectors) set(list [][]byte) (bytes int) {
	for _, p := range list {
		if len(p) == 0 {
			continue
		}
		if v.n == maxVectors {
			break
		}
		v.iov[v.n].Base = unsafe.SliceData(p)
		v.iov[v.n].SetLen(len(p))
		v.n++
		bytes += len(p)
	}
	return bytes
}

// clear forgets the application's memory: a stale pointer to C memory that was
// unmapped is fatal to the garbage collector when it reuses the addresses.
func (v *Vectors) clear() {
	clear(v.iov[:v.n])
	v.n = 0
}

// maxRetriesEINTR bounds how often a call is repeated that a signal has
// interrupted.
const maxRetriesEINTR = 8

// longCall is the size of a call, in bytes, from which on the scheduler should know of
// it: a few microseconds.
const longCall = 32 << 10

// call makes a system call of three arguments that does not wait.
func call(trap uintptr, fd int, arg unsafe.Pointer, last, bytes int) (int, syscall.Errno) {
	if fdtrack.Lost() {
		return 0, unix.EBADF
	}
	for range maxRetriesEINTR {
		var n uintptr
		var errno syscall.Errno
		if bytes <= longCall {
			n, _, errno = unix.RawSyscall(trap, uintptr(fd), uintptr(arg), uintptr(last))
		} else {
			n, _, errno = unix.Syscall(trap, uintptr(fd), uintptr(arg), uintptr(last))
		}
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
	return 0, unix.EAGAIN
}

// Readv reads arrived bytes into a scatter list, in order. 0 bytes and no error: there are none.
//
// Errors: io.EOF if the peer has ended its side; EFAULT if memory is not mapped;
// ECONNRESET, ETIMEDOUT and such if the connection is lost.
func (c *Conn) Readv(v *Vectors, list [][]byte) (int, error) {
	room := v.set(list)
	n, errno := call(unix.SYS_READV, c.desc, unsafe.Pointer(&v.iov), v.n, room)
	v.clear()
	switch {
	case errno == unix.EAGAIN:
		return 0, nil
	case errno != 0:
		return 0, errno
	case n == 0 && room > 0:
		return 0, io.EOF
	}
	return n, nil
}

// Writev writes a scatter list, as much of it as there is room for, which may be
// nothing.
//
// Errors: EFAULT if memory is not mapped; EPIPE, ECONNRESET and such if the
// connection is lost.
func (c *Conn) Writev(v *Vectors, list [][]byte) (int, error) {
	bytes := v.set(list)
	v.msg.Iov = &v.iov[0]
	v.msg.SetIovlen(v.n)
	// A C program would die of the signal that writev raises when the peer is gone.
	n, errno := call(unix.SYS_SENDMSG, c.desc, unsafe.Pointer(&v.msg), unix.MSG_NOSIGNAL, bytes)
	v.clear()
	switch {
	case errno == unix.EAGAIN:
		return 0, nil
	case errno != 0:
		return 0, errno
	}
	return n, nil
}
