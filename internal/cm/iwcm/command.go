// SPDX-License-Identifier: BSD-2-Clause

package iwcm

import (
	"verbena/internal/iwarp/mpa"
	"verbena/internal/monotime"
)

// Accept takes a request, with the READs that are served and asked for at a
// time. The Reply is to be polled and written, then the stream is the queue
// pair's: HandOver. EventEstablished follows, or EventFailed.
//
// Errors: a StateError if the peer has given up; mpa.ErrPrivateData.
func (c *Conn) Accept(now monotime.Time, ird, ord uint16, private []byte) error {
	if c.state != Requested {
		return &StateError{"Accept", c.state}
	}
	if err := c.mpa.Accept(ird, ord, private); err != nil {
		return err
	}
	c.deadline = now.Add(connectWait)
	c.setState(Answered)
	if c.mpa.Settled().RTR == mpa.RTRNone {
		c.HandleReady()
	}
	return nil
}

// Reject refuses a request. The Reply is to be written before the stream is
// closed.
//
// Errors: those of Accept.
func (c *Conn) Reject(private []byte) error {
	if c.state != Requested {
		return &StateError{"Reject", c.state}
	}
	if err := c.mpa.Reject(private); err != nil {
		return err
	}
	c.count[Rejected]++
	c.over(Event{}, WantShut)
	c.listener.answered(c)
	return nil
}

// HandOver gives the stream away: to the queue pair that serves the
// connection. early are bytes that came behind the set-up.
func (c *Conn) HandOver() (s mpa.Settled, early []byte) {
	c.handed = true
	early, c.early = c.early, nil
	return c.mpa.Settled(), early
}

// Establish is called when the queue pair has the stream of a peer that accepted.
//
// Errors: a StateError if the connection is over already.
func (c *Conn) Establish() error {
	if c.state != Replied {
		return &StateError{"Establish", c.state}
	}
	c.established()
	return nil
}

// HandleReady handles the peer's first FPDU to the queue pair.
func (c *Conn) HandleReady() {
	if c.state == Answered {
		c.established()
		c.raise(Event{Kind: EventEstablished})
	}
}

func (c *Conn) established() {
	c.count[Connections]++
	c.deadline = monotime.Never
	c.setState(Established)
}

// HandleEnd handles the end of the stream after HandOver; f is FaultNone if it was in order.
func (c *Conn) HandleEnd(f Fault) {
	if c.state == Closed {
		return
	}
	if f == FaultNone && c.state != Established {
		f = FaultReset
	}
	c.close(f, KeepOpen)
}

// Fail ends a connection whose queue pair could not be given the stream.
func (c *Conn) Fail() { c.HandleEnd(FaultLocal) }

// Destroy gives the connection up: no event of it follows. A request is refused; any other set-up
// is cut off, unless the queue pair has the stream.
func (c *Conn) Destroy() {
	c.abandoned = true
	c.events = nil
	switch {
	case c.state == Closed:
	case c.state == Requested:
		_ = c.Reject(nil) // the state is right, and no private data always fit
	default:
		c.over(Event{}, WantAbort)
	}
	if c.listener != nil {
		c.listener.answered(c)
	}
}
