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

// longCall is the size of a call, in bytes, above which the scheduler should know of it: it takes
// more than ten microseconds. A read has so much room, and seldom so many bytes.
const longCall = 64 << 10

// call makes a system call that does not wait.
func call(trap uintptr, fd int, arg unsafe.Pointer, n, flags, bytes int) (int, syscall.Errno) {
	if fdtrack.Lost() {
		return 0, unix.EBADF
	}
	for range maxRetriesEINTR {
		var did uintptr
		var errno syscall.Errno
		if bytes <= longCall {
			did, _, errno = unix.RawSyscall6(trap, uintptr(fd), uintptr(arg), uintptr(n),
				uintptr(flags), 0, 0)
		} else {
			did, _, errno = unix.Syscall6(trap, uintptr(fd), uintptr(arg), uintptr(n),
				uintptr(flags), 0, 0)
		}
		if errno != unix.EINTR {
			return int(did), errno
		}
	}
	return 0, unix.EAGAIN
}

// read reads into one piece of memory, or a scatter list: the kernel spends less on one.
func (c *Conn) read(v *Vectors, room int) (int, syscall.Errno) {
	if v.n == 1 {
		return call(unix.SYS_RECVFROM, c.desc, unsafe.Pointer(v.iov[0].Base), room, 0, room)
	}
	return call(unix.SYS_READV, c.desc, unsafe.Pointer(&v.iov), v.n, 0, room)
}

// write writes one piece of memory, or a scatter list. A C program would die of the signal that
// write and writev raise when the peer is gone.
func (c *Conn) write(v *Vectors, bytes int) (int, syscall.Errno) {
	if v.n == 1 {
		return call(unix.SYS_SENDTO, c.desc, unsafe.Pointer(v.iov[0].Base), bytes,
			unix.MSG_NOSIGNAL, bytes)
	}
	v.msg.Iov = &v.iov[0]
	v.msg.SetIovlen(v.n)
	return call(unix.SYS_SENDMSG, c.desc, unsafe.Pointer(&v.msg), unix.MSG_NOSIGNAL, 0, bytes)
}

// Readv reads arrived bytes into a scatter list, in order. 0 bytes and no error: there are none.
//
// Errors: io.EOF if the peer has ended its side; EFAULT if memory is not mapped;
// ECONNRESET, ETIMEDOUT and such if the connection is lost.
func (c *Conn) Readv(v *Vectors, list [][]byte) (int, error) {
	room := v.set(list)
	n, errno := c.read(v, room)
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
	n, errno := c.write(v, v.set(list))
	v.clear()
	switch {
	case errno == unix.EAGAIN:
		return 0, nil
	case errno != 0:
		return 0, errno
	}
	return n, nil
}
