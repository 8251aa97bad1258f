// SPDX-License-Identifier: BSD-2-Clause

package mpa

import (
	"errors"
	"fmt"

	"verbena/internal/fsm"
	"verbena/internal/monotime"
	wire "verbena/internal/wire/iwarp"
)

// State of a set-up.
type State uint8

// States.
const (
	StateRequesting State = iota // initiator: the Request is out, a Reply is awaited
	StateListening               // responder: a Request is awaited
	StateDeciding                // responder: the application has the Request
	StateReady                   // FPDUs follow
	StateRefused                 // a Reply rejected; the stream is to be closed
	// Reason tells why; the stream is to be closed once output is written
	StateFailed
)

var stateNames = [...]string{"requesting", "listening", "deciding", "ready", "refused", "failed"}

func (s State) String() string { return stateNames[s] }

// transitions has the states that may follow each state.
var transitions = fsm.Table[State]{
	StateRequesting: fsm.SetOf(StateReady, StateRefused, StateFailed),
	StateListening:  fsm.SetOf(StateDeciding, StateFailed),
	StateDeciding:   fsm.SetOf(StateReady, StateRefused, StateFailed),
}

// Reason says why a set-up failed.
type Reason uint8

// Reasons.
const (
	ReasonNone         Reason = iota
	ReasonTimeout             // the other end did not speak in time
	ReasonClosed              // the stream ended
	ReasonMalformed           // no set-up frame, or not one that is due
	ReasonRevision            // a revision that is not spoken, or an older one than asked for
	ReasonEarly               // bytes behind a Request
	ReasonInsufficient        // the peer will ask for more READs at a time than we serve
	ReasonNoRTR               // no ready-to-receive kind in common
	numReasons
)

var reasonNames = [numReasons]string{
	"none", "timeout", "closed", "malformed", "revision", "early_data", "insufficient_ird",
	"no_matching_rtr",
}

func (r Reason) String() string { return reasonNames[r] }

// Time-outs, as siw has them: for a Request to come to a new stream, and for a
// Reply, for which an application has to decide.
const (
	requestWait = 10 * monotime.Second
	replyWait   = 20 * monotime.Second
)

// Options of an end.
type Options struct {
	Revision uint8 // of an initiator: 1 or 2; 0 stands for 2
	CRC      bool  // wants CRCs; they are used if either end wants them
	// Extensions says that this end has RFC 7306: atomics and immediate data.
	Extensions bool
	// IRD and ORD are the READs that this end serves and asks for at a time.
	IRD, ORD uint16
	// RTR are kinds of ready-to-receive message: an initiator's are those it offers in peer-to-peer
	// mode, and none means client-server mode. A responder's are those it takes.
	RTR RTRSet
	// PrivateData goes with the Request of an initiator.
	PrivateData []byte
}

// MaxPrivateData returns how much private data a frame of a revision carries.
func MaxPrivateData(revision uint8) int {
	if revision >= 2 {
		return wire.MaxPrivateBytes - wire.EnhancedBytes
	}
	return wire.MaxPrivateBytes
}

// Errors of a caller.
var (
	ErrPrivateData = errors.New("mpa: too much private data")
	ErrState       = errors.New("mpa: not in this state")
	ErrRevision    = errors.New("mpa: no such revision")
)

// Conn is the set-up of one end of a connection.
type Conn struct {
	initiator bool
	opt       Options

	state    State
	reason   Reason
	in       []byte // of the frame awaited; at most one
	out      []byte
	deadline monotime.Time
	peer     wire.MPAFrame // in a copy of its own
	settled  Settled
}

// NewInitiator returns the end that opened the stream. Its Request is to be
// polled.
//
// Errors: ErrPrivateData, ErrRevision.
func NewInitiator(now monotime.Time, o Options) (*Conn, error) {
	if o.Revision == 0 {
		o.Revision = 2
	}
	if o.Revision > 2 {
		return nil, fmt.Errorf("%w: %d", ErrRevision, o.Revision)
	}
	if n := len(o.PrivateData); n > MaxPrivateData(o.Revision) {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrPrivateData, n,
			MaxPrivateData(o.Revision))
	}
	c := &Conn{initiator: true, opt: o, state: StateRequesting, deadline: now.Add(replyWait)}
	f := wire.MPAFrame{CRC: o.CRC, Extensions: o.Extensions, Revision: o.Revision,
		PrivateData: o.PrivateData}
	if o.Revision == 2 {
		f.IsEnhanced, f.Enhanced = true, c.offer()
	}
	c.out = f.Append(nil)
	return c, nil
}

// NewResponder returns the end that took a stream from a listener.
func NewResponder(now monotime.Time, o Options) *Conn {
	return &Conn{opt: o, state: StateListening, deadline: now.Add(requestWait)}
}

// State returns the state.
func (c *Conn) State() State { return c.state }

// Reason returns the reason for which the set-up failed.
func (c *Conn) Reason() Reason { return c.reason }

// Peer returns the other end's frame: of a responder from StateDeciding on, of an initiator once it
// is ready or refused.
func (c *Conn) Peer() wire.MPAFrame { return c.peer }

// Settled returns the agreement, once the set-up is ready.
func (c *Conn) Settled() Settled { return c.settled }

func (c *Conn) setState(s State) {
	transitions.Check("mpa", c.state, s)
	c.state = s
	c.deadline = monotime.Never
	if s == StateDeciding {
		return // for as long as the application likes: the initiator has the time-out
	}
	c.in = nil
}

