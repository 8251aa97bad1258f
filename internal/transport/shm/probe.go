// SPDX-License-Identifier: BSD-2-Clause

package shm

import (
	"sync/atomic"

	"verbena/internal/sys/shmring"
)

// A Probe shows and moves state that tests of transports cannot reach from outside. No program uses
// it.
type Probe struct{ rings *Rings }

// Probe returns that of the rings.
func (l *Rings) Probe() Probe { return Probe{l} }

// Reading returns how many rings are read.
func (p Probe) Reading() int { return len(*p.rings.rings.Load()) }

// Ends returns how many rings to other processes are not closed.
func (p Probe) Ends() int {
	p.rings.mu.Lock()
	defer p.rings.mu.Unlock()
	return len(p.rings.ends)
}

// On reports whether there can be rings.
func (p Probe) On() bool { return p.rings.on }

// Hold keeps the first ring from being read until release is called.
func (p Probe) Hold() (release func()) {
	r := (*p.rings.rings.Load())[0]
	r.rxMu.Lock()
	return r.rxMu.Unlock
}

// HangUp ends the first ring at the reader's side.
func (p Probe) HangUp() { (*p.rings.rings.Load())[0].in.HangUp() }

// NewOut returns a ring that tx writes.
func (p Probe) NewOut(tx *shmring.Producer) *Out {
	return &Out{rings: p.rings, slot: p.rings.self.Slot, tx: tx, sent: new(atomic.Uint64)}
}

// Alive reports whether a ring is written: its reader took it, and is not known to have gone. What
// is written between the end of a reader and that knowledge is lost.
func (p Probe) Alive(o *Out) bool { return o.accepted() }

// Write writes any bytes to a ring.
func (p Probe) Write(o *Out, b []byte) { p.WriteEntry(o, b, false) }

// WriteEntry is Write of an entry whose first bytes may be marked as a prefix.
func (p Probe) WriteEntry(o *Out, b []byte, prefixed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if memory := o.tx.Reserve(); memory != nil {
		o.tx.Commit(copy(memory, b), &shmring.Message{Prefixed: prefixed})
		if o.tx.MustWake() {
			o.out.Wake()
		}
	}
}
