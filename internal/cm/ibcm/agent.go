// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"net/netip"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// SlotBits is the number of a communication id's top bits that name the process.
const SlotBits = 10

const slotShift = 32 - SlotBits

// Config has the parameters of an Agent.
type Config struct {
	GUID   ib.GUID       // of the local channel adapter
	Slot   uint16        // of this process, 10 bits: the top bits of every communication id
	Random func() uint64 // communication and transaction ids
	// how long this side takes to acknowledge, as a time code; rxe says 15, too
	ACKDelay    uint8
	MaxConns    int // default 65,536, those that only wait included
	MaxHalfOpen int // requests not yet established; default 4,096
	// Trace, if not nil, is called with every change of state.
	Trace func(id ConnID, from, to State)
	// Refused, if not nil, is called with each request that the Agent refuses by itself. It must
	// not call the Agent.
	Refused func(Refusal)
}

// Path is the way between two ports. Addresses are compared without zone.
type Path struct {
	Local  netip.Addr
	Remote netip.Addr
}

// ConnID names a connection of an Agent. Ids are never used again.
type ConnID uint64

// Agent holds the connections of one process on one port.
type Agent struct {
	Config
	count      Counters
	lastID     uint64
	conns      map[ConnID]*conn
	byLocal    map[uint32]*conn    // communication id → connection
	byRemote   map[remoteKey]*conn // to know a duplicate REQ
	byQPN      map[remoteQPN]*conn // to know a stale connection
	bySIDR     map[sidrKey]*conn   // to know a duplicate SIDR_REQ
	services   map[cm.ServiceID][]*listener
	listeners  map[ListenerID]*listener
	lately     map[cm.ServiceID]monotime.Time // when a listener was expected, as the last one ended
	early      []early
	halfOpen   int
	halfOpenOf map[netip.Addr]int
	// requests whose peers have not shown that they sent them; nil before the first
	holding    *holding
	remembered []*conn // with an answer that may be asked for again, the oldest first
	pending    int
	timers     timerHeap
	out        []Datagram
	outHead    int
	events     []Event
	eventHead  int
}

// remoteKey is a connection as its peer names it.
type remoteKey struct {
	addr netip.Addr
	guid ib.GUID
	id   uint32
}

// remoteQPN is a queue pair of a peer.
type remoteQPN struct {
	addr netip.Addr
	guid ib.GUID
	qpn  ib.QPN
}

type sidrKey struct {
	addr netip.Addr
	id   uint32
}

// New returns an Agent without connections.
func New(cfg Config) *Agent {
	if cfg.MaxConns == 0 {
		cfg.MaxConns = defaultMaxConns
	}
	if cfg.MaxHalfOpen == 0 {
		cfg.MaxHalfOpen = defaultMaxHalfOpen
	}
	return &Agent{
		Config: cfg, conns: map[ConnID]*conn{}, byLocal: map[uint32]*conn{},
		byRemote: map[remoteKey]*conn{}, byQPN: map[remoteQPN]*conn{}, bySIDR: map[sidrKey]*conn{},
		services: map[cm.ServiceID][]*listener{}, listeners: map[ListenerID]*listener{},
		lately: map[cm.ServiceID]monotime.Time{}, halfOpenOf: map[netip.Addr]int{},
	}
}

// HandleMAD takes a MAD that came by path. A malformed MAD is counted and dropped.
func (a *Agent) HandleMAD(now monotime.Time, path Path, mad []byte) {
	a.handleMAD(now, path, mad, claimed)
}

// HandleOwnMAD is HandleMAD for a sender whose address is certain: no other sender could have had
// the MAD arrive in this way.
func (a *Agent) HandleOwnMAD(now monotime.Time, path Path, mad []byte) {
	a.handleMAD(now, path, mad, certain)
}

