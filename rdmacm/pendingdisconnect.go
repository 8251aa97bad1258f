// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"slices"

	"verbena/internal/core"
	"verbena/internal/monotime"
)

// pendingDisconnect delays a Disconnected event until the application has polled all completions
// that preceded it, at most disconnectDelay. A hardware device has long completed the peer's last
// message when its DREQ, which goes another way, is reported. Here both may wait for the same
// processor. An application that destroys its queue pair at that event, as libfabric's rxm does on
// another thread, would lose that message.
type pendingDisconnect struct {
	event  Event
	polled func() bool
	until  monotime.Time
}

const (
	disconnectDelay = 100 * monotime.Millisecond
	disconnectPoll  = monotime.Millisecond // interval
)

// arrived completes all messages that came before an event. The function that it returns reports
// whether the application has polled them. After the application's own Disconnect nothing is waited
// for. The caller does not hold mu, which events of queue pairs take.
func (c *ibConnector) arrived() (polled func() bool) {
	if qp := c.qpInUse(); qp != nil {
		return qp.TakeArrived()
	}
	return func() bool { return true }
}

// qpInUse returns the queue pair of a connection that the application uses: the ID's, or the one of
// this process that the application named in ConnParam; else nil.
func (c *ibConnector) qpInUse() *core.QP {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.leaving:
		return nil
	case c.qp != nil:
		return (*core.QP)(c.qp)
	}
	return (*core.Context)(c.at.verbs).NumberedQP(c.named)
}

// delayDisconnect raises a Disconnected event, now or later. The caller holds c.mu.
func (b *ibManager) delayDisconnect(c *ibConnector, event Event, polled func() bool) {
	c.pending = &pendingDisconnect{event, polled, monotime.Now().Add(disconnectDelay)}
	if polled() {
		c.raiseDisconnect()
		return
	}
	b.pending = append(b.pending, c)
}

// raiseDisconnect raises the pending event, if there is one. The caller holds mu.
func (c *ibConnector) raiseDisconnect() {
	if f := c.pending; f != nil {
		c.pending = nil
		c.raise(f.event)
	}
}

// raiseDisconnects raises the events whose completions are polled or whose time is over.
func (b *ibManager) raiseDisconnects() {
	b.pending = slices.DeleteFunc(b.pending, func(c *ibConnector) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		f := c.pending
		switch {
		case f == nil || c.state == stDestroyed:
			return true
		case !f.polled() && monotime.Now().Before(f.until):
			return false
		}
		c.raiseDisconnect()
		return true
	})
}
