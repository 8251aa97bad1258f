// SPDX-License-Identifier: BSD-2-Clause

package faultcap

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"verbena/internal/monotime"
	"verbena/internal/sys/futex"
	"verbena/internal/sys/udp"
	"verbena/internal/wire/pcap"
)

// Socket is the interface that a tap wraps and implements: *udp.Socket or *Tap.
type Socket interface {
	ReadBatch(*udp.RxBatch) (int, error)
	WriteBatch([]udp.Datagrams) (int, error)
	WaitWritable(monotime.Duration) error
	CutsBursts() bool
	LocalAddr() netip.AddrPort
	FD() int
	Close() error
}

// Options of a tap. The zero value passes everything and shows nothing.
type Options struct {
	Faults Faults
	Stream uint64 // tells sockets of one seed apart: their order of opening, say
	// Capture takes all packets; nil: no capture.
	Capture *Capture
	// Identify finds the IPv4 identification of a datagram received, which is
	// datagram index of its burst. nil: it is the index, as between two Verbena processes.
	Identify func(src netip.AddrPort, dst netip.Addr, datagram []byte, index uint16) uint16
	// Now is the clock of delays; nil: monotime.Now.
	Now func() monotime.Time
}

// Tap wraps a socket.
type Tap struct {
	// immutable after New
	inner Socket
	opt   Options

	mu    sync.Mutex
	net   network      // guarded by mu
	alarm *futex.Alarm // guarded by mu: of Drive; nil without
	done  bool         // guarded by mu: closed
}

// New wraps a socket, which is the tap's from then on.
func New(inner Socket, o Options) *Tap {
	if o.Now == nil {
		o.Now = monotime.Now
	}
	t := &Tap{inner: inner, opt: o}
	t.net.init(o.Faults, o.Stream)
	return t
}

// ReadBatch reads from the socket and shows the datagrams.
func (t *Tap) ReadBatch(b *udp.RxBatch) (int, error) {
	n, err := t.inner.ReadBatch(b)
	if t.opt.Capture == nil || n == 0 {
		return n, err
	}
	c := t.opt.Capture
	now := c.begin()
	defer c.end()
	for i := range n {
		m := b.Message(i)
		c.datagram = pcap.Datagram{Time: now, Src: m.Src,
			Dst:       netip.AddrPortFrom(m.Dst, t.inner.LocalAddr().Port()),
			Direction: pcap.Inbound, TrafficClass: m.TOS}
		for j := range m.Segments() {
			payload, id := m.Segment(j), uint16(j)
			if t.opt.Identify != nil {
				id = t.opt.Identify(m.Src, m.Dst, payload, id)
			}
			c.datagram.IPID = id
			c.write(payload)
		}
	}
	return n, err
}

// WriteBatch sends the datagrams of d that the faults leave. With faults it takes all of d, like a
// network that may lose it; without, it is the socket's own WriteBatch.
func (t *Tap) WriteBatch(d []udp.Datagrams) (int, error) {
	if t.opt.Faults.None() {
		return t.send(d)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done {
		return 0, net.ErrClosed
	}
	now := t.opt.Now()
	for i := range d {
		c := cutter{iov: d[i].Iov}
		for left := d[i].Bytes(); ; {
			size := left
			if s := d[i].SegmentSize; s > 0 {
				size = min(s, left)
			}
			t.net.enter(now, &d[i], &c, size)
			if left -= size; left <= 0 {
				break
			}
		}
	}
	return len(d), t.pass(now)
}

// HandleTimeout sends datagrams that have been delayed long enough.
func (t *Tap) HandleTimeout(now monotime.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass(now)
}

// NextTimeout returns when to call HandleTimeout; never if nothing is delayed.
func (t *Tap) NextTimeout() monotime.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.net.next()
}

// Drive makes the tap call HandleTimeout itself, until Close.
func (t *Tap) Drive() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.alarm == nil && !t.done {
		t.alarm = futex.NewAlarm(func() { t.HandleTimeout(t.opt.Now()) })
		t.drive(t.opt.Now())
	}
}

