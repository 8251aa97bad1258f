// SPDX-License-Identifier: BSD-2-Clause

package ntb

import (
	"net"

	"verbena/internal/cm/ibcm"
	"verbena/internal/monotime"
	"verbena/internal/ntb/backend"
	wire "verbena/internal/wire/ntb"
)

// handlers take the datagrams of a device. Guarded by Device.mu.
type handlers struct {
	mad, frame func(p []byte)
	buf        []byte   // of the one that delivers
	late       [][]byte // management datagrams of a link that is lost
	refuser    ibcm.Refuser
}

// OnMAD has f called, without locks, with each management datagram that comes, those of
// a link in their order; nil ends that. p is f's only until it returns.
func (l *Device) OnMAD(f func(p []byte)) {
	l.mu.Lock()
	l.handlers.mad = f
	l.noteAllUnlock()
}

// noteAllUnlock has deliverUnlock look at all links.
func (l *Device) noteAllUnlock() {
	for _, x := range l.all {
		x.note()
	}
	l.deliverUnlock()
}

// SendMAD sends a management datagram, as soon as the peer has room. It is lost if the link is
// down, or if too many wait: ok is false then. In a hub it goes to its addressee. Without a link to
// that process it is lost, and a link is opened.
func (l *Device) SendMAD(p []byte) (ok bool) {
	var to []backend.Member
	if l.Shared() {
		to = l.addressees(p)
	}
	l.mu.Lock()
	if !l.Shared() {
		return l.home.sendMADUnlock(p)
	}
	now := monotime.Now()
	for _, m := range to {
		x := l.linkTo(now, m)
		ok = x.node.SendMAD(now, p) || ok
		x.turn(now)
	}
	l.deliverUnlock()
	return ok
}

// SendMADTo is SendMAD to a given process of a hub.
func (l *Device) SendMADTo(m backend.Member, p []byte) (ok bool) {
	l.mu.Lock()
	return l.linkTo(monotime.Now(), m).sendMADUnlock(p)
}

// sendMADUnlock sends a management datagram, and releases the lock.
func (x *peerLink) sendMADUnlock(p []byte) (ok bool) {
	now := monotime.Now()
	ok = x.node.SendMAD(now, p)
	x.leaveUnlock(now)
	return ok
}

// addressees returns the processes that a management datagram is for: the one that listens for its
// service, or the one that has the communication id. A request that no process listens for goes to
// any process, which refuses it.
func (l *Device) addressees(p []byte) (to []backend.Member) {
	d, _, ok := wire.ParseManagement(p)
	if !ok {
		return nil
	}
	self := l.place.Self()
	side := 1 - self.Side
	if l.has(d.Destination.Addr()) {
		side = self.Side
	}
	r := ibcm.RouteOf(d.MAD)
	switch r.Target {
	case ibcm.ToListener:
		if m, found := l.place.Owner(side, uint64(r.ServiceID)); found {
			return append(to, m)
		}
		if side == self.Side {
			return append(to, self)
		}
	case ibcm.ToSlot:
		if m := (backend.Member{Side: side, Slot: int(r.Slot)}); l.place.Present(m) {
			to = append(to, m)
		}
		return to
	case ibcm.ToNobody:
		return nil
	}
	for _, m := range l.place.Members() {
		if m.Side != side {
			continue
		}
		if to = append(to, m.Member); r.Target == ibcm.ToListener {
			break
		}
	}
	return to
}

// frameService is the id that a process claims to carry the frames of its side of a hub. It is no
// service id of the connection manager's.
const frameService = ^uint64(0)

