// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"net/netip"

	"verbena/internal/monotime"
	wire "verbena/internal/wire/trp"
)

// refusedWait is the time for which a peer may still be heard of after the network has said that
// its port is unreachable.
const refusedWait = 10 * monotime.Millisecond

// requestTimeout bounds the time for which a Request without a listener is repeated, every
// refusedWait. A program that takes one connection after the other may be without a listener
// between two, as perftest -R is.
const requestTimeout = 500 * monotime.Millisecond

// refusal records the network's refusals since the peer was last heard.
type refusal struct {
	first monotime.Time // monotime.Never: nothing
	probe monotime.Time // when the peer is to be asked whether it is there
}

func (r *refusal) clear() { r.first, r.probe = monotime.Never, monotime.Never }

// HandleRefused takes note that the network says, by ICMP, that nobody has the port
// that a datagram went to: the process that had it has ended, or there was none.
//
// An association does not end by one such message: two are needed, some time apart, without traffic
// from the peer between them. So a forged one does no harm where the peer is alive. A Request is
// sent again for requestTimeout.
//
// Source: RFC 1122, 4.1.3.3; RFC 5461, 4 for TCP in the same place.
func (c *Conn) HandleRefused(now monotime.Time, at netip.AddrPort) {
	if at != c.peer {
		return
	}
	c.count.By[PeerRefused]++
	r := &c.refused
	switch {
	case c.state == ReqSent && r.first == monotime.Never:
		r.first, r.probe = now, now.Add(refusedWait)
	case c.state == ReqSent && now.Sub(r.first) < requestTimeout:
		r.probe = min(r.probe, now.Add(refusedWait))
	case c.state == ReqSent:
		c.raise(Event{Kind: EventUnreachable, Reason: Refused})
		c.finish()
	case c.state == FinSent: // nobody is left to answer it
		c.over(now, LocalClose)
	case !open.Has(c.state):
	case r.first == monotime.Never:
		r.first, r.probe = now, now.Add(refusedWait)
	case now.Sub(r.first) >= refusedWait:
		c.fail(now, Refused)
	}
}

// probeRefused asks a peer, that may have gone or not have come, whether it is
// there.
func (c *Conn) probeRefused() {
	c.refused.probe = monotime.Never
	if c.state == ReqSent {
		c.count.By[SetupRepeated]++
		c.owed = wire.Request
		return
	}
	c.alive.due = true
}
