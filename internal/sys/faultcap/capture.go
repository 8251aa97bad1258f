// SPDX-License-Identifier: BSD-2-Clause

package faultcap

import (
	"sync"
	"time"

	"verbena/internal/wire/pcap"
)

// Sink takes a packet capture and keeps nothing that it is given. It is called by
// one goroutine at a time, and a failure of it shows when its file is closed.
type Sink interface {
	// Write takes a datagram without its payload, and the payload, possibly in pieces.
	Write(d *pcap.Datagram, payload ...[]byte) error
	// WriteSegment takes a segment of a TCP stream.
	WriteSegment(s *pcap.Segment, payload ...[]byte) error
	// WriteCall takes a verbs call.
	WriteCall(c *pcap.Call) error
}

// Capture puts packets of all taps of a process into one order, in the file and
// in time: none comes before the packet that it answers.
//
// Its lock is held from a sent packet's time stamp until the packet is in the file. An answer that
// is read meanwhile waits.
type Capture struct {
	mu   sync.Mutex
	sink Sink // guarded by mu

	// guarded by mu: reused, because the arguments of an interface's method are allocated
	datagram pcap.Datagram
	segment  pcap.Segment
	pieces   [][]byte
}

// NewCapture returns a Capture that shows packets to s.
func NewCapture(s Sink) *Capture { return &Capture{sink: s} }

// begin keeps all other packets out until end is called, and returns the time of
// those that are sent or shown meanwhile. A nil Capture does nothing.
func (c *Capture) begin() (now time.Time) {
	if c != nil {
		c.mu.Lock()
		now = time.Now()
	}
	return now
}

func (c *Capture) end() {
	if c != nil {
		c.mu.Unlock()
	}
}

// write shows c.datagram. The lock is held.
func (c *Capture) write(pieces ...[]byte) {
	c.pieces = append(c.pieces[:0], pieces...)
	_ = c.sink.Write(&c.datagram, c.pieces...) // Close tells
}

// Received shows a datagram, whose time it sets, that another process has received for this one.
func (c *Capture) Received(d *pcap.Datagram) {
	d.Time = c.begin()
	defer c.end()
	c.datagram = *d
	c.datagram.Direction = pcap.Inbound
	c.write(d.Payload)
}

// Call shows a verbs call of now.
func (c *Capture) Call(text string, failed bool) {
	call := pcap.Call{Text: text, Failed: failed, Time: c.begin()}
	defer c.end()
	_ = c.sink.WriteCall(&call) // Close tells
}
