// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"verbena/ib"
	"verbena/internal/sys/entropy"
)

// connTable finds connections by queue pair number. Look-ups take no lock.
type connTable struct {
	chunks [slotQPNs / connChunk]atomic.Pointer[[connChunk]atomic.Pointer[Conn]]

	mu    sync.Mutex
	base  ib.QPN // of the process's slot
	limit uint32 // one past the slot's last number: the last slot lacks QPMulticast
	order qpnOrder
	parts [Parts]connPart
	count int

	pass    func(iter.Seq[ib.QPN]) // nil: everything passes. Immutable after Engine.New
	removed int                    // numbers that pass and have no queue pair any more
}

// connPart is a part of the numbers.
type connPart struct {
	next   uint32 // place in order: numbers rotate, so none is reused soon
	used   bool   // numbers of it were asked for
	passed uint32 // numbers from next on that pass, and have not been given out
}

const (
	slotQPNs  = 1 << qpnBits // numbers in one of the 1,024 slots of the 24-bit space
	partQPNs  = 1 << placeBits
	connChunk = 64   // small: numbers lie anywhere in the slot
	firstQPN  = 0x10 // below are the numbers with a fixed meaning

	// passAhead is the number of QPNs that pass the kernel's filter before they are given out. As
	// many may still pass without an owner. So the filter is set only once in so many.
	passAhead = 64
)

// Numbers are the queue pair numbers of this process.
type Numbers struct {
	Slot        int    // the top ten bits of all of them, 0 if the process has all numbers
	Name        string // of the process; see Engine.Name
	First, Last ib.QPN
	// Pass makes the network drop packets for other numbers than these. It compares the low bits.
	// If Pass is nil, all packets pass.
	Pass func(iter.Seq[ib.QPN])
}

func (t *connTable) allot(n Numbers) {
	t.base = n.First &^ (slotQPNs - 1)
	t.limit = min(uint32(n.Last-t.base)+1, slotQPNs)
	// A process that takes over a slot should not get packets sent to the last owner's numbers, nor
	// those that strangers guess.
	t.order.key = entropy.Uint64()
	for i := range t.parts {
		t.parts[i].next = rand.Uint32N(partQPNs)
	}
	t.parts[t.partOf(0)].used = true // most processes use no other
	if t.pass = n.Pass; t.pass != nil {
		t.tell()
	}
}

// partOf returns the part of a Lane, by its number.
func (t *connTable) partOf(lane int) int { return (lane + int(t.order.key%Parts)) % Parts }

// tell makes the kernel pass packets for the numbers given out and for those that come next. t.mu
// is held, or no other thread has t.
func (t *connTable) tell() {
	t.removed = 0
	used := uint32(0)
	for i := range t.parts {
		if t.parts[i].used {
			used++
		}
	}
	for i := range t.parts {
		if p := &t.parts[i]; p.used {
			p.passed = passAhead / used
		}
	}
	if t.pass == nil {
		return
	}
	t.pass(t.passing)
}

// passing yields the numbers given out and those that come next.
func (t *connTable) passing(yield func(ib.QPN) bool) {
	for i := range t.chunks {
		chunk := t.chunks[i].Load()
		if chunk == nil {
			continue
		}
		for j := range chunk {
			if chunk[j].Load() != nil && !yield(ib.QPN(i*connChunk+j)) {
				return
			}
		}
	}
	for part := range t.parts {
		p := &t.parts[part]
		for i := range p.passed {
			if !yield(ib.QPN(t.order.number(part, p.next+i))) {
				return
			}
		}
	}
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

// reserve gives out a number, of a part if that has one left. publish makes its connection
// findable.
func (t *connTable) reserve(part int) (ib.QPN, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range Parts {
		if q, ok := t.reserveOf((part + i) % Parts); ok {
			return q, true
		}
	}
	return 0, false
}

// reserveOf gives out a number of a part. t.mu is held.
func (t *connTable) reserveOf(part int) (ib.QPN, bool) {
	if t.count >= int(t.limit-firstQPN) {
		return 0, false
	}
	of := &t.parts[part]
	for range partQPNs {
		if of.passed == 0 {
			of.used = true
			t.tell()
		}
		of.passed--
		i := t.order.number(part, of.next)
		of.next = (of.next + 1) % partQPNs
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
	return 0, false
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
