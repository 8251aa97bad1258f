// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"verbena/internal/monotime"
	"verbena/internal/ntb/backend"
)

// tryPoll looks at what peers have written.
func (l *NTB) tryPoll(patience bool) (messages int) {
	if !l.mu.TryLock() {
		return busy
	}
	tell := false
	for _, x := range l.all {
		k, news := x.receive(patience)
		messages += k
		tell = tell || news
	}
	if tell {
		l.deliver()
	} else {
		l.mu.Unlock()
	}
	return messages
}

const (
	openPatience = 10 * monotime.Second
	// dialPause spaces the tries to reach a peer that is not there; the original
	// takes 2 s, between hosts.
	dialPause = 100 * monotime.Millisecond
	// failPause spaces them where the system refuses.
	failPause = monotime.Second
)

// reopen begins to open a link. It has a goroutine of its own for as long as the
// peer takes to come: nobody who polls or posts waits for it. A meeting place has
// one for as long as it is open.
func (l *NTB) reopen() {
	l.opening.Add(1)
	if l.Shared() {
		go l.meet()
		return
	}
	go l.connect()
}

func (l *NTB) connect() {
	defer l.opening.Done()
	for l.wanted() {
		link, err := l.opener.Open(openPatience)
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

func (l *NTB) wanted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.closed
}

func (l *NTB) countRefusal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused++
}

// attach gives the node a link that was opened.
func (l *NTB) attach(link backend.Link) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		link.Close()
		return
	}
	now := monotime.Now()
	l.home.plug(now, link)
	l.home.leave(now)
	// It may be asleep already, without having said so to this peer.
	l.eng.bg.wake()
}

// armLinks has the peers ring for what comes from now on: the background goroutine
// is about to sleep. It returns until when it may, or false if something is there.
func (e *Engine) armLinks(now monotime.Time) (until monotime.Time, ok bool) {
	until = monotime.Never
	for _, l := range e.links() {
		look, quiet := l.arm(now)
		if !quiet {
			return 0, false
		}
		until = min(until, look)
	}
	return until, true
}

func (l *NTB) arm(now monotime.Time) (until monotime.Time, quiet bool) {
	l.mu.Lock()
	until, quiet = monotime.Never, true
	for _, x := range l.all {
		look, still := x.arm(now)
		until, quiet = min(until, look), quiet && still
	}
	l.deliver()
	return until, quiet
}

// waiting reports whether a peer has written something that nobody has looked
// at. What is owed to peers by who polled last is sent.
func (l *NTB) waiting() bool {
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
