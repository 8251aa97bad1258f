// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"sync"
	"sync/atomic"

	"verbena/ib"
	"verbena/internal/sys/portshare"
)

// connTable finds connections by queue pair number. Look-ups take no lock.
type connTable struct {
	chunks [slotQPNs / connChunk]atomic.Pointer[[connChunk]atomic.Pointer[Conn]]

	mu    sync.Mutex
	base  ib.QPN // of the process's slot
	limit uint32 // one past the slot's last number: the last slot lacks QPMulticast
	order qpnOrder
	next  uint32 // place in order: numbers rotate, so none is reused soon
	count int

	pass    func(*portshare.Numbers) // immutable; nil: everything passes
	passed  uint32                   // numbers from next on that pass, and have not been given out
	removed int                      // numbers that pass and are nobody's any more
}

const (
	slotQPNs  = 1 << qpnBits // numbers in one of the 64 slots of the 24-bit space
	connChunk = 64           // small: numbers lie anywhere in the slot
	firstQPN  = 0x10         // below are the numbers with a fixed meaning

	// passAhead is how many numbers pass before they are given out, and how many may go
	// on to when they are nobody's: the kernel is told of each once in so many.
	passAhead = 64
)

// tell has the kernel pass what is for the numbers given out and for those that
// come next. t.mu is held, or nobody else has t.
func (t *connTable) tell() {
	t.passed, t.removed = passAhead, 0
	if t.pass == nil {
		return
	}
	var n portshare.Numbers
	for i := range t.chunks {
		chunk := t.chunks[i].Load()
		if chunk == nil {
			continue
		}
		for j := range chunk {
			if chunk[j].Load() != nil {
				n.Add(ib.QPN(i*connChunk + j))
			}
		}
	}
	for i := range uint32(passAhead) {
		n.Add(ib.QPN(t.order.number((t.next + i) % slotQPNs)))
	}
	t.pass(&n)
}

// find returns the connection of a number, or nil.
func (t *connTable) find(q ib.QPN) *Conn {
	i := uint32(q) & (slotQPNs - 1)
	chunk := t.chunks[i/connChunk].Load()
	if chunk == nil {
		return nil
	}
	if c := chunk[i%connChunk].Load(); c != nil && c.qpn == q {
		return c
	}
	return nil
}

// reserve gives out a number; publish makes its connection findable.
func (t *connTable) reserve() (ib.QPN, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count >= int(t.limit-firstQPN) {
		return 0, false
	}
	for {
		if t.passed == 0 {
			t.tell()
		}
		t.passed--
		i := t.order.number(t.next)
		t.next = (t.next + 1) % slotQPNs
		if i < firstQPN || i >= t.limit {
			continue
		}
		p := &t.chunks[i/connChunk]
		chunk := p.Load()
		if chunk == nil {
			chunk = new([connChunk]atomic.Pointer[Conn])
			p.Store(chunk)
		}
		if chunk[i%connChunk].CompareAndSwap(nil, reserved) {
			t.count++
			return t.base | ib.QPN(i), true
		}
	}
}

// reserved marks a number given out whose connection is still being made.
var reserved = &Conn{qpn: ^ib.QPN(0)}

func (t *connTable) publish(c *Conn) {
	i := uint32(c.qpn) & (slotQPNs - 1)
	t.chunks[i/connChunk].Load()[i%connChunk].Store(c)
}

func (t *connTable) remove(c *Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := uint32(c.qpn) & (slotQPNs - 1)
	t.chunks[i/connChunk].Load()[i%connChunk].Store(nil)
	t.count--
	if t.removed++; t.removed == passAhead {
		t.tell()
	}
}

// each calls f for every connection.
func (t *connTable) each(f func(*Conn)) {
	for i := range t.chunks {
		chunk := t.chunks[i].Load()
		if chunk == nil {
			continue
		}
		for j := range chunk {
			if c := chunk[j].Load(); c != nil && c != reserved {
				f(c)
			}
		}
	}
}
