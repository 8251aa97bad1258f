// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"net/netip"
	"slices"

	"verbena/internal/monotime"
	wire "verbena/internal/wire/trp"
)

// How set-up messages are repeated; each interval is twice the one before.
//
// A Request waits for the server's application, and a urdma server takes each
// repetition for another Request: so it is not hurried. The last is given up
// after 15 s. The interval stays at requestMost: three repetitions were all lost in one
// connection of 10,000 where 5 % are lost each way. An Accept is answered by the client's machine.
const (
	requestInterval = monotime.Second
	requestMost     = 2 * monotime.Second
	requestRetries  = 7
	acceptInterval  = 100 * monotime.Millisecond
	acceptRetries   = 6
)

// A server that sends a challenge is no urdma: it tells a repeated Request from another.
const (
	challengedInterval = acceptInterval
	challengedRetries  = acceptRetries
)

// A client that does not announce its window, as urdma, cannot be asked whether it is there: the
// first thing it sends shows that. Its Request may be forged, so it gets few Accepts, and is not
// waited for as long as it likes to be silent.
const (
	plainRetries = 3
	plainTimeout = 60 * monotime.Second
)

// requestLife bounds the time after the first Request in which a repeated one may come: the
// client's retries and the network's delay. A Reject is remembered for as long.
const requestLife = 20 * monotime.Second

// Dial asks the server at an address for an association.
func Dial(now monotime.Time, cfg Config, upper Upper, server netip.AddrPort,
	s wire.Setup) (*Conn, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if len(s.PrivateData) > wire.MaxPrivateBytes {
		return nil, ErrPrivateData
	}
	c := newConn(cfg, true, server)
	c.upper = upper
	c.local = clone(s)
	c.setState(ReqSent)
	c.owed = wire.Request
	c.repeatAfter(now, requestInterval, requestRetries)
	return c, nil
}

func clone(s wire.Setup) wire.Setup {
	s.PrivateData = slices.Clone(s.PrivateData)
	return s
}

// Accept answers the client's Request. The association is established, and segments
// go out, when something of the client has come: an ACK, or from urdma its first
// segment. The initiator of an iWARP connection is to send first, see RFC 5044, 7.
func (c *Conn) Accept(now monotime.Time, upper Upper, s wire.Setup) error {
	if c.state != Requested {
		return ErrState
	}
	if len(s.PrivateData) > wire.MaxPrivateBytes {
		return ErrPrivateData
	}
	c.upper = upper
	c.local = clone(s)
	c.setState(AcceptSent)
	c.owed = wire.Accept
	c.since = now
	retries := acceptRetries
	if !c.telling {
		retries = plainRetries
	}
	c.repeatAfter(now, acceptInterval, retries)
	return nil
}

// Reject refuses the client's Request.
func (c *Conn) Reject(now monotime.Time, privateData []byte) error {
	if c.state != Requested {
		return ErrState
	}
	if len(privateData) > wire.MaxPrivateBytes {
		return ErrPrivateData
	}
	c.reject(now, privateData)
	return nil
}

func (c *Conn) reject(now monotime.Time, privateData []byte) {
	c.local = wire.Setup{PrivateData: slices.Clone(privateData)}
	c.setState(Rejected)
	c.owed = wire.Reject
	c.timer = now.Add(requestLife)
}

// repeatAfter starts the timer of a message that is repeated.
func (c *Conn) repeatAfter(now monotime.Time, d monotime.Duration, retries int) {
	c.interval, c.retries = d, retries
	c.timer = now.Add(d)
}

// again reports whether a message may be repeated once more, and sets the timer
// for the next time.
func (c *Conn) again(now monotime.Time, most monotime.Duration) bool {
	if c.retries == 0 {
		return false
	}
	c.retries--
	c.interval = min(2*c.interval, most)
	c.timer = now.Add(c.interval)
	return true
}