func (c *Conn) fail(r Reason) {
	c.reason = r
	c.setState(StateFailed)
}

// failWith ends the set-up of an initiator that cannot live with the Reply. It notifies the
// responder, for which the connection is up already.
//
// Spec: RFC 6581, 9.2 and 9.3 (Terminate with the MPA error codes).
func (c *Conn) failWith(r Reason, e wire.TermError) {
	h := wire.Header{Control: wire.NewControl(wire.Terminate, true), QN: wire.QNTerminate, MSN: 1}
	c.out = wire.AppendFPDU(c.out, wire.TermMsg{TermError: e}.Append(h.Append(nil)),
		c.opt.CRC || c.peer.CRC)
	c.fail(r)
}

// PollOutput returns the next bytes for the stream, once.
func (c *Conn) PollOutput() (b []byte, ok bool) {
	b, c.out = c.out, nil
	return b, len(b) > 0
}

// NextTimeout returns when HandleTimeout is due.
func (c *Conn) NextTimeout() monotime.Time { return c.deadline }

// HandleTimeout gives up waiting, if it is time.
func (c *Conn) HandleTimeout(now monotime.Time) {
	if !now.Before(c.deadline) {
		c.fail(ReasonTimeout)
	}
}

// HandleClose handles the end of the stream.
func (c *Conn) HandleClose() {
	if transitions.Allows(c.state, StateFailed) {
		c.fail(ReasonClosed)
	}
}

// HandleInput takes bytes of the stream. rest are those behind the set-up, which
// are the Deframer's once the state is StateReady.
func (c *Conn) HandleInput(b []byte) (rest []byte) {
	switch c.state {
	case StateDeciding:
		// Spec: RFC 5044, 7.1.2: the initiator waits for the Reply.
		if len(b) > 0 {
			c.fail(ReasonEarly)
		}
		return nil
	case StateRequesting, StateListening:
	default:
		return b
	}
	for {
		n, ok := wire.MPAFrameLen(c.in)
		if !ok {
			c.fail(ReasonMalformed)
			return nil
		}
		if n == len(c.in) {
			break
		}
		if len(b) == 0 {
			return nil
		}
		k := min(n-len(c.in), len(b))
		c.in, b = append(c.in, b[:k]...), b[k:]
	}
	c.peer, _, _ = wire.ParseMPAFrame(c.in)
	if c.peer.Reply != c.initiator {
		c.fail(ReasonMalformed)
		return nil
	}
	if c.initiator {
		c.handleReply()
		return b
	}
	c.handleRequest(b)
	return nil
}

// handleRequest looks at a Request; behind are the bytes that came with it.
func (c *Conn) handleRequest(behind []byte) {
	f := &c.peer
	switch {
	case f.Revision < 1 || f.Revision > 2 || f.IsEnhanced && f.Revision < 2:
		c.fail(ReasonRevision)
	case f.Reject:
		c.fail(ReasonMalformed) // Spec: RFC 5044, 7.1.1: R is 0 in a Request
	case len(behind) > 0:
		c.fail(ReasonEarly)
	default:
		c.setState(StateDeciding)
	}
}

// handleReply looks at a Reply.
func (c *Conn) handleReply() {
	f := &c.peer
	switch {
	case f.Revision < 1 || f.Revision > c.opt.Revision || f.IsEnhanced && c.opt.Revision < 2:
		c.fail(ReasonRevision)
	case f.Reject:
		c.setState(StateRefused)
	case f.Revision < c.opt.Revision:
		// One that speaks revision 1 only should have rejected: the caller may
		// try again with it.
		c.fail(ReasonRevision)
	default:
		c.settleInitiator()
	}
}

// Accept takes the connection, as a responder that is deciding, with the READs it
// serves and asks for at a time.
//
// Errors: ErrState, ErrPrivateData.
func (c *Conn) Accept(ird, ord uint16, private []byte) error {
	if err := c.mayReply(private); err != nil {
		return err
	}
	f := c.reply(private)
	c.settleResponder(ird, ord, &f)
	c.out = f.Append(nil)
	c.setState(StateReady)
	return nil
}

// Reject refuses the connection, as a responder that is deciding.
//
// Errors: ErrState, ErrPrivateData.
func (c *Conn) Reject(private []byte) error {
	if err := c.mayReply(private); err != nil {
		return err
	}
	f := c.reply(private)
	f.Reject = true
	f.Enhanced = wire.Enhanced{PeerToPeer: c.peer.Enhanced.PeerToPeer,
		IRD: c.opt.IRD & wire.AnyDepth, ORD: c.opt.ORD & wire.AnyDepth}
	c.out = f.Append(nil)
	c.setState(StateRefused)
	return nil
}

func (c *Conn) mayReply(private []byte) error {
	if c.state != StateDeciding {
		return fmt.Errorf("%w: %v", ErrState, c.state)
	}
	limit := wire.MaxPrivateBytes
	if c.peer.IsEnhanced {
		limit -= wire.EnhancedBytes
	}
	if len(private) > limit {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrPrivateData, len(private), limit)
	}
	return nil
}

// reply returns a Reply in the Request's revision.
func (c *Conn) reply(private []byte) wire.MPAFrame {
	return wire.MPAFrame{
		Reply: true, CRC: c.opt.CRC || c.peer.CRC,
		Extensions: c.opt.Extensions && c.peer.Extensions, Revision: c.peer.Revision,
		IsEnhanced: c.peer.IsEnhanced, PrivateData: private,
	}
}
