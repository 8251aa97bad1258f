// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"slices"

	"verbena/internal/core"
	"verbena/internal/monotime"
)

// farewell is a Disconnected event that is still to be raised: not before what the peer sent
// is completed and polled, as far as that does not take long. A device of hardware
// has long completed it when the peer's DREQ, which goes another way, is told; here both may
// wait for the same processor. An application that destroys its queue pair at that event,
// as libfabric's rxm does on a thread for that, would lose the last message.
type farewell struct {
	event  Event
	polled func() bool
	until  monotime.Time
}

const (
	farewellPatience = 100 * monotime.Millisecond
	farewellPause    = monotime.Millisecond // between looks
)

// arrived has what came before an event completed, and returns what reports whether the
// application has polled it. Nothing is waited for that came after the application's own
// Disconnect. The caller does not hold mu, which events of queue pairs take.
func (c *ibConnector) arrived() (polled func() bool) {
	if qp := c.serving(); qp != nil {
		return qp.TakeArrived()
	}
	return func() bool { return true }
}

// serving returns the queue pair of a connection that the application uses: the ID's, or
// the one that it drives by itself, if that is of this process; else nil.
func (c *ibConnector) serving() *core.QP {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.leaving:
		return nil
	case c.qp != nil:
		return (*core.QP)(c.qp)
	}
	return (*core.Context)(c.place.verbs).NumberedQP(c.named)
}

// hold raises a Disconnected event, now or later. The caller holds c.mu.
func (b *ibManager) hold(c *ibConnector, event Event, polled func() bool) {
	c.farewell = &farewell{event, polled, monotime.Now().Add(farewellPatience)}
	if polled() {
		c.sayFarewell()
		return
	}
	b.held = append(b.held, c)
}

// sayFarewell raises the event that is still to be raised, if there is one. The caller holds mu.
func (c *ibConnector) sayFarewell() {
	if f := c.farewell; f != nil {
		c.farewell = nil
		c.raise(f.event)
	}
}

// sayFarewells raises the events that wait for nothing any more.
func (b *ibManager) sayFarewells() {
	b.held = slices.DeleteFunc(b.held, func(c *ibConnector) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		f := c.farewell
		switch {
		case f == nil || c.state == stDestroyed:
			return true
		case !f.polled() && monotime.Now().Before(f.until):
			return false
		}
		c.sayFarewell()
		return true
	})
}
