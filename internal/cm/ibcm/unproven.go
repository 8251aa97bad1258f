// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"net/netip"
	"slices"

	"verbena/internal/monotime"
)

// A REQ and a SIDR_REQ come in one packet, from an address that may be forged. Until
// something has come back that only the peer at the address can know, a request is
// unproven:
//
//	a few                     the application hears of them at once, as there is no
//	                          attack; they may cost it a queue pair each
//	those beyond (held.go)    cost a place in a table until the peer has shown that it
//	                          has sent them (probe.go); the application hears of them then
//
// Each lasts for seconds, and gets a few MADs, whatever time-outs the request names.
const (
	// maxUnproven is how many requests the application may hear of, of which nothing
	// proves that the peer exists: no server's clients wait longer than for a round
	// trip, and an application that makes queue pairs for all has little to bear.
	maxUnproven = 16
	// maxUnprovenOfOne is how many of them may name one address.
	maxUnprovenOfOne = 4

	// An unproven peer gets the REP, and gets it again after pauses, each twice the one
	// before. Over a network that loses one in ten this fails once in 4,000 times.
	unprovenPause   = 500 * monotime.Millisecond
	unprovenRetries = 4
	unprovenLife    = unprovenPause * (2<<unprovenRetries - 1) // 15.5 s
	// While the application has not answered, the peer is challenged, after pauses that
	// grow shorter: most applications have answered before the first.
	heardPause   = 8 * monotime.Second
	heardRetries = 2
	heardLife    = heardPause + heardPause/2 + heardPause/4 // 14 s

	// rememberFor is how long an answer is remembered, for a peer that asks again: it
	// does so after 4.8 s by default.
	rememberFor = 10 * monotime.Second
	// maxRemembered bounds the answers remembered; the oldest are forgotten first.
	maxRemembered = 4096
)

var remembers = setOf(Rejected, SIDRAnswered)

// mayCome reports whether a listener takes a request of an unproven peer. Half of the
// backlog is for others.
func (a *Agent) mayCome(l *listener, from netip.Addr) bool {
	of := 0
	for _, c := range a.unproven {
		of += count(plainAddr(c.path.Remote) == from)
	}
	return len(a.unproven) < maxUnproven && of < maxUnprovenOfOne && l.waiting < l.backlog/2
}

// enter takes a new request into the backlog. An unproven one has its time from now
// on.
func (a *Agent) enter(now monotime.Time, c *conn, l *listener, proven bool) {
	c.listener, c.waiting = l, true
	l.waiting++
	if proven {
		return
	}
	c.unproven, c.probe = true, a.newProbe()
	a.unproven = append(a.unproven, c)
	a.pauses(now, c, heardPause, heardRetries)
}

// pauses starts the pauses between MADs to a peer whose answer has not come yet.
func (a *Agent) pauses(now monotime.Time, c *conn, first monotime.Duration, retries uint8) {
	c.retries, c.pause = retries, first
	a.timers.set(c, now.Add(first))
}

// nextPause returns how long to wait after a MAD was sent again.
func (c *conn) nextPause() monotime.Duration {
	switch {
	case inBacklog.has(c.state):
		c.pause /= 2
		return c.pause
	case !awaitingReady.has(c.state):
		return c.interval
	}
	c.pause *= 2
	if c.unproven {
		return c.pause
	}
	return min(c.pause, c.interval)
}

// prove notes that the peer of a request exists.
func (a *Agent) prove(c *conn) {
	if !c.unproven {
		return
	}
	a.forgive(c)
	if inBacklog.has(c.state) {
		a.timers.remove(c) // the application may take its time
	}
}

// forgive gives back the place of an unproven request.
func (a *Agent) forgive(c *conn) {
	if !c.unproven {
		return
	}
	c.unproven = false
	i := slices.Index(a.unproven, c)
	a.unproven = slices.Delete(a.unproven, i, i+1)
}

// answered notes that the application has done with a request, by which it leaves the
// backlog. Until then one that has ended counts: the application has it to look at.
func (a *Agent) answered(c *conn) {
	if c.waiting {
		c.waiting = false
		c.listener.waiting--
	}
	if c.state == Closed {
		a.forgive(c)
	}
}

// remember keeps an answer that may be asked for again.
func (a *Agent) remember(now monotime.Time, c *conn) {
	a.timers.set(c, now.Add(rememberFor))
	if len(a.remembered) == maxRemembered {
		oldest := a.remembered[0]
		a.timers.remove(oldest)
		a.close(oldest)
	}
	a.remembered = append(a.remembered, c)
}

// challenged takes a DREP that answers a challenge: the peer has sent the request, or
// denies it.
func (a *Agent) challenged(now monotime.Time, path Path, tid uint64) bool {
	asked, denied := tid&^denial, tid&denial != 0
	h, ok := a.holding.take(now, path, asked)
	switch {
	case ok && denied:
		a.count[Unproven]++
		return true
	case ok:
		a.handleRequest(now, path, h.mad[:], true)
		return true
	}
	for _, c := range a.unproven {
		if c.probe != asked || plainAddr(c.path.Remote) != plainAddr(path.Remote) {
			continue
		}
		if !denied {
			a.prove(c)
		} else if inBacklog.has(c.state) {
			a.count[Unproven]++
			a.close(c)
		}
		return true
	}
	return false
}
