// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"errors"
	"net/netip"

	"verbena/internal/congestion"
	"verbena/internal/monotime"
	wire "verbena/internal/wire/trp"
)

// Upper takes the segments that a Conn receives. Its methods are called from within HandleInput and
// HandleTimeout, and may call Send, Close and Abort.
type Upper interface {
	// HandleSegment takes a DDP segment, which is the caller's again when it returns, and the
	// segment's place in the peer's order. Each comes up once, in any order. If it returns false
	// the segment is not acknowledged, so that it comes again.
	HandleSegment(now monotime.Time, seq uint64, segment []byte) bool
	// HandleInOrder is called when all segments before next have come up. One call names at most
	// inOrderAtOnce more than the segment that has just come up.
	HandleInOrder(now monotime.Time, next uint64)
	// HandleAcked is called when all segments sent before next have come up at the peer. Their
	// memory is released.
	HandleAcked(now monotime.Time, next uint64)
}

// Config configures a Conn. It is immutable after New.
type Config struct {
	// Window bounds the datagrams that are kept beyond the last in order, and those
	// outstanding. It is a power of two from 64 to 131,072. 0 is DefaultWindow.
	Window int
	// Retries is the number of retransmission time-outs in a row that end an
	// association. 0 is DefaultRetries.
	Retries int
	// KeepAlive bounds the silence of an idle peer before the Conn asks whether it is there. 0 is
	// for ever. Only peers that announce their window are asked, as only they answer.
	KeepAlive monotime.Duration
	// Trace, if not nil, is called with every change of state.
	Trace func(from, to State)
}

// Defaults of Config, and bounds.
//
// The window is five times the segments of 1,024 bytes that 1 Gb/s carries in 200 ms: while one
// lost segment is repaired, others must go on.
const (
	DefaultWindow  = 131072
	DefaultRetries = 8 // with back-off from the shortest time-out 2 s, from a second longer
	minWindow      = 64
	largestWindow  = 131072
)

// plainWindow is the window of a peer that does not announce it: urdma has half of its NIC's
// transmit ring and takes the peer to have the same; rings of 128 descriptors are the smallest in
// use.
const plainWindow = 64

// Errors of commands.
var (
	ErrState       = errors.New("trp: the association is not in a state for it")
	ErrPrivateData = errors.New("trp: private data of more than 512 bytes")
	ErrWindow      = errors.New("trp: the window is not a power of two from 64 to 131072")
)

func (c *Config) check() error {
	if c.Window == 0 {
		c.Window = DefaultWindow
	}
	if c.Retries == 0 {
		c.Retries = DefaultRetries
	}
	if c.Window < minWindow || c.Window > largestWindow || c.Window&(c.Window-1) != 0 {
		return ErrWindow
	}
	return nil
}

// Conn is one association.
type Conn struct {
	Config // immutable
	upper  Upper
	active bool // the client's end

	state     State
	peer      netip.AddrPort
	local     wire.Setup // our Setup in Request, Accept or Reject
	remote    wire.Setup // the peer's
	confirmed bool       // the peer is known to have our Accept
	telling   bool       // the peer announced its window, and so answers an Accept
	since     monotime.Time
	cookie    wire.PSN // of the server's challenge, 0 without

	owed     wire.Opcode // Request, Accept or Reject to be sent; Data for none
	owedFIN  bool
	timer    monotime.Time // of the state
	retries  int           // left
	interval monotime.Duration
	answers  int // FINs answered in TimeWait
	alive    keepAlive
	refused  refusal

	snd    sender
	rcv    receiver
	loss   recovery
	events []Event
	count  Counters
}

func newConn(cfg Config, active bool, peer netip.AddrPort) *Conn {
	c := &Conn{Config: cfg, active: active, peer: peer, timer: monotime.Never}
	c.snd.window = uint64(cfg.Window)
	c.rcv.due = monotime.Never
	c.alive.at = monotime.Never
	c.refused.clear()
	c.loss.start()
	return c
}

// State returns where the association stands.
func (c *Conn) State() State { return c.state }

