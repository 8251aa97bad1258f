// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"net/netip"
	"sync/atomic"

	"verbena/internal/engine"
	"verbena/internal/sys/portshare"
	"verbena/internal/sys/udp"
)

// A process begins with one socket at an address. Threads that poll different completion queues
// then wait for each other: one of them reads, and handles the packets of all. So a thread that
// often finds another one reading gets a socket of its own. It is for the part of the queue pair
// numbers that its Lane has (package portshare):
//
//	Lane 0 ─ Port of the address ◄── numbers of the other parts
//	Lane 1 ─ Port of a part      ◄── numbers of part 1
//
// No packet is lost or overtaken by a division. The kernel steers to the new socket from one moment
// on, which nobody reads until the old one has been empty since. When a keeper is replaced, the
// first socket has the packets of all parts for a while, and some may be overtaken.

// division is the state of a Port that may be divided.
type division struct {
	busy  atomic.Bool    // a goroutine divides it, or it can be divided no more
	lanes engine.LaneSet // of the goroutine that divides: those that read the Port
	parts int            // of the same: Ports that it was divided from
}

// The engine numbers queue pairs by the parts that the kernel steers by.
var _ = [1]struct{}{}[portshare.Parts-engine.Parts]

// Divide implements engine.Divider.
func (p *Port) Divide(l *engine.Lane) {
	if d := p.division; d != nil && d.busy.CompareAndSwap(false, true) {
		go func() {
			if p.divide(l.Part()) {
				d.busy.Store(false)
			}
		}()
	}
}

// divide gives a part of the numbers a Port of its own. It reports whether there may be another
// one.
func (p *Port) divide(part int) (more bool) {
	d, t := p.division, p.roce
	of := t.eng.LanesOf(part)
	if d.lanes&of == 0 { // a thread that has found p busy before it had its own
		return true
	}
	s, err := t.member.Part(p.addr, part)
	if err != nil {
		return false // no descriptor is left, or the keeper is an older one: all share p
	}
	own, err := t.addPart(p.addr, s, of)
	if err != nil {
		return false
	}
	if err = t.member.SteerPart(p.addr, part); err == nil {
		p.drain()
		d.lanes, d.parts = d.lanes&^of, d.parts+1
		t.eng.SetLanes(p, d.lanes)
	}
	own.held.Store(false)
	return err == nil && d.parts < portshare.Parts-1
}

// addPart adds a Port that reads nothing yet.
func (t *Transport) addPart(addr netip.Addr, s *udp.Socket, lanes engine.LaneSet) (*Port, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return nil, engine.ErrClosed
	}
	return t.addPort(addr, s, group{}, nil, lanes)
}

// drain returns when all packets that have come by now are handled. It waits for the threads that
// read: their packets come first. Packets for other parts come on, so it ends with as many as the
// socket can have held.
func (p *Port) drain() {
	for left := p.raw.MaxQueued(); left > 0; {
		p.rxMu.Lock()
		n := p.pollUnlock(false)
		if n == 0 {
			return
		}
		left -= n
	}
}

var _ engine.Divider = (*Port)(nil)
