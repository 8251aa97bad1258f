// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"io"
	"os"
	"syscall"
	"time"

	"verbena/internal/sys/fdtrack"
)

// listener is a plain descriptor: package net would start the Go runtime's
// poller, which an application that closes all descriptors would close, and the
// runtime ends the process then.
type listener struct {
	fd   int
	is   syscall.Stat_t
	path string
}

func listen(path string) (*listener, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	l := &listener{fd: fd, path: path}
	if err = syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err == nil {
		err = syscall.Listen(fd, syscall.SOMAXCONN)
	}
	if err == nil {
		err = syscall.Fstat(fd, &l.is)
	}
	if err != nil {
		syscall.Close(fd)
		return nil, &os.PathError{Op: "listen", Path: path, Err: err}
	}
	fdtrack.Add(fd)
	return l, nil
}

// accept blocks until somebody asks, or end is called.
func (l *listener) accept() (io.ReadWriteCloser, error) {
	for {
		if fdtrack.Check() {
			return nil, os.ErrClosed
		}
		fd, _, err := syscall.Accept4(l.fd, syscall.SOCK_CLOEXEC)
		switch err {
		case nil:
			setTimeout(fd, syscall.SO_SNDTIMEO, replyTimeout)
			setTimeout(fd, syscall.SO_RCVTIMEO, replyTimeout)
			return os.NewFile(uintptr(fd), l.path), nil // one that blocks is not polled
		case syscall.EINTR, syscall.ECONNABORTED:
		default:
			return nil, os.NewSyscallError("accept4", err)
		}
	}
}

func setTimeout(fd, option int, d time.Duration) {
	timeout := syscall.NsecToTimeval(int64(max(d, time.Microsecond))) // 0 is for ever
	_ = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, option, &timeout)
}

// limitWrite bounds the wait for room of the next Write.
func limitWrite(conn io.Writer, d time.Duration) {
	if f, ok := conn.(*os.File); ok {
		setTimeout(int(f.Fd()), syscall.SO_SNDTIMEO, d)
	}
}

// shutdown has reads and writes of a connection end, those under way too.
func shutdown(conn io.Closer) {
	if f, ok := conn.(*os.File); ok {
		_ = syscall.Shutdown(int(f.Fd()), syscall.SHUT_RDWR)
	}
}

// end has accept fail. It is false if the application has closed the descriptor
// behind our back, and may have another under its number: accept goes on then.
func (l *listener) end() bool {
	var now syscall.Stat_t
	if syscall.Fstat(l.fd, &now) != nil || now.Dev != l.is.Dev || now.Ino != l.is.Ino {
		return false
	}
	return syscall.Shutdown(l.fd, syscall.SHUT_RDWR) == nil
}

func (l *listener) close() error {
	return os.NewSyscallError("close", fdtrack.Close(l.fd))
}

// ownUser reports whether the process at the other end of a connection is of this one's user.
func ownUser(conn io.ReadWriteCloser) bool {
	f, ok := conn.(*os.File)
	if !ok {
		return false
	}
	peer, err := syscall.GetsockoptUcred(int(f.Fd()), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	return err == nil && int(peer.Uid) == os.Geteuid()
}
