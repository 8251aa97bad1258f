package engine

import (
	"net"

	"verbena/internal/cm/ibcm"
	"verbena/internal/monotime"
	wire "verbena/internal/wire/ntb"
)

// takers are who takes the datagrams of a link. Guarded by NTB.mu.
type takers struct {
	mad, frame func(p []byte)
	buf        []byte   // of the one that delivers
	late       [][]byte // management datagrams of a link that is lost
}

// OnMAD has f called, without locks, with each management datagram that comes, in
// their order; nil ends that. p is f's only until it returns.
func (l *NTB) OnMAD(f func(p []byte)) {
	l.mu.Lock()
	l.takers.mad = f
	l.deliver()
}

// OnFrame is OnMAD of Ethernet frames.
func (l *NTB) OnFrame(f func(p []byte)) {
	l.mu.Lock()
	l.takers.frame = f
	l.deliver()
}

// SendMAD sends a management datagram. It is lost if the link is down, or if the
// peer has no room: ok is false then.
func (l *NTB) SendMAD(p []byte) (ok bool) {
	l.mu.Lock()
	now := monotime.Now()
	ok = l.node.SendMAD(now, p)
	l.leave(now)
	return ok
}

// SendFrame is SendMAD of an Ethernet frame.
func (l *NTB) SendFrame(p []byte) (ok bool) {
	l.mu.Lock()
	now := monotime.Now()
	ok = l.node.SendFrame(now, p)
	l.leave(now)
	return ok
}

// FrameFits reports whether SendFrame would find room for a frame of so many bytes.
func (l *NTB) FrameFits(size int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.node.FrameFits(size)
}

// MaxFrame returns the length of the longest frame that the peer takes, and an
// error while the link is down.
func (l *NTB) MaxFrame() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.node.MaxFrame(); n > 0 {
		return n, nil
	}
	return 0, net.ErrClosed
}

// keep keeps the management datagrams that had come before the link is given up:
// they say why. Their number is bounded by the ring they come from.
func (t *takers) keep(l *NTB, now monotime.Time) {
	for l.node.MADWaits() {
		p := make([]byte, wire.ManagementBytes)
		if n, ok := l.node.PollMAD(now, p); ok {
			t.late = append(t.late, p[:n])
		}
	}
}

// nextLate hands out one datagram that was kept.
func (t *takers) nextLate(l *NTB) bool {
	if len(t.late) == 0 {
		return false
	}
	p := t.late[0]
	t.late = t.late[1:]
	if f := t.mad; f != nil {
		l.mu.Unlock()
		f(p)
		l.mu.Lock()
	}
	return true
}

// refuse answers for a process that uses no connection manager, as Engine.refuse
// does.
func (l *NTB) refuse(now monotime.Time, p []byte) {
	m, _, ok := wire.ParseManagement(p)
	if !ok {
		return
	}
	if d, ok := ibcm.Refuse(ibcm.Path{Local: m.Destination.Addr(), Remote: m.Source.Addr()}, m.MAD); ok {
		answer := wire.Management{Source: m.Destination, Destination: m.Source, MAD: d.MAD[:]}
		l.node.SendMAD(now, answer.Append(nil)) // not sent is as good as lost: the peer asks again
		l.flush(now)
	}
}

// next hands out one datagram; it gives the lock back meanwhile. Management
// datagrams that nobody takes are refused, frames stay where they are.
func (t *takers) next(l *NTB) bool {
	f := t.mad
	mad := l.node.MADWaits()
	switch {
	case mad:
	case t.frame != nil && l.node.FrameWaits():
		f = nil
	default:
		return false
	}
	if t.buf == nil {
		t.buf = make([]byte, wire.MaxFrameBytes)
	}
	now := monotime.Now()
	var n int
	var ok bool
	if mad {
		n, ok = l.node.PollMAD(now, t.buf)
		if ok && f == nil {
			l.refuse(now, t.buf[:n])
			return true
		}
	} else {
		f = t.frame
		n, ok = l.node.PollFrame(now, t.buf)
	}
	l.flush(now) // how far we are
	if ok {
		p := t.buf[:n]
		l.mu.Unlock()
		f(p)
		l.mu.Lock()
	}
	return true
}
