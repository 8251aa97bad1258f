package engine

import (
	"verbena/internal/monotime"
	"verbena/internal/ntb/window"
	"verbena/internal/osio/bridge"
)

// tryPoll looks at what the peer has written. For who polls with patience that is
// a look at memory, where memory is what joins the windows.
func (l *NTB) tryPoll(patience bool) int {
	if !l.mu.TryLock() {
		return busy
	}
	if l.link == nil {
		l.mu.Unlock()
		return 0
	}
	var err error
	if !patience { // who was woken: what woke it is to be silent again
		err = l.link.Wait(0)
	}
	if err == nil {
		err = l.link.Receive()
	}
	if err == nil && l.node.Channel().Quiet() {
		k := l.node.Take()
		if !patience || k == 0 { // who polled and found something may answer, and tell with it that all is done
			l.node.Settle()
		}
		if l.node.Pending() || l.node.Events() {
			l.leave(monotime.Now())
		} else {
			l.mu.Unlock()
		}
		return k
	}
	now := monotime.Now()
	if err != nil {
		l.lose(now, err)
	} else {
		l.node.Handle(now)
	}
	l.leave(now)
	return 1
}

// lose gives up a link that is lost, and goes for the next one.
func (l *NTB) lose(now monotime.Time, why error) {
	l.unplug(now)
	l.dead = l.dead || why == bridge.ErrGone
	l.graceEnd = now.Add(lossGrace)
}

// lossGrace is how long after a link is lost nothing is flushed. A peer that has
// ended in peace has answered all there was, and an application that learns of its last
// completion ends too: it is not to find beside it that receives failed.
const lossGrace = 200 * monotime.Millisecond

// mourn flushes what was on a link that is lost, and goes for the next one.
func (l *NTB) mourn(now monotime.Time) {
	l.graceEnd = monotime.Never
	l.takers.keep(l, now)
	l.node.Detach(now)
	l.reopen()
}

// unplug closes the link. What the peer had written before is handled: it may be
// the last answer of a process that has ended.
func (l *NTB) unplug(now monotime.Time) {
	if l.link == nil {
		return
	}
	for _, fd := range l.fds {
		_ = l.eng.bg.poller.RemoveDescriptor(fd) // it is there: attach put it there
	}
	l.node.Handle(now)
	l.node.Reach(window.Far{})
	l.link.Close()
	l.link, l.fds, l.pending = nil, nil, false
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
// peer takes to come: nobody who polls or posts waits for it.
func (l *NTB) reopen() {
	l.opening.Add(1)
	go l.open()
}

func (l *NTB) open() {
	defer l.opening.Done()
	for l.wanted() {
		link, err := l.opener.Open(openPatience)
		switch {
		case err == nil:
			l.attach(link)
			return
		case err == bridge.ErrTimeout:
		case err == bridge.ErrGone:
			return
		case bridge.Temporary(err):
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
func (l *NTB) attach(link bridge.Link) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		link.Close()
		return
	}
	now := monotime.Now()
	l.link = link
	for _, fd := range link.FDs() {
		if err := l.eng.bg.poller.AddDescriptor(fd, 0); err != nil {
			l.eng.wire.readErrors.Add(1)
			continue
		}
		l.fds = append(l.fds, fd)
	}
	if near, ok := link.(interface{ Peer() window.Far }); ok {
		l.node.Reach(near.Peer())
	}
	l.node.Attach(now, link.Own(), link.PeerBytes())
	l.node.Handle(now)
	l.leave(now)
	// It may be asleep already, without having said so to this peer.
	l.eng.bg.wake()
}

// Bounds of how soon the background goroutine looks again at a link that cannot
// wake it.
const (
	firstLook = 20 * monotime.Microsecond
	lastLook  = monotime.Millisecond
)

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
	if l.link == nil {
		l.mu.Unlock()
		return monotime.Never, true
	}
	ch := l.node.Channel()
	until = monotime.Never
	l.node.Settle()
	if len(l.fds) > 0 {
		ch.Sleep()
	} else {
		if seen := uint64(ch.Seen()) + l.node.Takes(); seen != l.heard {
			l.heard, l.pause = seen, firstLook
		}
		until = now.Add(l.pause)
		l.pause = min(2*l.pause, lastLook)
	}
	l.flush(now)
	quiet = l.link == nil || ch.Quiet() && !l.node.Marked()
	l.setTimer()
	l.deliver()
	return until, quiet
}

// waiting reports whether the peer has written something that nobody has looked
// at. What is owed to the peer by who polled last is sent.
func (l *NTB) waiting() bool {
	if !l.mu.TryLock() {
		return false
	}
	if l.node.Owes() {
		l.node.Settle()
		l.flush(monotime.Now())
	}
	defer l.mu.Unlock()
	return l.link != nil && (!l.node.Channel().Quiet() || l.node.Marked())
}
