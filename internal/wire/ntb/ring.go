// SPDX-License-Identifier: BSD-2-Clause

package ntb

// Index counts the entries of a ring since the link came up, modulo 2^32. The
// capacity of a ring is a power of two; entry i is in slot i modulo capacity.
type Index uint32

// Slot returns the slot of an entry.
func (i Index) Slot(capacity uint32) uint32 { return uint32(i) & (capacity - 1) }

// Since returns how many entries lie between o and i.
func (i Index) Since(o Index) uint32 { return uint32(i - o) }

// ValidCap reports whether n entries may be the capacity of a ring: a power of
// two of at most limit.
func ValidCap(n, limit uint32) bool { return n > 0 && n <= limit && n&(n-1) == 0 }

// Position is an index of a WQE or CQE ring with its generation, from 1 on. After a message that
// found no receive, the ring is taken up again from there, and later entries are void. Memory that
// was never written has no generation.
type Position uint64

// NewPosition joins a generation and an index.
func NewPosition(generation uint32, i Index) Position {
	return Position(uint64(generation)<<32 | uint64(i))
}

// Generation returns the generation.
func (p Position) Generation() uint32 { return uint32(p >> 32) }

// Index returns the index.
func (p Position) Index() Index { return Index(p) }

// MaxRing bounds the capacity of a WQE ring, and with it the memory that a peer can make a node set
// aside.
const MaxRing = 1 << 12
