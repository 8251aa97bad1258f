// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"fmt"
	"sync/atomic"
)

const (
	chunkBits  = 10
	chunkSlots = 1 << chunkBits

	// quarantineSlots is the number of slots that must be freed after a slot before it
	// is given out again. With 256 tags a slot, a key comes back after a
	// quarter of a million others were freed at the earliest.
	quarantineSlots = 1024

	// tagStep is coprime to 256: a slot goes through all its tags before one
	// comes again.
	tagStep = 0x6d

	noSlot = ^uint32(0)
)

// A slot is one row of the key table.
type slot struct {
	entry atomic.Pointer[keyEntry] // the rights of its key, nil for none

	// guarded by Table.mu
	region *Region // whose key this is,
	window *Window // or this
	next   uint32  // of the free list
	tag    uint8   // last tag given out
}

type chunk [chunkSlots]slot

// hold takes a reference on the memory of g, which was loaded from s before.
// It returns false if g was revoked meanwhile: the look-up must begin again.
//
// The revoking thread clears the slot first and reads the gate then. This look-up enters the
// gate first and reads the slot then. So either the look-up sees that the entry is gone, or
// drain sees the look-up.
func (s *slot) hold(g *keyEntry) bool {
	g.gate.hold()
	if s.entry.Load() == g {
		return true
	}
	g.gate.release()
	return false
}

// slotOf returns the row that key would be in, nil if there is none.
func (t *Table) slotOf(key uint32) *slot {
	n := t.perm.show(key >> tagBits)
	dir := *t.chunks.Load()
	if int(n>>chunkBits) >= len(dir) {
		return nil
	}
	return &dir[n>>chunkBits][n&(chunkSlots-1)]
}

func (t *Table) slotNumber(n uint32) *slot {
	return &(*t.chunks.Load())[n>>chunkBits][n&(chunkSlots-1)]
}

// takeLocked returns a free slot and its new key: the one free for the longest
// time if that is out of quarantine, else a fresh one.
func (t *Table) takeLocked() (n, key uint32, err error) {
	if t.freeLen <= quarantineSlots || t.freeHead == noSlot {
		if t.perm.hide(t.fresh) == 0 {
			t.fresh++ // keys 0 to 255 look like "no key" to too much code
		}
		if t.fresh < maxSlots {
			n = t.fresh
			t.fresh++
			t.growLocked(n)
			s := t.slotNumber(n)
			s.tag = uint8(t.seed())
			return n, t.perm.key(n, s.tag), nil
		}
	}
	if t.freeHead == noSlot {
		return 0, 0, fmt.Errorf("%w: all %d are in use", ErrNoKey, maxSlots)
	}
	n = t.freeHead
	s := t.slotNumber(n)
	t.freeHead = s.next
	if t.freeHead == noSlot {
		t.freeTail = noSlot
	}
	t.freeLen--
	s.tag += tagStep
	return n, t.perm.key(n, s.tag), nil
}

// growLocked makes sure that the chunk of slot n is there. The directory is
// replaced, never changed, because look-ups read it without the lock.
func (t *Table) growLocked(n uint32) {
	dir := *t.chunks.Load()
	if int(n>>chunkBits) < len(dir) {
		return
	}
	grown := append(dir[:len(dir):len(dir)], new(chunk))
	t.chunks.Store(&grown)
}

// giveLocked puts a slot, whose rights are revoked, at the end of the free list.
func (t *Table) giveLocked(n uint32) {
	s := t.slotNumber(n)
	s.region, s.window, s.next = nil, nil, noSlot
	if t.freeTail == noSlot {
		t.freeHead = n
	} else {
		t.slotNumber(t.freeTail).next = n
	}
	t.freeTail = n
	t.freeLen++
}

// renewLocked gives slot n its next tag and returns the new key.
func (t *Table) renewLocked(n uint32) uint32 {
	s := t.slotNumber(n)
	s.tag += tagStep
	return t.perm.key(n, s.tag)
}