// drive sets Drive's alarm. t.mu is held.
func (t *Tap) drive(now monotime.Time) {
	if t.alarm == nil {
		return
	}
	if next := t.net.next(); next == monotime.Never {
		t.alarm.Stop()
	} else {
		t.alarm.Set(max(next.Sub(now), 0))
	}
}

// pass sends due datagrams. t.mu is held, also across the system call: that keeps the order that
// the faults decided on.
func (t *Tap) pass(now monotime.Time) error {
	var err error
	if out := t.net.due(now); len(out) > 0 && !t.done {
		var n int
		n, err = t.send(out)
		t.net.overrun += uint64(len(out) - n) // full buffers: one loss more
	}
	t.net.recycle()
	t.drive(now)
	return err
}

// send sends as much of d as the socket takes, and captures it.
func (t *Tap) send(d []udp.Datagrams) (int, error) {
	now := t.opt.Capture.begin()
	defer t.opt.Capture.end()
	n, err := t.inner.WriteBatch(d)
	t.show(now, d[:n])
	return n, err
}

// show captures sent datagrams, one by one. The capture's lock is held.
func (t *Tap) show(now time.Time, d []udp.Datagrams) {
	to := t.opt.Capture
	if to == nil {
		return
	}
	src := t.inner.LocalAddr()
	cuts := t.inner.CutsBursts()
	show := &to.datagram
	for i := range d {
		left, c := d[i].Bytes(), cutter{iov: d[i].Iov}
		*show = pcap.Datagram{Time: now, Src: src, Dst: d[i].Dst, Direction: pcap.Outbound,
			TrafficClass: d[i].TOS, HopLimit: d[i].TTL, Comment: d[i].Comment}
		for ; ; show.IPID++ {
			size := left
			if s := d[i].SegmentSize; s > 0 {
				size = min(s, left)
			}
			if !cuts {
				show.IPID = 0
			}
			to.pieces = c.cut(to.pieces[:0], size)
			_ = to.sink.Write(show, to.pieces...) // Close tells
			show.Comment = ""
			if left -= size; left <= 0 {
				break
			}
		}
	}
}

// CutsBursts is false with faults: each datagram is sent on its own then,
// with identification 0.
func (t *Tap) CutsBursts() bool { return t.opt.Faults.None() && t.inner.CutsBursts() }

// WaitWritable waits for the socket.
func (t *Tap) WaitWritable(d monotime.Duration) error { return t.inner.WaitWritable(d) }

// LocalAddr returns the socket's address.
func (t *Tap) LocalAddr() netip.AddrPort { return t.inner.LocalAddr() }

// FD returns the socket's descriptor.
func (t *Tap) FD() int { return t.inner.FD() }

// Detach ends the tap without closing the socket: delayed datagrams are lost. Call it before the
// socket is closed by another owner.
func (t *Tap) Detach() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = true
	t.net.drop()
	if t.alarm != nil {
		t.alarm.Stop()
	}
}

// Close closes the socket. Delayed datagrams are lost.
func (t *Tap) Close() error {
	t.Detach()
	return t.inner.Close()
}

// Counts counts datagrams and the faults that were injected into them.
type Counts struct{ Datagrams, Lost, Duplicated, Reordered, Corrupted, Delayed, Overrun uint64 }

// Counts returns a snapshot.
func (t *Tap) Counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := &t.net
	return Counts{n.seq, n.lost, n.duplicated, n.reordered, n.corrupted, n.delayed, n.overrun}
}

// cutter walks a scatter list a datagram at a time.
type cutter struct {
	iov [][]byte
	at  int // element
	off int // bytes of it already used
}

// cut appends the pieces of the next n bytes.
func (c *cutter) cut(to [][]byte, n int) [][]byte {
	for n > 0 {
		p := c.iov[c.at][c.off:]
		if len(p) > n {
			c.off += n
			return append(to, p[:n])
		}
		to = append(to, p)
		n -= len(p)
		c.at, c.off = c.at+1, 0
	}
	return to
}
