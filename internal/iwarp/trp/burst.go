// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"net/netip"

	"verbena/internal/mem"
	wire "verbena/internal/wire/trp"
)

// Bounds of a burst: one UDP_SEGMENT send may carry as much on every kernel.
const (
	MaxSegments   = 64
	MaxBurstBytes = 65000 // below 65,507, the longest UDP payload over IPv4
)

// MaxSegmentBytes is the longest DDP segment that fits one datagram of ours.
const MaxSegmentBytes = MaxBurstBytes - wire.HeaderBytes

// copyBelow is the payload size up to which a segment is copied into the burst instead of being
// pointed at: one contiguous write beats three entries of the scatter list.
const copyBelow = 512

// Burst holds datagrams to one destination: all of SegmentBytes but
// the last, which may be shorter, so that one UDP_SEGMENT send carries it. A
// Conn fills it; the engine writes it and calls Reset.
//
// Memory pointed at is held until Reset, so that deregistering it waits for the
// write.
type Burst struct {
	dst      netip.AddrPort
	segBytes int
	n        int
	limit    int
	bytes    int
	closed   bool // a shorter datagram ended the burst
	held     []mem.Span
	iov      [][]byte
	arena    []byte
	mark     int // arena bytes already in iov
}

// NewBurst returns an empty burst with its buffers allocated.
func NewBurst() *Burst {
	return &Burst{limit: MaxSegments, arena: make([]byte, 0, MaxBurstBytes),
		iov: make([][]byte, 0, 2*MaxSegments+1), held: make([]mem.Span, 0, MaxSegments)}
}

// Reset releases the burst's memory and empties it.
func (b *Burst) Reset() {
	for i := range b.held {
		b.held[i].Release()
	}
	clear(b.held)
	clear(b.iov)
	*b = Burst{limit: b.limit, held: b.held[:0], iov: b.iov[:0], arena: b.arena[:0]}
}

// Limit sets how many datagrams a burst may have: 1 where the system does not
// cut bursts.
func (b *Burst) Limit(n int) { b.limit = max(1, min(n, MaxSegments)) }

// Dst returns the destination of the burst.
func (b *Burst) Dst() netip.AddrPort { return b.dst }

// SegmentBytes returns the size of every datagram but the last.
func (b *Burst) SegmentBytes() int { return b.segBytes }

// Len returns the number of datagrams.
func (b *Burst) Len() int { return b.n }

// Bytes returns the UDP payload bytes of all datagrams.
func (b *Burst) Bytes() int { return b.bytes }

// Seal completes the scatter list; the engine calls it before Iov.
func (b *Burst) Seal() { b.flush() }

// Iov returns the bytes of the burst as a scatter list, valid until Reset.
func (b *Burst) Iov() [][]byte { return b.iov }

// begin makes room for a datagram of size bytes. It reports false, and changes
// nothing, if that does not fit this burst.
func (b *Burst) begin(dst netip.AddrPort, size int) bool {
	switch {
	case b.n == 0:
		b.dst, b.segBytes = dst, size
	case b.dst != dst || b.closed || b.n == b.limit || size > b.segBytes ||
		b.bytes+size > MaxBurstBytes:
		return false
	}
	return true
}

func (b *Burst) end(size int) {
	b.n++
	b.bytes += size
	b.closed = size < b.segBytes
}

// control adds a datagram without a segment.
func (b *Burst) control(dst netip.AddrPort, p *wire.Packet) bool {
	size := p.Bytes()
	if !b.begin(dst, size) {
		return false
	}
	b.arena = p.Append(b.arena)
	b.end(size)
	return true
}

// segment adds a datagram with the segment of a slot; the slot keeps its own hold on the memory. ok
// is false, and the burst as before, if the memory cannot be read any more. A retransmission is
// copied: the segment may have been lost because the system could not read it, which shows here.
func (b *Burst) segment(dst netip.AddrPort, h wire.Header, s *slot) (fits, ok bool) {
	size := wire.HeaderBytes + s.bytes
	if !b.begin(dst, size) {
		return false, true
	}
	at := len(b.arena)
	b.arena = append(h.Append(b.arena), s.head...)
	if s.bytes-len(s.head) <= copyBelow || s.state == lost {
		for i := range s.payload {
			from := len(b.arena)
			b.arena = b.arena[:from+s.payload[i].Len()]
			if !s.payload[i].CopyOut(0, b.arena[from:]) {
				b.arena = b.arena[:at]
				return true, false
			}
		}
	} else {
		b.flush()
		for i := range s.payload {
			s.payload[i].Hold()
			b.held = append(b.held, s.payload[i])
			b.iov = s.payload[i].AppendSlices(b.iov, 0, s.payload[i].Len())
		}
	}
	b.end(size)
	return true, true
}

// flush moves the arena's new bytes into the scatter list.
func (b *Burst) flush() {
	if tail := b.arena[b.mark:]; len(tail) > 0 {
		b.iov = append(b.iov, tail)
		b.mark = len(b.arena)
	}
}