// repeatSetup sends Request or Accept again, or gives up.
func (c *Conn) repeatSetup(now monotime.Time) {
	most := requestLife
	if c.state == ReqSent && c.cookie == 0 {
		most = requestMost
	}
	again := c.again(now, most)
	switch {
	case again:
		c.count.By[SetupRepeated]++
		c.owed = wire.Request
		if !c.active {
			c.owed = wire.Accept
		}
	case c.state == ReqSent:
		c.raise(Event{Kind: EventUnreachable})
		c.finish()
	case !c.telling && now.Sub(c.since) < plainTimeout:
		// it has nothing to say until it has segments to send
		c.timer = c.since.Add(plainTimeout)
	default:
		c.fail(now, Unconfirmed)
	}
}

// handleRequest is for a Request from the port of this association's client:
// one that we have, or, long after it, a new one of a client that has forgotten
// this association.
//
// To the client a Request is a server's challenge: it asks again, with the cookie.
func (c *Conn) handleRequest(now monotime.Time, p *wire.Packet) {
	switch {
	case c.active && c.state == ReqSent && p.PSN != 0:
		c.count.By[Challenged]++
		if c.cookie == 0 { // not at each: a hostile server would be asked for ever
			c.repeatAfter(now, challengedInterval, challengedRetries)
		}
		c.cookie, c.owed = p.PSN, wire.Request
	case c.active:
		c.count.By[IgnoredOpcode]++
	case c.state == Rejected:
		c.count.By[RepeatedRequest]++
		c.owed = wire.Reject
	case c.state == Requested, c.confirmed && !open.Has(c.state):
		c.count.By[RepeatedRequest]++
	case !open.Has(c.state): // aborted, and the client may not have the Accept
		c.count.By[RepeatedRequest]++
		c.local, c.owed = wire.Setup{}, wire.Reject
	case !c.confirmed:
		c.count.By[RepeatedRequest]++
		c.owed = wire.Accept
	case now.Sub(c.since) < requestLife:
		c.count.By[RepeatedRequest]++
	default:
		c.release()
		c.over(now, PeerRestart)
		c.finish()
	}
}

// handleAccept is for the server's yes.
func (c *Conn) handleAccept(now monotime.Time, from netip.AddrPort, p *wire.Packet) {
	switch {
	case !c.active:
		c.count.By[IgnoredOpcode]++
	case c.state == ReqSent:
		c.peer = from
		c.confirmed = true
		c.remote = clone(p.Setup)
		c.agree(p.AckPSN)
		c.owed, c.timer = wire.Data, monotime.Never
		c.setState(Established)
		c.startKeepAlive(now)
		c.rcv.tell = true // the ACK that confirms
		c.raise(Event{Kind: EventEstablished, Setup: clone(p.Setup)})
	case open.Has(c.state): // the ACK was lost
		c.count.By[Duplicate]++
		c.rcv.tell = true
	case c.state == TimeWait && !c.confirmed: // we gave up before it came
		c.peer = from
		c.answerFIN()
	default:
		c.count.By[IgnoredState]++
	}
}

// handleReject is for the server's no.
func (c *Conn) handleReject(p *wire.Packet) {
	if c.state != ReqSent {
		c.count.By[IgnoredState]++
		return
	}
	c.raise(Event{Kind: EventRejected, Setup: clone(p.Setup)})
	c.finish()
}

// agree takes the window that the peer announced, 0 if it did not.
func (c *Conn) agree(announced wire.PSN) {
	c.telling = announced != 0
	window := uint64(plainWindow)
	if c.telling {
		window = uint64(announced)
	}
	c.snd.window = min(window, uint64(c.Window))
}

// confirm notes that the client has our Accept.
func (c *Conn) confirm(now monotime.Time) {
	if c.confirmed {
		return
	}
	c.confirmed = true
	c.since = now
	c.owed = wire.Data
	if c.state == AcceptSent {
		c.timer = monotime.Never
		c.setState(Established)
		c.startKeepAlive(now)
		c.raise(Event{Kind: EventEstablished})
	}
}

// sendSetup puts the message owed into a burst.
func (c *Conn) sendSetup(b *Burst) {
	p := wire.Packet{Header: wire.Header{PSN: c.cookie, Opcode: c.owed}, Setup: c.local}
	if c.owed != wire.Reject {
		p.AckPSN = wire.PSN(c.Window)
	}
	b.control(c.peer, &p)
	c.owed = wire.Data
}
