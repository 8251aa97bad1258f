package ibcm

import (
	"net/netip"

	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// A REQ and a SIDR_REQ come in one packet, from an address that may be forged. Until
// something has come back that only the peer at the address can know, a request is
// unproven:
//
//	a few                     the application hears of them at once, as there is no
//	                          attack; they may cost it a queue pair each
//	those beyond (held.go)    cost a place in a table until the peer has answered a
//	                          probe; the application hears of them then
//
// Each lasts for unprovenLife at most, and gets a few MADs, whatever time-outs the
// request names.
const (
	// maxUnproven is how many requests the application may hear of, of which nothing
	// proves that the peer exists: no server's clients wait longer than for a round
	// trip, and an application that makes queue pairs for all has little to bear.
	maxUnproven = 16
	// maxUnprovenOfOne is how many of them may name one address.
	maxUnprovenOfOne = 4

	// An unproven peer gets the REP, and gets it again after pauses, each twice the one
	// before. While the application has not answered it gets probes, after as many
	// pauses that grow shorter: most applications have answered before the first. Over
	// a network that loses one in ten either fails once in 4,000 times.
	unprovenPause   = 500 * monotime.Millisecond
	unprovenRetries = 4
	unprovenLife    = unprovenPause * (2<<unprovenRetries - 1) // 15.5 s

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
	return a.unproven < maxUnproven && a.unprovenOf[from] < maxUnprovenOfOne && l.waiting < l.backlog/2
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
	a.unproven++
	a.unprovenOf[plainAddr(c.path.Remote)]++
	a.pauses(now, c, unprovenPause<<unprovenRetries)
}

// pauses starts the pauses between MADs to an unproven peer.
func (a *Agent) pauses(now monotime.Time, c *conn, first monotime.Duration) {
	c.retries, c.pause = unprovenRetries, first
	a.timers.set(c, now.Add(first))
}

// nextPause returns how long to wait after a MAD was sent again.
func (c *conn) nextPause() monotime.Duration {
	switch {
	case !c.unproven:
		return c.interval
	case inBacklog.has(c.state):
		c.pause /= 2
	default:
		c.pause *= 2
	}
	return c.pause
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
	a.unproven--
	from := plainAddr(c.path.Remote)
	if a.unprovenOf[from]--; a.unprovenOf[from] == 0 {
		delete(a.unprovenOf, from)
	}
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

// proves takes a DREP that answers a probe of a request: the peer exists.
func (a *Agent) proves(now monotime.Time, path Path, tid uint64, m *cm.DREP) bool {
	c := a.byLocal[m.RemoteCommID]
	if c != nil && c.unproven && c.probe == tid && plainAddr(c.path.Remote) == plainAddr(path.Remote) {
		a.prove(c)
		return true
	}
	h, ok := a.holding.take(now, path, tid)
	if ok {
		a.handleRequest(now, path, h.mad[:], true)
	}
	return ok
}
