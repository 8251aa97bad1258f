// SPDX-License-Identifier: BSD-2-Clause

package ntb

import (
	"verbena/internal/engine"
	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
	"verbena/internal/ntb/backend"
	"verbena/internal/ntb/channel"
	"verbena/internal/ntb/rdma"
	"verbena/internal/ntb/window"
	"verbena/internal/sys/entropy"
)

// peerLink is a link of a device, and the node on it.
type peerLink struct {
	// immutable after newLink
	dev  *Device
	node *rdma.Node
	peer backend.Member // of a hub

	alarm engine.Alarm

	// guarded by Device.mu
	link     backend.Link     // nil while there is none
	session  *backend.Session // of a hub: has our window
	fds      []int            // of the link, which the poller waits for
	pending  bool             // the link has not taken all
	armed    monotime.Time    // when the timer heap will wake us, at the latest
	graceEnd monotime.Time    // of a link that is lost: see lossGrace
	down     downtime         // of a hub
	queued   bool             // in Device.news
	over     bool             // of a hub: lost for good

	pauses pauses // of the background goroutine alone
}

func (l *Device) newLink() *peerLink {
	x := &peerLink{dev: l, node: rdma.New(l.keys, entropy.Uint64), armed: monotime.Never,
		graceEnd: monotime.Never}
	x.alarm = engine.NewAlarm(x.timeout)
	return x
}

// leaveUnlock writes pending output, sets the timer, delivers events and unlocks.
func (x *peerLink) leaveUnlock(now monotime.Time) {
	x.turn(now)
	x.dev.deliverUnlock()
}

// turn is leaveUnlock without the telling, which is to follow.
func (x *peerLink) turn(now monotime.Time) {
	x.flush(now)
	x.setTimer()
	x.note()
}

// note makes deliver look for events.
func (x *peerLink) note() {
	if !x.queued {
		x.queued = true
		x.dev.news = append(x.dev.news, x)
	}
}

// flush writes the node's output, as far as the link takes it.
func (x *peerLink) flush(now monotime.Time) {
	batch := x.dev.batch
	for x.link != nil {
		var err error
		if x.pending, err = x.link.Flush(); x.pending {
			return
		}
		rung := false
		if err == nil {
			if !x.node.PollOutput(now, batch) {
				return
			}
			rung = batch.Rung()
			err = x.link.Write(batch)
			batch.Reset()
		}
		switch {
		case err == channel.ErrFault:
			x.node.HandleFault(now)
		case err != nil:
			x.lose(now, err)
			return
		}
		if rung && x.node.Channel().MustWake() {
			x.link.Ring()
		}
	}
}

// setTimer has us woken when the node wants to be.
func (x *peerLink) setTimer() {
	when := min(x.node.NextTimeout(), x.graceEnd)
	if x.pending {
		when = min(when, monotime.Now().Add(policy.LinkLastLook))
	}
	if when.Before(x.armed) {
		x.armed = when
		x.dev.eng.Arm(&x.alarm, when)
	}
}

// timeout is the timer heap's call.
func (x *peerLink) timeout(now monotime.Time) {
	l := x.dev
	l.mu.Lock()
	x.armed = monotime.Never
	if l.closed || x.over {
		l.mu.Unlock()
		return
	}
	if x.link != nil {
		if err := x.link.Receive(); err != nil {
			x.lose(now, err)
		}
	}
	x.giveUp(now)
	if !now.Before(x.graceEnd) {
		x.handleLoss(now)
	}
	if !now.Before(x.node.NextTimeout()) {
		x.node.HandleTimeout(now)
	}
	x.leaveUnlock(now)
}

// receive reads the peer's writes, and returns the number of messages; news says that deliver must
// follow. With mayDelayAck, over shared memory, that is one read of memory.
func (x *peerLink) receive(mayDelayAck bool) (messages int, news bool) {
	if x.link == nil {
		return 0, false
	}
	var err error
	if !mayDelayAck { // a thread that was woken: its doorbell is to be silent again
		err = x.link.Wait(0)
	}
	if err == nil {
		err = x.link.Receive()
	}
	if err == nil && x.node.Channel().Quiet() {
		k := x.node.Take()
		if !mayDelayAck || k == 0 {
			// a polling thread that found something may answer, and confirm with it that all is
			// done
			x.node.Settle()
		}
		if news = x.node.Pending() || x.node.Events(); news {
			x.turn(monotime.Now())
		}
		return k, news
	}
	now := monotime.Now()
	if err != nil {
		x.lose(now, err)
	} else {
		x.node.Handle(now)
	}
	x.turn(now)
	return 1, true
}

