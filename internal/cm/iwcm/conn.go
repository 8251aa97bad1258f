// SPDX-License-Identifier: BSD-2-Clause

package iwcm

import (
	"fmt"
	"net/netip"

	"verbena/internal/iwarp/mpa"
	"verbena/internal/monotime"
)

// connectWait bounds how long a TCP connection takes to come up, and how long
// an accepted peer takes to speak: as long as a Reply may take.
const connectWait = 20 * monotime.Second

// A peer that refuses the TCP connection is asked again for a while. A program that takes one
// connection after the other may be without a listener between two, as perftest -R is. Or it may
// tell its port before it listens, as qperf does.
const (
	refusedRetry = 500 * monotime.Millisecond
	refusedWait  = 10 * monotime.Millisecond
)

// Want is the caller's next action on the stream.
type Want uint8

// Wants.
const (
	KeepOpen  Want = iota
	WantShut       // close it in order once all output is written
	WantAbort      // close it now
	// close it, and open another one to the peer: HandleRedial, HandleConnected follow
	WantRedial
)

// Conn is one connection.
type Conn struct {
	opt        mpa.Options
	count      *Counters
	state      State
	listener   *Listener  // that it came to
	from       netip.Addr // of its peer; likewise
	mpa        *mpa.Conn  // once there is a stream
	early      []byte     // FPDUs that came with the Reply
	deadline   monotime.Time
	retryUntil monotime.Time // until when a refused connection is tried again
	again      monotime.Time // when it is
	want       Want
	handed     bool // the stream is the queue pair's
	abandoned  bool // it raises no more events
	events     []Event
}

// StateError is a command that the state of the connection does not allow.
type StateError struct {
	Op    string
	State State
}

func (e *StateError) Error() string { return fmt.Sprintf("iwcm: %s in state %v", e.Op, e.State) }

// Dial begins to connect: the caller opens a stream. A kind of
// ready-to-receive message that the depths do not allow is not offered.
//
// Errors: those of mpa.NewInitiator.
func Dial(now monotime.Time, o mpa.Options, count *Counters) (*Conn, error) {
	if o.ORD == 0 {
		o.RTR &^= mpa.RTRs(mpa.RTRRead)
	}
	if _, err := mpa.NewInitiator(now, o); err != nil {
		return nil, err
	}
	count[Dialed]++
	return &Conn{
		opt: o, count: count, state: Connecting, deadline: now.Add(connectWait),
		retryUntil: now.Add(refusedRetry), again: monotime.Never,
	}, nil
}

// State returns the state.
func (c *Conn) State() State { return c.state }

// Want returns the next action on the stream. It has no meaning once the stream is the queue
// pair's.
func (c *Conn) Want() Want { return c.want }

// HandleConnected is called when the stream is open. The caller then polls the Request.
func (c *Conn) HandleConnected(now monotime.Time) {
	if c.state != Connecting {
		return // closed meanwhile
	}
	c.mpa, _ = mpa.NewInitiator(now, c.opt) // Dial has tried the options
	c.deadline = monotime.Never
	c.setState(Requesting)
}

// PollOutput returns the next bytes for the stream, once.
func (c *Conn) PollOutput() ([]byte, bool) {
	if c.mpa == nil {
		return nil, false
	}
	return c.mpa.PollOutput()
}

// HandleInput takes bytes of the stream, which is the Conn's until HandOver.
func (c *Conn) HandleInput(now monotime.Time, b []byte) {
	if c.mpa == nil || c.state == Closed {
		return
	}
	c.early = append(c.early, c.mpa.HandleInput(b)...)
	c.settle(now)
}

// HandleClose handles a stream that has ended or broken before HandOver, or could not be opened: f
// says how.
func (c *Conn) HandleClose(now monotime.Time, f Fault) {
	switch {
	case c.state == Closed || c.handed:
	case c.state == Connecting && f == FaultRefused && now.Before(c.retryUntil):
		c.again = now.Add(refusedWait)
	default:
		c.close(f, WantAbort)
	}
}

