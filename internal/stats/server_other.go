// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package stats

import (
	"io"
	"net"
	"time"

	"verbena/internal/sys/fdtrack"
)

// listener is a socket of package net.
type listener struct{ unix *net.UnixListener }

func listen(path string) (*listener, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	unix := l.(*net.UnixListener)
	unix.SetUnlinkOnClose(false) // its name is another by then
	fdtrack.AddConn(unix)
	return &listener{unix}, nil
}

// accept blocks until somebody asks, or end is called.
func (l *listener) accept() (io.ReadWriteCloser, error) {
	conn, err := l.unix.Accept()
	if err == nil {
		conn.SetDeadline(time.Now().Add(replyTimeout))
	}
	return conn, err
}

// limitWrite bounds the next Write.
func limitWrite(conn io.Writer, d time.Duration) {
	if c, ok := conn.(net.Conn); ok {
		c.SetWriteDeadline(time.Now().Add(d))
	}
}

// shutdown has reads and writes of a connection end, those under way too.
func shutdown(conn io.Closer) {
	if c, ok := conn.(net.Conn); ok {
		c.SetDeadline(time.Unix(1, 0))
	}
}

// end has accept fail.
func (l *listener) end() bool {
	fdtrack.RemoveConn(l.unix)
	l.unix.Close()
	return true
}

func (l *listener) close() error { return nil }

// ownUser reports true: other users may not enter the directory of the socket.
func ownUser(io.ReadWriteCloser) bool { return true }
