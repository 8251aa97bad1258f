// SPDX-License-Identifier: BSD-2-Clause

package trp

import "verbena/internal/monotime"

// PollOutput fills the empty burst b with datagrams to be sent, and returns
// false if there are none.
func (c *Conn) PollOutput(now monotime.Time, b *Burst) bool {
	switch {
	case c.owed != 0:
		c.sendSetup(b)
	case open.Has(c.state):
		c.sendProbe(b)
		c.sendRanges(b)
		if _, s := c.transmittable(now); c.rcv.tell && s == nil { // else a segment tells
			c.sendACK(b)
		}
		if b.Len() == 0 {
			c.sendSegments(now, b)
		}
	}
	if b.Len() == 0 && c.owedFIN {
		c.sendFIN(b)
	}
	c.count.By[Sent] += uint64(b.Len())
	return b.Len() > 0
}

// HandleFault takes note that a burst could not be written because memory it
// points at is not mapped any more. The association ends.
func (c *Conn) HandleFault(now monotime.Time) {
	if open.Has(c.state) {
		c.fail(now, BadMemory)
	}
}
