// SPDX-License-Identifier: BSD-2-Clause

package xsk

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"verbena/internal/monotime"
	"verbena/internal/sys/udp"
)

// Source sends datagrams from an address and UDP port: by the transmit ring, or by the kernel's
// socket that has the port. It is a faultcap.Socket. Its methods may be called concurrently.
type Source struct {
	*udp.Socket // the kernel's

	// immutable after Source
	ring *Socket
	look LookUp
	fill bool // UDP checksums

	behind atomic.Uint32 // the entry of the transmit ring behind the last one of these datagrams

	mu   sync.Mutex
	ways map[netip.Addr]*known // guarded by mu
	last netip.Addr            // guarded by mu
	same *known                // guarded by mu: that of last
}

// shortBurst is the number of datagrams from which on a burst goes by the kernel's socket, where
// the way says so. The kernel then runs the receiver once a burst, not once a frame.
const shortBurst = 8

func isBurst(d *udp.Datagrams) bool {
	return d.SegmentSize > 0 && d.Bytes() > (shortBurst-1)*d.SegmentSize
}

// known is an answer of LookUp.
type known struct {
	Way
	ok    bool          // the ring is to be used
	until monotime.Time // when it is asked for again
}

// Source returns a Source with the address and port of a socket of the kernel's. look is nil for
// the kernel's tables. fill has the datagrams have UDP checksums.
func (s *Socket) Source(plain *udp.Socket, look LookUp, fill bool) *Source {
	if look == nil {
		look = kernelWay
	}
	if plain.LocalAddr().Addr().Is6() {
		// Frames have no flow label. A receiver's kernel would take the socket's for another flow's
		// packets, and hand them to another processor (RPS). An error means that it has no labels.
		_ = unix.SetsockoptInt(plain.FD(), unix.IPPROTO_IPV6, unix.IPV6_AUTOFLOWLABEL, 0)
	}
	return &Source{Socket: plain, ring: s, look: look, fill: fill, ways: map[netip.Addr]*known{}}
}

// WriteBatch sends items as udp.Socket does.
func (s *Source) WriteBatch(d []udp.Datagrams) (done int, err error) {
	left := false
	for done < len(d) && err == nil {
		item := &d[done]
		w, ok := s.wayTo(item.Dst.Addr())
		v := elsewhere
		if left && w.JoinsBursts && isBurst(item) && !s.ring.flush() {
			s.forget()
		}
		if ok && !(w.JoinsBursts && isBurst(item) && s.ring.took(s.behind.Load())) {
			v = s.ring.write(&w, s.LocalAddr(), item, s.fill)
			s.behind.Store(atomic.LoadUint32(s.ring.out.tx.producer))
		}
		switch v {
		case sent:
			left = true
			done++
			continue
		case full:
			s.ring.flush()
			return done, nil
		}
		if left && !s.ring.flush() { // what came before goes before
			s.forget()
		}
		left = false
		s.ring.count.elsewhere.Add(1)
		var n int
		if n, err = s.Socket.WriteBatch(d[done : done+1]); n == 0 {
			break
		}
		done += n
	}
	if left && !s.ring.flush() {
		s.forget()
	}
	return done, err
}

// wayTo returns the way of datagrams to dst; ok is false if they go by the kernel's socket.
func (s *Source) wayTo(dst netip.Addr) (w Way, ok bool) {
	if dst.IsMulticast() || dst.IsLoopback() {
		return w, false
	}
	dst = dst.Unmap().WithZone("")
	now := monotime.Now()
	s.mu.Lock()
	k := s.same
	if dst != s.last || k == nil {
		if k = s.ways[dst]; k == nil {
			if len(s.ways) >= maxWays {
				clear(s.ways)
			}
			k = &known{}
			s.ways[dst] = k
		}
		s.last, s.same = dst, k
	}
	if now < k.until {
		w, ok = k.Way, k.ok
		s.mu.Unlock()
		return w, ok
	}
	k.until = now.Add(wayFor)
	s.mu.Unlock()
	w, ok = s.look(s.ring.layout.Interface, s.LocalAddr().Addr().Unmap().WithZone(""), dst)
	s.mu.Lock()
	if k.Way, k.ok = w, ok; !ok {
		k.until = now.Add(noWayFor)
	}
	s.mu.Unlock()
	return w, ok && !w.Old // else this datagram has the kernel ask for the neighbour
}

// forget has all ways asked for again.
func (s *Source) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.ways)
	s.same = nil
}

// WaitWritable implements faultcap.Socket.
func (s *Source) WaitWritable(d monotime.Duration) error {
	s.ring.waitWritable(d)
	return nil
}
