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

	pass    func(iter.Seq[ib.QPN]) // nil: everything passes. Immutable after Engine.New
	removed int                    // numbers that pass and have no queue pair any more
}

// connPart is a part of the numbers.
type connPart struct {
	next   uint32 // place in order: numbers rotate, so none is reused soon
	live   uint32 // numbers given out, less those removed
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

	// restQPNs are the numbers that a part keeps free while another has more. Those of destroyed
	// queue pairs rest meanwhile, and each search for a free number is short.
	restQPNs = partQPNs / 4
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
		left := min(p.passed, t.sizeOf(part)-p.live)
		for place := p.next; left > 0; place++ {
			i := t.order.number(part, place)
			if !t.isFree(i) {
				continue
			}
			if left--; !yield(ib.QPN(i)) {
				return
			}
		}
	}
}

// sizeOf returns how many numbers of a part can be given out.
func (t *connTable) sizeOf(part int) uint32 {
	first := max(uint32(part)<<placeBits, firstQPN)
	return max(min(uint32(part+1)<<placeBits, t.limit), first) - first
}

// isFree reports whether a number, less base, can be given out. t.mu is held.
func (t *connTable) isFree(i uint32) bool {
	if i < firstQPN || i >= t.limit {
		return false
	}
	chunk := t.chunks[i/connChunk].Load()
	return chunk == nil || chunk[i%connChunk].Load() == nil
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

// reserve gives out a number, of a part unless that is almost full. publish makes its connection
// findable.
func (t *connTable) reserve(part int) (ib.QPN, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, rest := range [...]uint32{restQPNs, 0} {
		for i := range Parts {
			if of := (part + i) % Parts; t.parts[of].live+rest < t.sizeOf(of) {
				return t.reserveOf(of), true
			}
		}
	}
	return 0, false
}

// reserveOf gives out a number of a part that has one left. t.mu is held.
func (t *connTable) reserveOf(part int) ib.QPN {
	of := &t.parts[part]
	if of.passed == 0 {
		of.used = true
		t.tell()
	}
	i := t.order.number(part, of.next)
	for ; !t.isFree(i); i = t.order.number(part, of.next) {
		of.next = (of.next + 1) % partQPNs
	}
	of.next = (of.next + 1) % partQPNs
	of.passed--
	of.live++
	p := &t.chunks[i/connChunk]
	chunk := p.Load()
	if chunk == nil {
		chunk = new([connChunk]atomic.Pointer[Conn])
		p.Store(chunk)
	}
	chunk[i%connChunk].Store(reserved)
	return t.base | ib.QPN(i)
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
	if t.chunks[i/connChunk].Load()[i%connChunk].Swap(nil) == nil {
		return
	}
	t.parts[i>>placeBits].live--
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
