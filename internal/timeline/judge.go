// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

func timeOf(ns int64) time.Duration { return time.Duration(ns) }

// maxFindings bounds the findings of each sort about a connection.
const maxFindings = 8

// judge fills what is known of a connection at the end of the capture.
func (t *Timeline) judge(c *Conn) {
	for _, s := range t.Samples[c.SampleRange[0]:c.SampleRange[1]] {
		h := &c.End(s.OfB).Health
		h.Lost = max(h.Lost, s.Lost)
		if s.Window > 0 {
			h.WindowMax = max(h.WindowMax, s.Window)
			if h.WindowMin == 0 || s.Window < h.WindowMin {
				h.WindowMin = s.Window
			}
		}
	}
	p := &t.Packets
	var given [2]uint64
	for i := c.PacketRange[0]; i < c.PacketRange[1]; i++ {
		b := p.Flags[i]&OfB != 0
		h := &c.End(b).Health
		h.InFlightMax = max(h.InFlightMax, uint64(p.InFlight[i]))
		if p.Flags[i]&GivenUp != 0 {
			given[index(p.Flags[i]&FromB != 0)]++
		}
	}
	for i, e := range []*End{&c.A, &c.B} {
		if e.Lost == 0 || c.Joined() {
			e.Lost = given[i]
		}
	}
	t.find(c)
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Name returns the name of an end: "A" or "B".
func Name(b bool) string { return [2]string{"A", "B"}[index(b)] }

// find writes the findings of a connection: first what failed, then what slowed it.
func (t *Timeline) find(c *Conn) {
	add := func(bad bool, packet int, format string, args ...any) {
		c.Findings = append(c.Findings, Finding{bad, fmt.Sprintf(format, args...), packet})
	}
	if c.Note != "" {
		add(true, t.firstOf(c, Reset), "The connection was %s.", c.Note)
	} else if i := t.firstOf(c, Reset); i >= 0 {
		add(true, i, "The connection was reset at %v.", round(t.Packets.Time[i]))
	}
	if n, ofB := t.unanswered(c); n > 0 {
		add(true, c.PacketRange[1]-1, "%s has not answered: %s of %s to set up the connection.",
			Name(!ofB), count(uint64(n), "packet"), Name(ofB))
	}
	failed, open := 0, 0
	for i := c.OpRange[0]; i < c.OpRange[1]; i++ {
		o := &t.Ops[i]
		switch {
		case o.Status == Failed:
			if failed++; failed <= maxFindings {
				add(true, t.refusalOf(c, i), "%s of %s failed at %v: %s%s.", o.Title(), Name(o.OfB),
					round(o.End), o.Reason, o.memory())
			}
		case o.Status == Open && (o.Repeated > 0 || o.Waited > 0):
			if open++; open <= maxFindings {
				add(true, t.lastOf(c, i), "%s of %s has no answer: %s%s.", o.Title(), Name(o.OfB),
					o.tried(), t.silence(c, o))
			}
		}
	}
	for i, e := range []*End{&c.A, &c.B} {
		name := Name(i == 1)
		if e.RNRs > 0 {
			add(false, t.firstOf(c, RNR), "%s met %s: %s had no receive posted.", name,
				count(e.RNRs, "RNR NAK"), Name(i == 0))
		}
		if naks := slices.Sorted(maps.Keys(e.NAKs)); len(naks) > 0 {
			first := t.firstOf(c, NAK, Refusal)
			for _, k := range naks[:min(len(naks), maxFindings)] {
				add(false, first, "%s met %d × %q.", name, e.NAKs[k], k)
			}
		}
		if e.Repeated > 0 {
			add(false, t.firstOf(c, Repeated), "%s sent %s again%s.", name,
				count(e.Repeated, "packet"), e.rounds())
		}
		if c.Joined() && e.Lost > 0 {
			add(false, t.firstLost(c, i == 1), "Lost, as the receiver's capture has it: %s of "+
				"%s.", count(e.Lost, "packet"), name)
		}
		if e.Late > 0 {
			add(false, t.firstOf(c, Late), "%s of %s came late: reordered, or lost before "+
				"the capture.", count(e.Late, "packet"), name)
		}
		if e.Marked > 0 {
			add(false, t.firstOf(c, CNP), "The network marked %s of %s.",
				count(e.Marked, "packet"), name)
		}
		if e.CNPs > 0 {
			add(false, t.firstOf(c, CNP), "%s met %s.", name,
				count(e.CNPs, "congestion notification"))
		}
		if e.Bad > 0 {
			add(true, t.firstOf(c, Bad), "Malformed or damaged: %s of %s.",
				count(e.Bad, "packet"), name)
		}
	}
}

// count writes a number of things.
func count(n uint64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// tried describes the attempts of an operation that has no answer.
func (o *Op) tried() string {
	text := count(uint64(o.Repeated), "packet") + " sent again"
	if o.Waited > 0 {
		text += ", " + count(uint64(o.Waited), "RNR NAK") + " met"
	}
	return text
}

// memory describes the memory that an operation asked for.
func (o *Op) memory() string {
	if o.rkey == 0 {
		return ""
	}
	return fmt.Sprintf(", for %d bytes at 0x%x by R_Key 0x%08x", o.rkeyBytes, o.va, o.rkey)
}

// silence says since when the other end of an open operation has sent nothing, if that was before
// the operation.
func (t *Timeline) silence(c *Conn, o *Op) string {
	for i := c.PacketRange[1] - 1; i >= c.PacketRange[0]; i-- {
		if t.Packets.Flags[i]&FromB != 0 == o.OfB {
			continue
		}
		if at := t.Packets.Time[i]; at <= o.Start {
			return fmt.Sprintf("; %s sent nothing after %v", Name(!o.OfB), round(at))
		}
		return ""
	}
	return ""
}

// unanswered returns the number of a connection's packets, and their end, if they only set it up
// and the other end has sent none. A packet that ends a connection asks for none.
func (t *Timeline) unanswered(c *Conn) (n int, ofB bool) {
	if !c.asks {
		return 0, false
	}
	p := &t.Packets
	for i := c.PacketRange[0]; i < c.PacketRange[1]; i++ {
		fromB := p.Flags[i]&FromB != 0
		if p.Kind[i] != SetUp || n > 0 && fromB != ofB {
			return 0, false
		}
		n, ofB = n+1, fromB
	}
	return n, ofB
}

// rounds says how often an end began to repeat requests. Responses are repeated when asked for.
func (h *Health) rounds() string {
	if h.Resent == 0 {
		return ""
	}
	return fmt.Sprintf(", in %s, %d of them unasked, by a timer", count(h.Resent, "round"),
		h.TimedOut)
}

func (t *Timeline) firstOf(c *Conn, kinds ...Kind) int {
	for i := c.PacketRange[0]; i < c.PacketRange[1]; i++ {
		if slices.Contains(kinds, t.Packets.Kind[i]) {
			return i
		}
	}
	return -1
}

func (t *Timeline) firstLost(c *Conn, ofB bool) int {
	for i := c.PacketRange[0]; i < c.PacketRange[1]; i++ {
		if f := t.Packets.Flags[i]; f&GivenUp != 0 && (f&FromB != 0) == ofB {
			return i
		}
	}
	return -1
}

// refusalOf returns the packet that refused an operation, or its last.
func (t *Timeline) refusalOf(c *Conn, op int) int {
	for i := c.PacketRange[0]; i < c.PacketRange[1]; i++ {
		if t.Packets.Op[i] == uint32(op) && t.Packets.Kind[i] == Refusal {
			return i
		}
	}
	return t.lastOf(c, op)
}

func (t *Timeline) lastOf(c *Conn, op int) int {
	for i := c.PacketRange[1] - 1; i >= c.PacketRange[0]; i-- {
		if t.Packets.Op[i] == uint32(op) {
			return i
		}
	}
	return -1
}

// round makes a time readable: four digits or so.
func round(ns int64) time.Duration {
	d := time.Duration(ns)
	for unit := time.Second; unit > time.Nanosecond; unit /= 1000 {
		if d >= unit {
			return d.Round(unit / 1000)
		}
	}
	return d
}

// Grade is "bad" if something failed, "warn" if something was repeated or slowed, else "good".
func (c *Conn) Grade() string {
	grade := "good"
	for _, f := range c.Findings {
		if f.Bad {
			return "bad"
		}
		grade = "warn"
	}
	return grade
}

// Transit returns half the least round trip, measured or as the sender has it, and which end's host
// captured: 1 is B. It is the end that has written samples, else the one whose requests take longer
// to be answered.
//
// Of joined captures it returns the least time that a packet takes.
func (c *Conn) Transit(t *Timeline) (ns int64, local int) {
	if c.Joined() {
		return c.Flight, 0
	}
	e := &c.A
	switch {
	case c.SampleRange[1] > c.SampleRange[0]:
		local = index(t.Samples[c.SampleRange[0]].OfB)
	case c.B.RTTs > 0 && c.B.RTTMin > c.A.RTTMin:
		local = 1
	}
	if local == 1 {
		e = &c.B
	}
	least := e.RTTMin
	for _, s := range t.Samples[c.SampleRange[0]:c.SampleRange[1]] {
		if rtt := int64(s.MinRTT); rtt > 0 && s.OfB == (local == 1) && (least == 0 || rtt < least) {
			least = rtt
		}
	}
	return least / 2, local
}
