// SPDX-License-Identifier: BSD-2-Clause

package engine

import "verbena/internal/monotime"

// A Joiner is a Transport whose Conns may send together, in fewer packets of the system than each
// would need for itself:
//
//	Conn 1  ACK, answer ─┐
//	Conn 2  ACK, answer ─┼─► Group.Add ─► Group.Write: all ACKs, all answers
//	Conn 3  ACK, answer ─┘
type Joiner interface {
	Transport
	// NewGroup returns an empty group. Its Write ends it.
	NewGroup() Group
}

// A Group holds what several Conns send together. One thread uses it.
type Group interface {
	// Add adds the output of a Conn, which is locked, and which this thread pumps. It may unlock it
	// meanwhile. It reports false, and adds nothing, if the Conn sends for itself.
	Add(now monotime.Time, c *Conn) bool
	// Write writes the output that was added and is not written yet. The caller holds no lock of a
	// Conn.
	Write()
}

// Joint pumps several Conns, one after the other, and writes their output together. They stay
// pumping until Finish: other threads leave their work in the queues.
type Joint struct {
	Now   monotime.Time
	group Group // nil until there is something in it
	conns [maxJoint]*Conn
	n     int
}

// Empty reports whether Finish has nothing to do.
func (j *Joint) Empty() bool { return j.group == nil }

// maxJoint bounds the Conns that a Joint keeps pumping.
const maxJoint = 32

// PumpUnlock is Conn.PumpUnlock. The output may leave with Finish only.
func (j *Joint) PumpUnlock(c *Conn) {
	if c.joiner == nil || c.pumping || c.closed {
		c.PumpUnlock(j.Now)
		return
	}
	if j.n == maxJoint {
		c.mu.Unlock()
		j.Finish()
		c.mu.Lock()
		j.PumpUnlock(c)
		return
	}
	if j.group == nil {
		j.group = c.joiner.NewGroup()
	}
	c.beginPump()
	if !j.group.Add(j.Now, c) {
		c.pumping = false
		c.PumpUnlock(j.Now)
		return
	}
	c.mu.Unlock()
	j.conns[j.n] = c
	j.n++
}

// Finish writes the output that is left. The caller holds no lock of a Conn.
func (j *Joint) Finish() {
	if j.group == nil {
		return
	}
	j.group.Write()
	conns := j.conns[:j.n]
	j.group, j.n = nil, 0
	for _, c := range conns { // all, before the application is called
		c.mu.Lock()
		c.pumping = false
		c.mu.Unlock()
	}
	for _, c := range conns {
		c.mu.Lock()
		if c.more {
			c.PumpUnlock(j.Now)
		} else {
			c.endPumpUnlock()
		}
	}
}
