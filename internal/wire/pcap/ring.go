// SPDX-License-Identifier: BSD-2-Clause

package pcap

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// MinRing is the least number of bytes of a Ring: some of the largest packets.
const MinRing = 1 << 20

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
	held   bool   // guarded by mu: there are Contents
	missed int    // guarded by mu: packets that came meanwhile
	absent int    // guarded by mu: calls that came meanwhile
}

// NewRing returns a Ring of some bytes, at least MinRing. Wireshark shows device as the name of the
// interface.
func NewRing(bytes int, device string) *Ring {
	return &Ring{device: device, mem: make([]byte, max(bytes, MinRing))}
}

// Bytes returns the size of the ring.
func (r *Ring) Bytes() int { return len(r.mem) }

// Write keeps one datagram, as Writer.Write writes it.
func (r *Ring) Write(d *Datagram, payload ...[]byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held {
		r.missed++
		return nil
	}
	b, err := appendDatagram(r.block[:0], d, r.commentLocked(d.Comment), payload)
	return r.keepLocked(b, err)
}

// WriteSegment keeps a TCP segment, as Writer.WriteSegment writes it.
func (r *Ring) WriteSegment(s *Segment, payload ...[]byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held {
		r.missed++
		return nil
	}
	b, err := appendSegment(r.block[:0], s, r.commentLocked(s.Comment), payload)
	return r.keepLocked(b, err)
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

// keepLocked puts a block in the place of the oldest ones.
func (r *Ring) keepLocked(b []byte, err error) error {
	r.block = b[:0]
	if err != nil {
		return err
	}
	r.missed = 0
	for r.end+uint64(len(b))-r.oldest > uint64(len(r.mem)) {
		var head [8]byte
		r.read(head[:], r.oldest)
		r.oldest += uint64(order.Uint32(head[4:]))
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
	return nil
}

// read copies bytes of the ring.
func (r *Ring) read(b []byte, from uint64) {
	n := copy(b, r.mem[from%uint64(len(r.mem)):])
	copy(b[n:], r.mem)
}

// Contents holds a Ring's packets of one moment. The ring takes no others until Release; the first
// packet after that has a comment that says how many there were.
type Contents struct {
	Packets int
	Span    time.Duration // from the first packet or call to Hold

	ring   *Ring
	parts  [2][]byte
	header []byte
}

// Hold returns the contents. It waits until others have released theirs.
func (r *Ring) Hold() *Contents {
	r.holding.Lock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = true
	c := &Contents{Packets: r.blocks - r.calls, ring: r, header: appendHeader(nil, r.device)}
	if r.blocks == 0 {
		return c
	}
	var head [callHead]byte
	r.read(head[:], r.oldest)
	c.Span = max(time.Since(blockTime(head[:])), 0)
	size := uint64(len(r.mem))
	from, to := r.oldest%size, r.end%size
	if from < to {
		c.parts[0] = r.mem[from:to]
	} else {
		c.parts = [2][]byte{r.mem[from:], r.mem[:to]}
	}
	return c
}

// Bytes returns the size of the file that WriteTo writes.
func (c *Contents) Bytes() int { return len(c.header) + len(c.parts[0]) + len(c.parts[1]) }

// WriteTo writes a pcapng file of the packets, the oldest first.
func (c *Contents) WriteTo(w io.Writer) (n int64, err error) {
	for _, part := range [][]byte{c.header, c.parts[0], c.parts[1]} {
		k, err := w.Write(part)
		if n += int64(k); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Release lets the ring take packets again.
func (c *Contents) Release() {
	c.ring.mu.Lock()
	c.ring.held = false
	c.ring.mu.Unlock()
	c.ring.holding.Unlock()
}