// Peer returns where datagrams go. The client learns the port from the Accept.
func (c *Conn) Peer() netip.AddrPort { return c.peer }

// Remote returns the peer's Setup of its Request or Accept.
func (c *Conn) Remote() wire.Setup { return c.remote }

// Telling reports whether the peer announces its window, as Verbena does and urdma does not. It is
// known once the peer's Request or Accept has come.
func (c *Conn) Telling() bool { return c.telling }

// Counters returns the counts so far.
func (c *Conn) Counters() Counters { return c.count }

// RTT returns the smoothed round trip, 0 if none was measured.
func (c *Conn) RTT() monotime.Duration { return c.loss.RTT.Smoothed }

// PathState returns the measurements of the path to the peer.
func (c *Conn) PathState() congestion.Path {
	p := c.loss.Path()
	p.InFlight = int64(c.snd.flyingBytes)
	p.Lost, p.Repeated = c.count.By[Lost], c.count.By[Retransmitted]
	return p
}

// HandleInput takes a datagram, whose bytes it does not keep, and its source.
// Addresses are compared as they are: IPv4 ones must not come mapped to IPv6.
func (c *Conn) HandleInput(now monotime.Time, from netip.AddrPort, datagram []byte) {
	c.count.By[Received]++
	var p wire.Packet
	if m := p.Parse(datagram); m != wire.WellFormed {
		c.count.Malformed[m]++
		return
	}
	if c.state == Closed {
		c.count.By[IgnoredState]++
		return
	}
	if !c.fromPeer(from) {
		c.count.By[BadSource]++
		return
	}
	c.alive.heard, c.alive.asked = now, 0
	c.refused.clear()
	switch p.Opcode {
	case wire.Request:
		c.handleRequest(now, &p)
	case wire.Accept:
		c.handleAccept(now, from, &p)
	case wire.Reject:
		c.handleReject(&p)
	case wire.FIN:
		c.handleFIN(now, p.Header)
	case wire.SACK:
		if c.live(now) {
			c.handleSACK(now, p.Range())
		}
	case wire.Data:
		if c.live(now) {
			c.handleData(now, &p)
		}
	}
}

// fromPeer reports whether a datagram comes from the peer. An answer to a
// Request may come from any port of the server.
func (c *Conn) fromPeer(from netip.AddrPort) bool {
	return from == c.peer || c.active && !c.confirmed && from.Addr() == c.peer.Addr()
}

// live reports whether a packet of an association counts, and notes that the peer has our Accept.
func (c *Conn) live(now monotime.Time) bool {
	if !open.Has(c.state) {
		c.count.By[IgnoredState]++
		return false
	}
	c.confirm(now)
	return true
}

// HandleTimeout acts on timers that have come due.
func (c *Conn) HandleTimeout(now monotime.Time) {
	if !now.Before(c.timer) {
		c.timer = monotime.Never
		c.expire(now)
	}
	if !now.Before(c.rcv.due) {
		c.closeGap(now)
	}
	if !now.Before(c.alive.at) {
		c.keepAlive(now)
	}
	if !now.Before(c.refused.probe) {
		c.probeRefused()
	}
	if !now.Before(c.loss.reorder) {
		c.detectLoss(now)
	}
	if !now.Before(c.loss.paced) {
		c.loss.paced = monotime.Never
	}
	if !now.Before(c.loss.rto) {
		c.retransmissionTimeout(now)
	}
}

// expire acts on the state's timer.
func (c *Conn) expire(now monotime.Time) {
	switch c.state {
	case ReqSent, AcceptSent:
		c.repeatSetup(now)
	case FinSent:
		c.repeatFIN(now)
	case TimeWait, Rejected:
		c.finish()
	}
}

// NextTimeout returns when HandleTimeout is due, monotime.Never if no timer
// runs.
func (c *Conn) NextTimeout() monotime.Time {
	return min(c.timer, c.rcv.due, c.loss.reorder, c.loss.rto, c.loss.paced, c.alive.at,
		c.refused.probe)
}