// attach gives the node a link that was opened.
func (x *peerLink) attach(now monotime.Time, link backend.Link) {
	l := x.dev
	x.link, x.down = link, downtime{now.Add(upTimeout)}
	for _, fd := range link.FDs() {
		if err := l.eng.Poller().AddDescriptor(fd, 0); err != nil {
			l.eng.CountReadError()
			continue
		}
		x.fds = append(x.fds, fd)
	}
	if near, ok := link.(interface{ Peer() window.Far }); ok {
		x.node.Reach(near.Peer())
	}
	x.node.Channel().Watched = l.Shared() // the socket of the meeting ends with the peer's process
	x.node.Attach(now, link.Own(), link.PeerBytes())
	x.node.Handle(now)
}

// lose gives up a link that is lost, and goes for the next one.
func (x *peerLink) lose(now monotime.Time, why error) {
	x.detach(now)
	x.dev.dead = x.dev.dead || why == backend.ErrGone
	x.graceEnd = now.Add(lossGrace)
}

// lossGrace is the time after the loss of a link for which nothing is flushed. A peer that has
// ended in peace has answered all requests. An application that learns of its last completion ends
// too, and is not to find failed receives beside it.
const lossGrace = 200 * monotime.Millisecond

// handleLoss flushes the work of a link that is lost, and begins to open the next one. In a hub
// there is no next one: the slot's next owner is another process.
func (x *peerLink) handleLoss(now monotime.Time) {
	l := x.dev
	x.graceEnd = monotime.Never
	l.handlers.keep(x, now)
	up := x.node.Up()
	x.node.Detach(now)
	if l.Shared() {
		if !up { // work that waited for it to come up is not notified by Detach
			x.node.LinkDown(now)
		}
		x.over = true
		return
	}
	l.reopen()
}

// upTimeout bounds the time that a living member of a hub may take to answer. One that takes longer
// is stopped, or does not understand us.
const upTimeout = 5 * monotime.Second

// downtime notes when a link that is not up is to be given up.
type downtime struct{ until monotime.Time }

// over reports whether a link has not been up for upTimeout. The time begins when a look finds it
// not up, and not at the last look before. A process that was stopped finds that its peer has ended
// the session, and the two bring the link up again.
func (d *downtime) over(now monotime.Time, up bool) bool {
	switch {
	case up:
		d.until = monotime.Never
	case d.until == monotime.Never:
		d.until = now.Add(upTimeout)
	}
	return !now.Before(d.until)
}

// giveUp gives up a link of a hub that does not come up, so that the work posted for its peer is
// flushed. The next use opens another link. It is called with each heartbeat.
func (x *peerLink) giveUp(now monotime.Time) {
	if x.link != nil && x.dev.Shared() && x.down.over(now, x.node.Up()) {
		x.lose(now, backend.ErrLost)
	}
}

// detach closes the link. The peer's earlier writes are handled: the last may be the answer of a
// process that has ended.
func (x *peerLink) detach(now monotime.Time) {
	if x.link == nil {
		return
	}
	for _, fd := range x.fds {
		_ = x.dev.eng.Poller().RemoveDescriptor(fd) // it is there: attach put it there
	}
	x.node.Handle(now)
	x.node.Reach(window.Far{})
	x.link.Close()
	x.link, x.fds, x.pending = nil, nil, false
}

// free gives back our window of a link of a hub: the node has left it.
func (x *peerLink) free() {
	if x.session != nil {
		x.session.Free()
		x.session = nil
	}
}

// arm makes the peer ring for everything it writes from now on.
func (x *peerLink) arm(now monotime.Time) (until monotime.Time, quiet bool) {
	if x.link == nil {
		return monotime.Never, true
	}
	ch := x.node.Channel()
	until = monotime.Never
	x.node.Settle()
	if len(x.fds) > 0 {
		ch.Sleep()
	} else {
		until = now.Add(x.pauses.next(uint64(ch.Seen()) + x.node.Takes()))
	}
	x.flush(now)
	quiet = x.link == nil || ch.Quiet() && !x.node.Marked()
	x.setTimer()
	x.note()
	return until, quiet
}
