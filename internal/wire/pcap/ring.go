// SPDX-License-Identifier: BSD-2-Clause

package pcap

import (
	"fmt"
	"io"
	"math"
	"sync"
	"time"
)

const (
	// MinRing is the least number of bytes of a Ring: some of the largest packets.
	MinRing = 1 << 20
	// pieceBytes bounds the writes of Contents.WriteTo: the ring takes packets again in the room of
	// each.
	pieceBytes = 1 << 15
	// allRead is a position that no ring reaches.
	allRead = math.MaxUint64
)

// Ring keeps the newest packets in memory, as the blocks of a pcapng file. Several goroutines may
// call its methods.
type Ring struct {
	device string
	mem    []byte

	holding sync.Mutex // of the Contents that there are

	mu     sync.Mutex
	block  []byte // guarded by mu: reused
	oldest uint64 // guarded by mu: where the oldest block begins, of all bytes since the start
	end    uint64 // guarded by mu: where the newest ends
	blocks int    // guarded by mu: between them
	calls  int    // guarded by mu: of these blocks
	unread uint64 // guarded by mu: what the Contents have not written begins here; or allRead
	full   bool   // guarded by mu: a block has found no room since unread moved
	missed int    // guarded by mu: packets for which that left no room
	absent int    // guarded by mu: calls for which that left no room
}

// NewRing returns a Ring of some bytes, at least MinRing. Wireshark shows device as the name of the
// interface.
func NewRing(bytes int, device string) *Ring {
	return &Ring{device: device, mem: make([]byte, max(bytes, MinRing)), unread: allRead}
}

// Bytes returns the size of the ring.
func (r *Ring) Bytes() int { return len(r.mem) }

// Write keeps one datagram, as Writer.Write writes it.
func (r *Ring) Write(d *Datagram, payload ...[]byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full {
		r.missed++
		return nil
	}
	b, err := appendDatagram(r.block[:0], d, r.commentLocked(d.Comment), payload)
	return r.keepPacketLocked(b, err)
}

// WriteSegment keeps a TCP segment, as Writer.WriteSegment writes it.
func (r *Ring) WriteSegment(s *Segment, payload ...[]byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full {
		r.missed++
		return nil
	}
	b, err := appendSegment(r.block[:0], s, r.commentLocked(s.Comment), payload)
	return r.keepPacketLocked(b, err)
}

// commentLocked returns a packet's comment, which says how many are missing before it.
func (r *Ring) commentLocked(comment string) string {
	if r.missed == 0 {
		return comment
	}
	missing := fmt.Sprintf("%d packets are missing before this one: the ring was written out",
		r.missed)
	if comment == "" {
		return missing
	}
	return missing + "\n" + comment
}

// keepPacketLocked keeps the block of a packet, or counts it as missing.
func (r *Ring) keepPacketLocked(b []byte, err error) error {
	switch {
	case err != nil:
		r.block = b[:0]
	case r.keepLocked(b):
		r.missed = 0
	default:
		r.missed++
	}
	return err
}

// keepLocked puts a block in the place of the oldest ones. It returns false if the Contents have
// not written these yet.
func (r *Ring) keepLocked(b []byte) bool {
	r.block = b[:0]
	for r.end+uint64(len(b))-r.oldest > uint64(len(r.mem)) {
		var head [8]byte
		r.read(head[:], r.oldest)
		next := r.oldest + uint64(order.Uint32(head[4:]))
		if next > r.unread {
			r.full = true
			return false
		}
		r.oldest = next
		r.blocks--
		if order.Uint32(head[:]) == BlockJournal {
			r.calls--
		}
	}
	at := r.end % uint64(len(r.mem))
	n := copy(r.mem[at:], b)
	copy(r.mem, b[n:])
	r.end += uint64(len(b))
	r.blocks++
	return true
}

// read copies bytes of the ring.
func (r *Ring) read(b []byte, from uint64) {
	n := copy(b, r.mem[from%uint64(len(r.mem)):])
	copy(b[n:], r.mem)
}

// Contents are a Ring's packets of one moment. Until Release the ring keeps those that WriteTo has
// not written, and newer ones as far as there is room. The first packet behind others that found
// none has a comment that says how many there were.
type Contents struct {
	Packets int
	Span    time.Duration // from the first packet or call to Hold

	ring   *Ring
	from   uint64
	to     uint64
	header []byte
}

// Hold returns the contents. It waits until others have released theirs.
func (r *Ring) Hold() *Contents {
	r.holding.Lock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unread = r.oldest
	c := &Contents{Packets: r.blocks - r.calls, ring: r, from: r.oldest, to: r.end,
		header: appendHeader(nil, r.device)}
	if r.blocks > 0 {
		var head [callHead]byte
		r.read(head[:], r.oldest)
		c.Span = max(time.Since(blockTime(head[:])), 0)
	}
	return c
}

// Bytes returns the size of the file that WriteTo writes.
func (c *Contents) Bytes() int { return len(c.header) + int(c.to-c.from) }

// WriteTo writes a pcapng file of the packets, the oldest first, in pieces of at most 32 KiB. It
// may be called once.
func (c *Contents) WriteTo(w io.Writer) (n int64, err error) {
	k, err := w.Write(c.header)
	n = int64(k)
	for at := c.from; at < c.to && err == nil; {
		piece := c.ring.piece(at, c.to)
		k, err = w.Write(piece)
		n += int64(k)
		at += uint64(k)
		c.ring.readUntil(at)
	}
	return n, err
}

// piece returns the next bytes of the ring, between two positions.
func (r *Ring) piece(from, to uint64) []byte {
	size := uint64(len(r.mem))
	at := from % size
	return r.mem[at:min(at+min(to-from, pieceBytes), size)]
}

// readUntil gives new packets the room before a position.
func (r *Ring) readUntil(at uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unread, r.full = at, false
}

// Release ends the use of the contents.
func (c *Contents) Release() {
	c.ring.readUntil(allRead)
	c.ring.holding.Unlock()
}
