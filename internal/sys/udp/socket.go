// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"verbena/internal/monotime"
)

// Options of a socket. The zero value suits a RoCEv2 receiver.
type Options struct {
	ReusePort   bool // SO_REUSEPORT: other sockets of this user may bind the same port
	SendOnly    bool // the kernel drops arriving datagrams, before they are queued
	BufferBytes int  // SO_RCVBUF and SO_SNDBUF; 0: 8 MiB, or as much as the system grants
	NoSegment   bool // send datagrams one by one although the kernel could cut bursts
	NoJoin      bool // receive datagrams one by one although the kernel could join them
	Portable    bool // package net instead of raw system calls
	Errors      bool // ICMP's errors for sent datagrams are kept for Refused; Linux only
	// TOS is the traffic class of datagrams sent: one with this Datagrams.TOS needs no control
	// message. Linux only.
	TOS uint8
	// Interface is an interface's index; 0 lets the system choose. Where addr is
	// a multicast group, it is the interface whose traffic to the group is wanted;
	// where addr is an IPv6 address, the one that multicast is sent by. (IPv4
	// multicast is sent by the interface that has the address.)
	Interface int
}

// Socket is an unconnected UDP socket. Its methods may be called concurrently.
type Socket struct {
	// immutable after Listen
	local netip.AddrPort
	io    backend

	closeOnce sync.Once
	closeErr  error
	closed    atomic.Bool
	count     counters // atomic
}

// backend reads and writes a socket: by raw calls or package net.
type backend interface {
	readBatch(b *RxBatch) (int, error)
	writeBatch(d []Datagrams) (int, error)
	segments() bool // bursts are cut by the kernel
	fd() int        // -1 if there is none to poll
	waitWritable(monotime.Duration) error
	refused() (dst netip.AddrPort, ok bool)
	kernelDrops() uint64
	close() error
}

// Counters of one socket, since it was opened.
type Counters struct {
	SentMessages, SentDatagrams, SentBytes uint64
	RcvdMessages, RcvdDatagrams, RcvdBytes uint64
	// writes cut short because the system's buffers were full
	SendBlocked   uint64
	TooBig        uint64 // items dropped: longer than the path's MTU allows
	Unreachable   uint64 // items dropped: refused, no route, not permitted
	SplitBursts   uint64 // bursts sent datagram by datagram: the kernel would not cut them
	DroppedRest   uint64 // datagrams lost when a split burst met full buffers
	Truncated     uint64 // messages received that did not fit the buffer
	KernelDropped uint64 // datagrams the kernel dropped because nobody read them in time
}

type counters struct {
	sentMessages, sentDatagrams, sentBytes               atomic.Uint64
	rcvdMessages, rcvdDatagrams, rcvdBytes               atomic.Uint64
	sendBlocked, tooBig, unreachable, split, rest, trunc atomic.Uint64
}

func (c *counters) received(messages, datagrams, bytes int) {
	c.rcvdMessages.Add(uint64(messages))
	c.rcvdDatagrams.Add(uint64(datagrams))
	c.rcvdBytes.Add(uint64(bytes))
}

// Listen opens a socket bound to addr and port; port 0 lets the system choose.
// addr may be a wildcard; each Message then says where it was sent to.
func Listen(addr netip.Addr, port uint16, o Options) (*Socket, error) {
	if !addr.IsValid() {
		return nil, fmt.Errorf("udp: listen: no address")
	}
	addr = addr.Unmap()
	if o.BufferBytes == 0 {
		o.BufferBytes = bufferBytes
	}
	s := &Socket{}
	var err error
	if o.Portable || !haveRaw {
		err = s.listenPortable(netip.AddrPortFrom(addr, port), o)
	} else {
		err = s.listenRaw(netip.AddrPortFrom(addr, port), o)
	}
	if err != nil {
		return nil, fmt.Errorf("udp: listen on %v: %w", netip.AddrPortFrom(addr, port), err)
	}
	return s, nil
}

// ReadBatch reads queued datagrams into b and returns the number of messages, 0 if there are none.
// It never blocks and may return fewer messages than are queued: read until it returns 0 before
// waiting.
func (s *Socket) ReadBatch(b *RxBatch) (int, error) {
	b.n = 0
	if s.closed.Load() {
		return 0, net.ErrClosed
	}
	n, err := s.io.readBatch(b)
	if n == 0 {
		b.adapt(0)
		return 0, err
	}
	b.n = n
	b.adapt(n)
	datagrams, bytes := 0, 0
	for i := range b.msgs[:n] {
		datagrams += b.msgs[i].Segments()
		bytes += len(b.msgs[i].Data)
	}
	s.count.received(n, datagrams, bytes)
	return n, err
}

// WriteBatch sends d in order and returns how many items are done with. It
// never blocks: fewer than len(d) and no error means that the system's buffers
// are full, see WaitWritable. An item that cannot be sent at all (too big for
// the path, nobody there, no route) counts as done and raises a counter: to a
// protocol that is a lost packet. An error means that the socket is unusable or
// the item after the ones done is malformed.
func (s *Socket) WriteBatch(d []Datagrams) (int, error) {
	if s.closed.Load() {
		return 0, net.ErrClosed
	}
	return s.io.writeBatch(d)
}

// CutsBursts reports whether the kernel cuts bursts, so that datagram i of
// one carries IPv4 identification i. When it turns false (a device or route
// that cannot), all datagrams carry 0.
func (s *Socket) CutsBursts() bool { return s.io.segments() }

// WaitWritable blocks until the system has room to send again, or for d.
func (s *Socket) WaitWritable(d monotime.Duration) error { return s.io.waitWritable(d) }

// LocalAddr returns the address and port the socket is bound to.
func (s *Socket) LocalAddr() netip.AddrPort { return s.local }

// FD returns the descriptor, which stays the socket's, or -1 if it has none to
// give.
func (s *Socket) FD() int { return s.io.fd() }

// Refused returns where a datagram went to, a while ago, that nobody has the port for; false if the
// network has reported none since. It is to be called, with Options.Errors, where ReadBatch finds
// nothing. Anyone on the way can make it up.
func (s *Socket) Refused() (dst netip.AddrPort, ok bool) {
	if s.closed.Load() {
		return netip.AddrPort{}, false
	}
	return s.io.refused()
}

// Close closes the socket. Nobody may be reading or writing any more; later
// calls return net.ErrClosed.
func (s *Socket) Close() error {
	s.closeOnce.Do(func() {
		s.closed.Store(true)
		s.closeErr = s.io.close()
	})
	return s.closeErr
}

// Counters returns a snapshot of the socket's counts.
func (s *Socket) Counters() Counters {
	c := &s.count
	return Counters{
		SentMessages: c.sentMessages.Load(), SentDatagrams: c.sentDatagrams.Load(),
		SentBytes: c.sentBytes.Load(), RcvdMessages: c.rcvdMessages.Load(),
		RcvdDatagrams: c.rcvdDatagrams.Load(), RcvdBytes: c.rcvdBytes.Load(),
		SendBlocked: c.sendBlocked.Load(), TooBig: c.tooBig.Load(),
		Unreachable: c.unreachable.Load(), SplitBursts: c.split.Load(), DroppedRest: c.rest.Load(),
		Truncated: c.trunc.Load(), KernelDropped: s.io.kernelDrops(),
	}
}
