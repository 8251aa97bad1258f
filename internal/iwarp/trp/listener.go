// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"net/netip"

	"verbena/internal/monotime"
	wire "verbena/internal/wire/trp"
)

// DefaultBacklog is the number of Requests that wait for their answer.
const DefaultBacklog = 1024

// maxClients bounds the associations of a Listener, those included that are
// rejected and only remembered: a port has no more clients at one address.
const maxClients = 65536

// Listener knows the associations whose Requests came to one port. It finds them by the address and
// port of their clients, so that a repeated Request finds its own.
//
// It touches no Conn but those it makes: calls of a Listener are serialised
// among themselves, and those of each Conn, as the caller likes.
type Listener struct {
	cfg      Config
	backlog  int
	most     int // clients
	secret   uint64
	clients  map[netip.AddrPort]*client
	waiting  int
	unproven []*client // nothing has shown that they exist; maxUnproven at most
	count    Counters
	// of the last datagram
	malformed wire.Malformed
	full      bool
}

type client struct {
	conn    *Conn
	came    monotime.Time
	waiting bool // for Accept or Reject
	known   bool // it was established
}

// NewListener returns a Listener without associations. At most backlog Requests
// wait to be answered, DefaultBacklog if it is not positive; more are dropped,
// and come again. secret is a random number.
func NewListener(cfg Config, backlog int, secret uint64) (*Listener, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if backlog <= 0 {
		backlog = DefaultBacklog
	}
	return &Listener{
		cfg: cfg, backlog: backlog, most: maxClients, secret: secret,
		clients: map[netip.AddrPort]*client{},
	}, nil
}

// HandleInput takes a datagram that came to the port listened to. If it is a
// new Request, fresh is true: c is to be given a port of its own and then
// Accept, Reject or Close. Else c is the association that the datagram is for,
// whose HandleInput the caller calls, or nil. again, if not nil, is to be sent.
func (l *Listener) HandleInput(now monotime.Time, from netip.AddrPort, datagram []byte) (c *Conn,
	fresh bool, again *Challenge) {
	l.count.By[Received]++
	l.full = false
	var p wire.Packet
	m := p.Parse(datagram)
	if l.malformed = m; m != wire.WellFormed {
		l.count.Malformed[m]++
		return nil, false, nil
	}
	if p.Opcode != wire.Request {
		l.count.By[IgnoredOpcode]++
		return nil, false, nil
	}
	l.expire(now)
	telling := p.AckPSN != 0
	known := l.clients[from]
	switch {
	case telling && (known == nil || known.known) && !l.proves(now, from, p.PSN):
		l.count.By[Challenged]++
		return nil, false, l.challenge(now, from)
	case known != nil:
		l.count.By[RepeatedRequest]++
		return known.conn, false, nil
	case l.waiting == l.backlog, len(l.clients) == l.most, !telling && !l.mayCome(from.Addr()):
		l.count.By[BacklogFull]++
		l.full = true
		return nil, false, nil
	}
	c = newConn(l.cfg, false, from)
	c.remote = clone(p.Setup)
	c.since = now
	c.agree(p.AckPSN)
	c.setState(Requested)
	k := &client{conn: c, came: now, waiting: true}
	l.clients[from] = k
	l.waiting++
	if !telling {
		l.unproven = append(l.unproven, k)
	}
	return c, true, nil
}

// Dropped returns why the last datagram of HandleInput was dropped, "" if it was not, or if it came
// at the wrong time.
func (l *Listener) Dropped() string {
	switch {
	case l.malformed != wire.WellFormed:
		return "no datagram of TRP: " + l.malformed.String()
	case l.full:
		return "too many requests wait"
	}
	return ""
}

// Answered is called when the application answers a Request, before Accept or Reject. It reports
// whether the Request still waits for that: one of a client that cannot be challenged is forgotten
// after requestLife.
func (l *Listener) Answered(c *Conn) bool {
	k := l.clients[c.peer]
	if k == nil || k.conn != c || !k.waiting {
		return false
	}
	k.waiting = false
	l.waiting--
	return true
}

// Established is called when the EventEstablished of an association has come.
func (l *Listener) Established(from netip.AddrPort) {
	if k := l.clients[from]; k != nil {
		k.known = true
		l.prove(k)
	}
}

// Forget takes an association out when its EventClosed has come.
func (l *Listener) Forget(from netip.AddrPort) {
	if k := l.clients[from]; k != nil {
		l.Answered(k.conn)
		l.prove(k)
		delete(l.clients, from)
	}
}

// Len returns the number of associations.
func (l *Listener) Len() int { return len(l.clients) }

// Waiting returns the number of Requests not answered.
func (l *Listener) Waiting() int { return l.waiting }

// Counters returns the counts so far.
func (l *Listener) Counters() Counters { return l.count }
