// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"verbena/internal/engine"
	"verbena/internal/monotime"
	"verbena/internal/roce"
)

// A group has bursts with datagrams of several queue pairs. Those of one queue pair are in the
// order of the bursts, which are written in their order:
//
//	burst 1  ACK of QP 1, ACK of QP 2, ACK of QP 3
//	burst 2  SEND of QP 1, SEND of QP 2, SEND of QP 3
//
// The network sees the same datagrams as if each queue pair sent for itself. The system has fewer
// to handle: it treats a burst as one packet, and so does the system of a peer that joins what it
// receives. That system steers a burst to a process by its first datagram, so a burst has queue
// pairs of one share of the peer's host: of one process, see package portshare.

// NewGroup implements engine.Joiner.
func (c *Conn) NewGroup() engine.Group { return pumpers.Get().(*pumper) }

// Add implements engine.Group.
func (g *pumper) Add(now monotime.Time, of *engine.Conn) bool {
	c, ok := ConnOf(of)
	if !ok || c.ring != nil || c.passes != nil || c.each != nil || len(c.sources) != 1 ||
		!c.sources[0].cuts() || c.Engine().Capture() != nil {
		return false
	}
	for i := 0; !c.Closed() && c.ring == nil; {
		if i == engine.BurstsPerWrite {
			c.Unlock()
			g.writeGroup()
			c.Lock()
			i = 0
			continue
		}
		b := g.bursts[i]
		if i < g.n {
			if b.Full() || g.shares[i] != c.steeredTo {
				i++
				continue
			}
			b.NextTurn()
		} else {
			b.Limit(roce.MaxSegments)
		}
		b.PlaceAck(roce.AckAlone)
		if c.ack.Waiting() {
			if _, ok := c.packets.AckMayWait(); ok {
				break
			}
			b.PlaceAck(roce.AckLater)
		}
		switch {
		case c.packets.PollOutput(now, b):
			c.Engine().NoteMessage(b.Longest())
			g.sources[i], g.shares[i], g.n = c.sources[0], c.steeredTo, max(g.n, i+1)
		case i < g.n && b.Refused():
			i++
		default:
			return true
		}
	}
	return true
}

// Write implements engine.Group.
func (g *pumper) Write() {
	g.writeGroup()
	pumpers.Put(g)
}

// writeGroup writes the bursts of a group and empties them.
func (g *pumper) writeGroup() {
	for from := 0; from < g.n; {
		to := from + 1
		for to < g.n && g.sources[to] == g.sources[from] {
			to++
		}
		g.sources[from].write(g.bursts[from:to], g.out[from:to], "")
		from = to
	}
	for i, b := range g.bursts[:g.n] {
		b.Reset()
		g.sources[i] = nil
	}
	g.n = 0
}

var _ engine.Joiner = (*Conn)(nil)
