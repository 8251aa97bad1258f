// SPDX-License-Identifier: BSD-2-Clause

package shmring

import (
	"slices"
	"sync"
	"sync/atomic"
)

// A Board shows a C program, which polls by itself, where this process's rings are read next. So
// the program calls only when something has come:
//
//	entry.data ──► [ ring's data ]
//	entry.next ──────────►│first word of the next entry│   0: nothing has come
//
// Memory that was ever shown stays mapped (newMapping): a program with an address may read there at
// any later time, and at worst reads another ring's word.
//
// A nil Board shows nothing.
type Board struct {
	shared *boardMemory

	mu    sync.Mutex
	taken []*Consumer // guarded by mu: of the first entries; nil: nobody's
}

// boardMemory is laid out as struct vb_board in cabi/include/engine.h.
type boardMemory struct {
	suffices atomic.Uint32 // SetSuffices
	entries  atomic.Uint32 // the first ones, up to the last that is taken
	mask     uint64        // of next
	_        [48]byte

	polls atomic.Uint64 // the other's: how often it has polled
	_     [56]byte

	at [boardEntries]entry
}

type entry struct {
	data atomic.Uintptr // 0: nobody's
	next atomic.Uint64
}

// boardEntries bounds the memory of a board, and only the entries in use take any. As many
// processes share an address, and each has a ring to this one. A poll looks at the entries in use.
// Further rings are not shown.
const boardEntries = 1024

// Show puts the ring of c, which nobody reads yet and whose memory is a mapping's,
// on the board. It reports false if there is no room.
func (b *Board) Show(c *Consumer) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.taken, nil)
	if i < 0 {
		if i = len(b.taken); i == boardEntries {
			return false
		}
		b.taken = append(b.taken, nil)
	}
	s := &b.shared.at[i]
	s.next.Store(c.next.Load().Load())
	b.taken[i] = c
	c.next.Store(&s.next)
	s.data.Store(addressOf(c.data))
	b.shared.entries.Store(uint32(len(b.taken)))
	return true
}

// Hide takes it off the board again. Nobody reads it any more.
func (b *Board) Hide(c *Consumer) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.taken, c)
	if i < 0 {
		return
	}
	b.shared.at[i].data.Store(0)
	next := new(atomic.Uint64)
	next.Store(c.next.Load().Load())
	b.taken[i] = nil
	c.next.Store(next)
	for n := len(b.taken); n > 0 && b.taken[n-1] == nil; n-- {
		b.taken = b.taken[:n-1]
	}
	b.shared.entries.Store(uint32(len(b.taken)))
}

// SetSuffices says whether reading the board is enough for most polls.
func (b *Board) SetSuffices(yes bool) {
	if b == nil || b.Suffices() == yes {
		return
	}
	v := uint32(0)
	if yes {
		v = 1
	}
	b.shared.suffices.Store(v)
}

// Suffices returns the last argument of SetSuffices.
func (b *Board) Suffices() bool { return b != nil && b.shared.suffices.Load() != 0 }

// Polls returns the number of the other's polls. Several threads may lose some.
func (b *Board) Polls() uint64 {
	if b == nil {
		return 0
	}
	return b.shared.polls.Load()
}
