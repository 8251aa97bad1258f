// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// follow serves a connection to the keeper until it ends. Threads that call Read serve it too.
func (m *member) follow(l *link) {
	m.mu.Lock()
	err := l.do(func(int) error { return l.watch.shareReads(l.socket, m.watched) })
	m.mu.Unlock()
	for err == nil {
		var more bool
		if more, err = m.readSome(l); err == nil && !more {
			err = l.wait(time.Time{})
		}
	}
	l.close()
}

// maxFrames bounds the frames that readSome hands on. Strangers may send them faster than this
// process reads them, and its other work must go on.
const maxFrames = 64

// readSome reads frames that are there and hands them on. It reports whether there may be more. The
// error is that of a connection that has ended.
func (m *member) readSome(l *link) (more bool, err error) {
	m.readMu.Lock()
	defer m.readMu.Unlock()
	for _, f := range l.early {
		m.take(f)
	}
	l.early = nil
	for range maxFrames {
		switch f, err := l.receiveNow(); err {
		case nil:
			m.handle(f)
		case unix.EINTR:
		case unix.EAGAIN:
			return false, nil
		default:
			return false, err
		}
	}
	return true, nil
}

// handle hands a frame of the keeper on.
func (m *member) handle(f frame) {
	switch f.Kind {
	case kindMAD:
		m.take(f)
	case kindAnswer:
		m.mu.Lock()
		if c, ok := m.calls[f.ID]; ok {
			delete(m.calls, f.ID)
			m.answeredLocked(c.frame, f)
			c.answer <- f
			f.fds = nil
		}
		m.mu.Unlock()
	}
	closeAll(f.fds)
}

func (m *member) Watch(set int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.watched
	m.watched = append([]int{set}, before...)
	err := m.shareLocked()
	if err != nil { // the caller may close the set
		m.watched = before
	}
	return err
}

func (m *member) Unwatch(set int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watched = slices.DeleteFunc(slices.Clone(m.watched), func(o int) bool { return o == set })
	if m.role == following {
		_ = m.link.do(func(fd int) error { return unix.EpollCtl(set, unix.EPOLL_CTL_DEL, fd, nil) })
	}
	_ = m.shareLocked() // as before
}

// shareLocked has the connection wake the threads that wait for a set of Watch.
func (m *member) shareLocked() error {
	if m.role != following {
		return nil // follow does it
	}
	l := m.link
	return l.do(func(int) error { return l.watch.shareReads(l.socket, m.watched) })
}

func (m *member) Read() (more bool) {
	m.mu.Lock()
	l := m.link
	ok := m.role == following
	m.mu.Unlock()
	if !ok {
		return false
	}
	more, err := m.readSome(l)
	if err != nil {
		l.close() // follow goes on
	}
	return more
}

// take hands a management datagram on.
func (m *member) take(f frame) {
	m.opt.OnMAD(MAD{Src: f.Src, Dst: f.Addr, TOS: f.TOS, Payload: f.Data})
}
