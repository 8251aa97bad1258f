// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/ntb/channel"
	"verbena/internal/ntb/window"
	wire "verbena/internal/wire/ntb"
)

// tcp is a link through a stream.
type tcp struct {
	f         fd
	backing   *backing
	ours      bool // backing goes with the link
	own       *window.Window
	peerBytes uint64

	out  []byte // not taken by the socket
	sent int    // bytes of out that are

	in   []byte // room for arrived bytes
	head []byte // of a message, as far as it has come
	m    wire.Message
	left uint64 // bytes of m that have not come
	word [8]byte
	have int
}

// listenTCP waits for peers at an address. open makes the link of a peer that has
// greeted.
func listenTCP(at netip.AddrPort, windowBytes uint64, who admission,
	open func(fd, uint64) (Link, error)) (*Listener, error) {
	family, sa := address(at)
	f, err := listen(family, unix.SOCK_STREAM, sa)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("%w: %v", ErrInUse, at)
	}
	if err != nil {
		return nil, err
	}
	return &Listener{f: f, cancel: none, windowBytes: windowBytes, admission: who, open: open}, nil
}

// dialTCP connects and greets, for as long as stop is not readable.
func dialTCP(at netip.AddrPort, windowBytes uint64, secret []byte, stop fd, d time.Duration) (f fd,
	peerBytes uint64, err error) {
	family, sa := address(at)
	if f, err = connect(family, unix.SOCK_STREAM, sa, stop, d); err != nil {
		return none, 0, err
	}
	g, err := newGreeting(f, windowBytes, false, secret)
	if err == nil {
		err = g.run(stop)
	}
	if err != nil {
		f.close()
		return none, 0, err
	}
	return f, g.theirs.WindowBytes, nil
}

// newTCP makes a link of a stream whose ends have greeted.
func newTCP(f fd, own *backing, peerBytes uint64) *tcp {
	return &tcp{f: f, backing: own, own: own.w, peerBytes: peerBytes, in: make([]byte, 256<<10)}
}

// read returns 0 bytes if there are none for now.
func read(f fd, b []byte) (int, error) {
	n, err := unix.Read(int(f), b)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return 0, nil
	case err != nil, n == 0:
		return 0, ErrLost
	}
	return n, nil
}

func (l *tcp) Own() *window.Window { return l.own }
func (l *tcp) PeerBytes() uint64   { return l.peerBytes }
func (l *tcp) Ring()               {}
func (l *tcp) FDs() []int          { return []int{int(l.f)} }

func (l *tcp) Close() error {
	l.f.close()
	if l.ours {
		l.backing.close()
	}
	return nil
}

func (l *tcp) Write(b *channel.Batch) error {
	var fault error
	l.out, fault = b.AppendStream(l.out)
	if _, err := l.Flush(); err != nil {
		return err
	}
	return fault
}

func (l *tcp) Flush() (pending bool, err error) {
	for l.sent < len(l.out) {
		n, err := unix.SendmsgN(int(l.f), l.out[l.sent:], nil, nil, unix.MSG_NOSIGNAL)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return true, nil
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return false, ErrLost
		default:
			l.sent += n
		}
	}
	l.out, l.sent = l.out[:0], 0
	return false, nil
}

// maxReads bounds one Receive, so that a peer that writes on and on does not
// keep its caller.
const maxReads = 16

func (l *tcp) Receive() error {
	for range maxReads {
		n, err := read(l.f, l.in)
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		if err := l.take(l.in[:n]); err != nil {
			return err
		}
		if n < len(l.in) {
			return nil
		}
	}
	return nil
}

// take carries out arrived data: bytes as they come, words when they are whole.
func (l *tcp) take(b []byte) error {
	for len(b) > 0 {
		if l.left == 0 {
			n := min(wire.MessageBytes-len(l.head), len(b))
			l.head, b = append(l.head, b[:n]...), b[n:]
			if len(l.head) < wire.MessageBytes {
				return nil
			}
			var ok bool
			l.m, _, ok = wire.ParseMessage(l.head)
			if !ok || !l.own.Contains(l.m.To, l.m.Bytes) {
				return ErrProtocol
			}
			l.head, l.left, l.have = l.head[:0], l.m.Bytes, 0
			continue
		}
		n := int(min(l.left, uint64(len(b))))
		piece := b[:n]
		b = b[n:]
		if l.m.Bytes == 4 || l.m.Bytes == 8 {
			l.have += copy(l.word[l.have:], piece)
			if l.left -= uint64(n); l.left > 0 {
				continue
			}
			piece = l.word[:l.have]
		} else {
			l.left -= uint64(n)
		}
		if !channel.Take(l.own, l.m, piece) {
			return ErrProtocol
		}
		l.m.To += uint64(len(piece))
	}
	return nil
}

func (l *tcp) Wait(d time.Duration) error {
	events := int16(unix.POLLIN)
	if l.sent < len(l.out) {
		events |= unix.POLLOUT
	}
	if err := await(l.f, events, none, d); err != nil && err != ErrTimeout {
		return err
	}
	return nil
}