// HandleRedial is called when another stream is being opened, as WantRedial wants it.
func (c *Conn) HandleRedial() {
	if c.want == WantRedial {
		c.want = KeepOpen
	}
}

// NextTimeout returns when HandleTimeout is due.
func (c *Conn) NextTimeout() monotime.Time {
	switch {
	case c.state == Closed:
		return c.deadline
	case c.mpa == nil:
		return min(c.deadline, c.again)
	}
	return min(c.deadline, c.mpa.NextTimeout())
}

// HandleTimeout gives up waiting, if it is time.
func (c *Conn) HandleTimeout(now monotime.Time) {
	if c.state == Closed {
		return
	}
	if !now.Before(c.deadline) {
		c.close(FaultTimeout, WantAbort)
		return
	}
	if c.mpa != nil {
		c.mpa.HandleTimeout(now)
		c.settle(now)
		return
	}
	if !now.Before(c.again) {
		c.again = monotime.Never
		c.count[Redialed]++
		c.want = WantRedial
	}
}

// settle acts on the result of the set-up.
func (c *Conn) settle(now monotime.Time) {
	switch c.mpa.State() {
	case mpa.StateDeciding:
		if c.state == Awaiting {
			c.setState(Requested)
		}
	case mpa.StateReady:
		if c.state == Requesting {
			c.setState(Replied)
			c.raise(Event{Kind: EventReply, PrivateData: c.PrivateData()})
		}
	case mpa.StateRefused:
		if c.state == Requesting && !c.redial(now) {
			c.count[RejectedBy]++
			c.over(Event{Kind: EventRejected, PrivateData: c.PrivateData()}, WantShut)
		}
	case mpa.StateFailed:
		if c.mpa.Reason() == mpa.ReasonRevision && c.redial(now) {
			return
		}
		// Pending output, a Terminate, is still written.
		c.close(faultOf[c.mpa.Reason()], WantShut)
	}
}

// redial asks a peer again that answered with an older revision of MPA than it was asked with, even
// if it refused.
func (c *Conn) redial(now monotime.Time) bool {
	if c.state != Requesting || c.opt.Revision == 1 || c.mpa.Peer().Revision != 1 {
		return false
	}
	c.count[Redialed]++
	c.opt.Revision, c.opt.RTR = 1, 0
	c.mpa, c.early = nil, nil
	c.deadline = now.Add(connectWait)
	c.setState(Connecting)
	c.want = WantRedial
	return true
}

// close ends the connection for a fault.
func (c *Conn) close(f Fault, w Want) {
	if f != FaultNone {
		c.count[faultCounter+Counter(f)]++
	}
	switch c.state {
	case Connecting, Requesting, Replied, Answered:
		c.over(Event{Kind: EventFailed, Fault: f}, w)
	case Established:
		c.over(Event{Kind: EventDisconnected, Fault: f}, w)
	default: // nobody was notified of it; the owner of a request finds out when it answers
		c.over(Event{}, w)
		if l := c.listener; l.Refused != nil && f != FaultReset {
			l.Refused(c, f)
		}
	}
}

func (c *Conn) over(ev Event, w Want) {
	c.want = w
	c.deadline = monotime.Never
	c.setState(Closed)
	if ev.Kind != 0 {
		c.raise(ev)
	}
}

// PrivateData returns the peer's private data of its Request or Reply.
func (c *Conn) PrivateData() []byte { return c.mpa.Peer().PrivateData }

// Depths returns how many READs the peer serves at a time and how many it asks
// for, false if it does not say.
func (c *Conn) Depths() (ird, ord uint16, ok bool) {
	p := c.mpa.Peer()
	return p.Enhanced.IRD, p.Enhanced.ORD, p.IsEnhanced
}
