// SPDX-License-Identifier: BSD-2-Clause

package ntb

import (
	"verbena/internal/engine"
	"verbena/internal/monotime"
	"verbena/internal/ntb/backend"
)

// TryPoll implements engine.Input: it reads the peers' writes.
func (l *Device) TryPoll(mayDelayAck bool) (messages int) {
	if !l.mu.TryLock() {
		return engine.Busy
	}
	tell := false
	for _, x := range l.all {
		k, news := x.receive(mayDelayAck)
		messages += k
		tell = tell || news
	}
	if tell {
		l.deliverUnlock()
	} else {
		l.mu.Unlock()
	}
	return messages
}

const (
	openTimeout = 10 * monotime.Second
	// dialPause spaces the tries to reach a peer that is not there; the original
	// takes 2 s, between hosts.
	dialPause = 100 * monotime.Millisecond
	// failPause spaces them where the system refuses.
	failPause = monotime.Second
)

// reopen begins to open a link. It has a goroutine of its own for as long as the peer takes to
// come: no polling or posting thread waits for it. A hub has one for as long as it is open.
func (l *Device) reopen() {
	l.opening.Add(1)
	if l.Shared() {
		go l.meet()
		return
	}
	go l.connect()
}

func (l *Device) connect() {
	defer l.opening.Done()
	for l.wanted() {
		link, err := l.opener.Open(openTimeout)
		switch {
		case err == nil:
			l.attach(link)
			return
		case err == backend.ErrTimeout:
		case err == backend.ErrGone:
			return
		case backend.Temporary(err):
			l.opener.Pause(dialPause)
		default:
			l.countRefusal()
			l.opener.Pause(failPause)
		}
	}
}

func (l *Device) wanted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.closed
}

func (l *Device) countRefusal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused++
}

// attach gives the node a link that was opened.
func (l *Device) attach(link backend.Link) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		link.Close()
		return
	}
	now := monotime.Now()
	l.home.attach(now, link)
	l.home.leaveUnlock(now)
	// It may be asleep already, without having said so to this peer.
	l.eng.WakeBackground()
}

// Arm implements engine.Sleeper: it makes the peers ring for everything they write from now on.
func (l *Device) Arm(now monotime.Time) (until monotime.Time, quiet bool) {
	l.mu.Lock()
	until, quiet = monotime.Never, true
	for _, x := range l.all {
		look, still := x.arm(now)
		until, quiet = min(until, look), quiet && still
	}
	l.deliverUnlock()
	return until, quiet
}

// Waiting implements engine.Sleeper. It sends messages that the last polling thread left for peers.
func (l *Device) Waiting() bool {
	if !l.mu.TryLock() {
		return false
	}
	defer l.mu.Unlock()
	for _, x := range l.all {
		if x.node.Owes() {
			x.node.Settle()
			x.flush(monotime.Now())
		}
	}
	for _, x := range l.all {
		if x.link != nil && (!x.node.Channel().Quiet() || x.node.Marked()) {
			return true
		}
	}
	return false
}
