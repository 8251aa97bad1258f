// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"verbena/internal/monotime"
	wire "verbena/internal/wire/trp"
)

// keepAlive finds out that an idle peer is gone, whose FIN was lost or never sent. A process that
// was killed says nothing, and a peer that only receives would wait for ever.
type keepAlive struct {
	at    monotime.Time // when to look
	heard monotime.Time // when something of the peer came
	asked int           // times since
	due   bool          // a probe is to be sent
}

// After maxProbes probes without an answer, half a minute, the association ends. A peer that was
// stopped for a moment survives.
const (
	maxProbes     = 10
	probeInterval = 3 * monotime.Second
)

func (c *Conn) startKeepAlive(now monotime.Time) {
	if c.KeepAlive > 0 && c.telling {
		c.alive.at = now.Add(c.KeepAlive)
	}
}

// keepAlive looks whether the peer was heard of. While segments are outstanding,
// their own timer finds out.
func (c *Conn) keepAlive(now monotime.Time) {
	k := &c.alive
	switch quiet := k.heard.Add(c.KeepAlive); {
	case now.Before(quiet):
		k.at = quiet
	case c.snd.una < c.snd.next:
		k.at = now.Add(c.KeepAlive)
	case k.asked == maxProbes:
		c.fail(now, Timeout)
	default:
		k.asked++
		k.due = true
		k.at = now.Add(probeInterval)
	}
}

// sendProbe puts a probe into a burst: a byte in the place of a segment that has
// arrived, which is acknowledged again.
func (c *Conn) sendProbe(b *Burst) {
	if !c.alive.due {
		return
	}
	c.alive.due = false
	c.count.By[Probes]++
	h := wire.Header{PSN: wire.PSN(c.snd.una - 1), AckPSN: wire.PSN(c.rcv.next)}
	b.control(c.peer, &wire.Packet{Header: h, Payload: probe[:]})
}

var probe [1]byte
