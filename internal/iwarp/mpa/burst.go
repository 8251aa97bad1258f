// SPDX-License-Identifier: BSD-2-Clause

package mpa

import "verbena/internal/mem"

// Bounds of a burst.
const (
	MaxFPDUs      = 128
	MaxBurstBytes = 512 << 10 // enough to fill a socket's buffer, not to starve other connections
	arenaBytes    = 160 << 10 // two FPDUs of the largest size, copied, with their markers
	maxIov        = 1000      // below IOV_MAX of Linux, 1024

	// copyBelow is the payload size up to which it is copied into the burst
	// instead of being pointed at: one contiguous write beats more entries of
	// the scatter list.
	copyBelow = 512
)

// Burst is a run of whole FPDUs to be written to the stream, in order and before any later burst. A
// Framer fills it; its writer calls Reset.
//
// Payload is copied or pointed at in place; regions pointed at are held until
// Reset, so that deregistering waits for the write.
type Burst struct {
	n     int
	bytes int
	held  []mem.Span
	iov   [][]byte
	arena []byte
	mark  int // arena bytes already in iov
}

// NewBurst returns an empty burst with its buffers allocated.
func NewBurst() *Burst {
	return &Burst{arena: make([]byte, 0, arenaBytes), iov: make([][]byte, 0, maxIov),
		held: make([]mem.Span, 0, MaxFPDUs)}
}

// Reset releases the burst's memory and empties it.
func (b *Burst) Reset() {
	for i := range b.held {
		b.held[i].Release()
	}
	clear(b.held)
	clear(b.iov)
	*b = Burst{held: b.held[:0], iov: b.iov[:0], arena: b.arena[:0]}
}

// Len returns the number of FPDUs.
func (b *Burst) Len() int { return b.n }

// Bytes returns the bytes of all FPDUs.
func (b *Burst) Bytes() int { return b.bytes }

// Iov returns the bytes as a scatter list, valid until Reset.
func (b *Burst) Iov() [][]byte {
	b.flush()
	return b.iov
}

// flush adds the last bytes of the arena to the scatter list.
func (b *Burst) flush() {
	if n := len(b.arena); n > b.mark {
		b.iov = append(b.iov, b.arena[b.mark:n:n])
		b.mark = n
	}
}

// undo takes back the additions since.
func (b *Burst) undo(to Burst) {
	clear(b.iov[len(to.iov):])
	*b = to
}
