package bridge

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/ntb/channel"
	"verbena/internal/ntb/window"
	wire "verbena/internal/wire/ntb"
)

// greetingTime is how long a peer may take for its first bytes.
const greetingTime = 5 * time.Second

// tcp is a link through a stream.
type tcp struct {
	f         fd
	backing   *backing
	ours      bool // backing goes with the link
	own       *window.Window
	peerBytes uint64

	out  []byte // not taken by the socket
	sent int    // bytes of out that are

	in   []byte // room for what is read
	head []byte // of a message, as far as it has come
	m    wire.Message
	left uint64 // bytes of m that have not come
	word [8]byte
	have int
}

// ListenTCP waits for peers at an address.
func ListenTCP(at netip.AddrPort, windowBytes uint64) (*Listener, error) {
	if err := checkBytes(windowBytes); err != nil {
		return nil, err
	}
	return listenTCP(at, func(f fd) (Link, error) { return newOwnTCP(f, windowBytes) })
}

func listenTCP(at netip.AddrPort, open func(fd) (Link, error)) (*Listener, error) {
	family, sa := address(at)
	l, err := listen(family, unix.SOCK_STREAM, sa, open)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("%w: %v", ErrInUse, at)
	}
	return l, err
}

// DialTCP goes to the peer at an address. It tries once: ErrLost if nobody listens.
func DialTCP(at netip.AddrPort, windowBytes uint64, d time.Duration) (Link, error) {
	if err := checkBytes(windowBytes); err != nil {
		return nil, err
	}
	family, sa := address(at)
	f, err := connect(family, unix.SOCK_STREAM, sa, none, d)
	if err != nil {
		return nil, err
	}
	return newOwnTCP(f, windowBytes)
}

func dialTCP(at netip.AddrPort, own *backing, stop fd, d time.Duration) (Link, error) {
	family, sa := address(at)
	f, err := connect(family, unix.SOCK_STREAM, sa, stop, d)
	if err != nil {
		return nil, err
	}
	return newTCP(f, own, stop)
}

// newOwnTCP makes a link with a window of its own.
func newOwnTCP(f fd, windowBytes uint64) (Link, error) {
	own, err := newBacking(windowBytes, false)
	if err != nil {
		f.close()
		return nil, err
	}
	l, err := newTCP(f, own, none)
	if err != nil {
		own.close()
		return nil, err
	}
	l.(*tcp).ours = true
	return l, nil
}

// newTCP exchanges the greetings, for as long as stop is not readable.
func newTCP(f fd, own *backing, stop fd) (Link, error) {
	l := &tcp{f: f, backing: own, own: own.w, in: make([]byte, 256<<10)}
	if err := l.greet(own.w.Len(), stop); err != nil {
		f.close()
		return nil, err
	}
	return l, nil
}

func (l *tcp) greet(windowBytes uint64, stop fd) error {
	if err := unix.SetsockoptInt(int(l.f), unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	l.out = wire.Greeting{WindowBytes: windowBytes}.Append(l.out)
	if _, err := l.Flush(); err != nil {
		return err
	}
	var b []byte
	for end := time.Now().Add(greetingTime); len(b) < wire.GreetingBytes; {
		if err := await(l.f, unix.POLLIN, stop, time.Until(end)); err != nil {
			return err
		}
		n, err := l.read(l.in[:wire.GreetingBytes-len(b)])
		if err != nil {
			return err
		}
		b = append(b, l.in[:n]...)
	}
	g, _, ok := wire.ParseGreeting(b)
	if !ok || checkBytes(g.WindowBytes) != nil {
		return ErrProtocol
	}
	l.peerBytes = g.WindowBytes
	return nil
}

// read returns 0 bytes if there are none for now.
func (l *tcp) read(b []byte) (int, error) {
	n, err := unix.Read(int(l.f), b)
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
		n, err := l.read(l.in)
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

// take carries out what has come: bytes as they come, words when they are whole.
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