func (a *Agent) handleMAD(now monotime.Time, path Path, mad []byte, from sender) {
	a.count[Received]++
	if len(mad) != cm.MADSize {
		a.count[MalformedLength]++
		return
	}
	h, data, _ := cm.ParseHeader(mad)
	switch {
	case h.Class != cm.Class:
		a.count[MalformedClass]++
		return
	case h.BaseVersion != cm.BaseVersion || h.ClassVersion != cm.ClassVersion:
		a.count[MalformedVersion]++
		return
	case h.Method != cm.MethodSend:
		a.count[MalformedMethod]++
		return
	}
	switch h.Attribute {
	case cm.AttrREQ, cm.AttrSIDRREQ:
		a.handleRequest(now, path, mad, from)
	case cm.AttrMRA:
		m, _, _ := cm.ParseMRA(data)
		a.handleMRA(now, path, &m)
	case cm.AttrREJ:
		m, _, _ := cm.ParseREJ(data)
		a.handleREJ(now, path, &m)
	case cm.AttrREP:
		m, _, _ := cm.ParseREP(data)
		a.handleREP(now, path, &h, &m)
	case cm.AttrRTU:
		m, _, _ := cm.ParseRTU(data)
		a.handleRTU(now, path, &m)
	case cm.AttrDREQ:
		m, _, _ := cm.ParseDREQ(data)
		a.handleDREQ(now, path, h.TransactionID, &m)
	case cm.AttrDREP:
		m, _, _ := cm.ParseDREP(data)
		a.handleDREP(now, path, h.TransactionID, &m)
	case cm.AttrSIDRREP:
		m, _, _ := cm.ParseSIDRREP(data)
		a.handleSIDRREP(now, path, h.TransactionID, &m)
	case cm.AttrLAP:
		m, _, _ := cm.ParseLAP(data)
		a.handleLAP(path, h.TransactionID, &m)
	default: // an APR answers a LAP, and we send none
		a.count[MalformedAttribute]++
	}
}

// HandleTimeout acts on timers that have come due.
func (a *Agent) HandleTimeout(now monotime.Time) {
	a.handleEarly(now)
	a.askAgain(now)
	a.enterReady(now)
	for {
		c := a.timers.first()
		if c == nil || now.Before(c.deadline) {
			return
		}
		a.timers.remove(c)
		a.expire(now, c)
	}
}

// expire acts on the timer of one connection, which is no longer set.
func (a *Agent) expire(now monotime.Time, c *conn) {
	switch c.state {
	case Timewait:
		a.raise(c, Event{Kind: EventTimewaitExit})
		a.close(c)
		return
	case Rejected, SIDRAnswered:
		a.close(c)
		return
	}
	if c.retries > 0 { // every other state with a timer repeats a message
		c.retries--
		a.count[Retried]++
		a.send(c.path, &c.last)
		a.timers.set(c, now.Add(c.nextPause()))
		return
	}
	a.count[TimedOut]++
	switch {
	case awaitingReply.Has(c.state):
		a.sendTimeoutREJ(c, cm.OfREQ)
		a.raise(c, Event{Kind: EventUnreachable})
		a.close(c)
	case awaitingReady.Has(c.state):
		a.sendTimeoutREJ(c, cm.OfREP)
		a.raise(c, Event{Kind: EventUnreachable})
		a.enterTimewait(now, c)
	case c.state == DreqSent:
		a.raise(c, Event{Kind: EventDisconnected})
		a.enterTimewait(now, c)
	case c.state == SIDRReqSent:
		a.raise(c, Event{Kind: EventUnreachable})
		a.close(c)
	}
}

// Repeat sends unanswered messages again, because MADs may have been lost on their way here.
// Deadlines and retries stay as they are.
func (a *Agent) Repeat() {
	for _, c := range a.timers {
		if !onlyWaiting.Has(c.state) {
			a.count[Retried]++
			a.send(c.path, &c.last)
		}
	}
}

// NextTimeout returns when HandleTimeout is due, false if no timer runs.
func (a *Agent) NextTimeout() (monotime.Time, bool) {
	next := min(a.nextEarly(), a.holding.nextAsk())
	if c := a.timers.first(); c != nil {
		next = min(next, c.deadline)
	}
	return next, next != monotime.Never
}

// Pending returns the number of connections with something to be sent again, answered or released,
// and of requests that wait for a listener. With none the Agent may be given up: the rest only
// remembers, to answer duplicates, and Refuse does that well enough.
func (a *Agent) Pending() int { return a.pending }

// Len returns the number of connections, those included that only wait for
// their time to be over.
func (a *Agent) Len() int { return len(a.conns) }