// OnFrame is OnMAD for Ethernet frames. In a hub one process of each side takes them.
//
// Errors: backend.ErrInUse if another process has those of our side.
func (l *Device) OnFrame(f func(p []byte)) error {
	if l.Shared() {
		if f == nil {
			l.place.Unclaim(frameService)
		} else if err := l.place.Claim(frameService); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.handlers.frame = f
	if l.Shared() && f != nil {
		if m, found := l.place.Owner(1-l.Side(), frameService); found {
			l.linkTo(monotime.Now(), m)
		}
	}
	l.noteAllUnlock()
	return nil
}

// noteCarrier notes that a link of a hub leads to the process that carries the other side's frames.
func (l *Device) noteCarrier(x *peerLink, up bool) {
	switch {
	case !l.Shared() || l.handlers.frame == nil:
	case !up && l.carrier == x:
		l.carrier = nil
	case up && x.peer.Side != l.Side():
		if m, found := l.place.Owner(x.peer.Side, frameService); found && m == x.peer {
			l.carrier = x
		}
	}
}

// frames returns the link that frames go over, nil if there is none. It may have
// been up before either of the two carried frames. The caller holds mu.
func (l *Device) frames() *peerLink {
	if l.Shared() && l.carrier == nil && l.handlers.frame != nil {
		for _, x := range l.all {
			if x.node.Up() {
				l.noteCarrier(x, true)
			}
		}
	}
	x := l.carrier
	if !l.Shared() {
		x = l.home
	}
	if x == nil || !x.node.Up() {
		return nil
	}
	return x
}

// Carries reports whether a process takes frames.
func (l *Device) Carries() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.frames() != nil
}

// SendFrame is SendMAD of an Ethernet frame.
func (l *Device) SendFrame(p []byte) (ok bool) {
	l.mu.Lock()
	x := l.frames()
	if x == nil {
		l.mu.Unlock()
		return false
	}
	now := monotime.Now()
	ok = x.node.SendFrame(now, p)
	x.leaveUnlock(now)
	return ok
}

// FrameFits reports whether SendFrame would find room for a frame of so many bytes.
func (l *Device) FrameFits(size int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.frames()
	return x != nil && x.node.FrameFits(size)
}

// MaxFrame returns the length of the longest frame that the peer takes, and an
// error while the link is down.
func (l *Device) MaxFrame() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.frames(); x != nil {
		return x.node.MaxFrame(), nil
	}
	return 0, net.ErrClosed
}

// keep keeps the management datagrams that had come before the link is given up:
// they say why. Their number is bounded by the ring they come from.
func (t *handlers) keep(x *peerLink, now monotime.Time) {
	for x.node.MADWaits() {
		p := make([]byte, wire.ManagementBytes)
		if n, ok := x.node.PollMAD(now, p); ok {
			t.late = append(t.late, p[:n])
		}
	}
}

// nextLate hands out one datagram that was kept.
func (t *handlers) nextLate(l *Device) bool {
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

// refuse answers for a process that uses no connection manager, as roce.Transport.refuse does.
func (x *peerLink) refuse(now monotime.Time, p []byte) {
	m, _, ok := wire.ParseManagement(p)
	if !ok {
		return
	}
	var d ibcm.Datagram
	if x.dev.handlers.refuser.Refuse(ibcm.Path{Local: m.Destination.Addr(),
		Remote: m.Source.Addr()}, m.MAD, &d) {
		answer := wire.Management{Source: m.Destination, Destination: m.Source, MAD: d.MAD[:]}
		x.node.SendMAD(now, answer.Append(nil)) // not sent is as good as lost: the peer asks again
		x.flush(now)
		x.setTimer()
	}
}

// next hands out one datagram of a link; it gives the lock back meanwhile. Management
// datagrams that nobody takes are refused, frames stay where they are.
func (t *handlers) next(x *peerLink) bool {
	f := t.mad
	mad := x.node.MADWaits()
	switch {
	case mad:
	case t.frame != nil && x.node.FrameWaits():
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
		x.dev.eng.Stranger()
		n, ok = x.node.PollMAD(now, t.buf)
		if ok && f == nil {
			x.refuse(now, t.buf[:n])
			return true
		}
	} else {
		f = t.frame
		n, ok = x.node.PollFrame(now, t.buf)
	}
	x.flush(now) // how far we are
	if ok {
		p := t.buf[:n]
		x.dev.mu.Unlock()
		f(p)
		x.dev.mu.Lock()
	}
	return true
}
