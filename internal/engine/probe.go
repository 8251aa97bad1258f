// SPDX-License-Identifier: BSD-2-Clause

package engine

import "verbena/internal/monotime"

// A Probe shows and moves engine state that tests of the transports cannot reach from outside. No
// program uses it.
type Probe struct{ eng *Engine }

// Probe returns the engine's.
func (e *Engine) Probe() Probe { return Probe{e} }

// Napping reports whether the background goroutine leaves the inputs to polling threads.
func (p Probe) Napping() bool { return p.eng.bg.napping.Load() }

// StopBackground ends the background goroutine.
func (p Probe) StopBackground() { p.eng.bg.stop() }

// Delayed returns the number of delayed acknowledgements.
func (p Probe) Delayed() (n int) {
	for i := range p.eng.lanes {
		n += int(p.eng.lanes[i].delayed.n.Load())
	}
	return n
}

// AnswersWait reports whether answers wait for others.
func (p Probe) AnswersWait() bool {
	for i := range p.eng.lanes {
		if p.eng.lanes[i].answers.n.Load() > 0 {
			return true
		}
	}
	return false
}

// Due returns the number of goroutines that were woken and have not run since.
func (p Probe) Due() int32 { return p.eng.readToken.due.Load() }

// Delay makes the next Flush send an acknowledgement, as if it was delayed.
func (p Probe) Delay(d *DelayedAck) bool { return d.lane.delayed.add(d) }

// Deadline returns the first timer's time.
func (p Probe) Deadline() monotime.Time { return p.eng.timers.deadline() }

// Inputs returns all inputs but rings.
func (p Probe) Inputs() (all []Input) {
	for _, in := range *p.eng.inputs.Load() {
		all = append(all, in.Input)
	}
	return all
}

// Renumber has the next queue pair get the number that FirstNumber returns.
func (p Probe) Renumber() { p.eng.conns.order, p.eng.conns.parts = qpnOrder{}, [Parts]connPart{} }

// FirstNumber returns the low bits of a number.
func FirstNumber() uint32 { return qpnOrder{}.number(0, 0) }

// SetPumping makes c, which is locked, look as if a thread flushed its output.
func (p Probe) SetPumping(c *Conn, pumping bool) { c.pumping = pumping }
