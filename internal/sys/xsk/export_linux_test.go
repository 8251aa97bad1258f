// SPDX-License-Identifier: BSD-2-Clause

package xsk

import (
	"net/netip"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// RingFrames is the length of a process's receive ring.
const RingFrames = rxFrames

// KernelWay is the LookUp of a Source.
func KernelWay(iface int, src, dst netip.Addr) (Way, bool) { return kernelWay(iface, src, dst) }

// JoinsBursts reports whether bursts that leave an interface go by sockets.
func JoinsBursts(iface int) bool {
	c, err := newConversation()
	if err != nil {
		return false
	}
	defer c.close()
	w, _ := c.link(iface)
	return w.JoinsBursts
}

// Before66 has bind refuse packets of several frames, as kernels before Linux 6.6 do.
func Before66(t *testing.T) {
	BindFirst(t, func(mode int) error {
		if mode&unix.XDP_USE_SG != 0 {
			return unix.EINVAL
		}
		return nil
	})
}

// BindFirst has bind ask refuse about the mode of a pool's first socket, and keep the mode in used.
// The kernel binds it in copy mode: veth has no other.
func BindFirst(t *testing.T, refuse func(mode int) error) (used *int) {
	kernel := bind
	used = new(int)
	bind = func(fd int, sa *unix.SockaddrXDP) error {
		if sa.Flags&unix.XDP_SHARED_UMEM != 0 {
			return kernel(fd, sa)
		}
		*used = int(sa.Flags)
		if err := refuse(*used); err != nil {
			return err
		}
		copies := *sa // the caller's stays as it is: a busy queue is asked again
		copies.Flags &^= unix.XDP_ZEROCOPY
		return kernel(fd, &copies)
	}
	t.Cleanup(func() { bind = kernel })
	return used
}

// Filled returns the number of frames in the fill ring of the first queue, each counted once.
func (p *Pool) Filled() int {
	r := p.fill[0]
	different := map[uint64]bool{}
	for i := atomic.LoadUint32(r.consumer); i != atomic.LoadUint32(r.producer); i++ {
		different[*r.address(i)] = true
	}
	return len(different)
}

// StopWhileReaping leaves the state of another process that is stopped while it empties the
// completion ring that s sends by: with the lock.
func (s *Socket) StopWhileReaping() {
	if !s.ledger.queue[s.out.number].completion.try(s.place + 1) {
		panic("the lock is taken")
	}
}

// DieWhileFilling leaves the state of a process that is killed while it gives frames back: with the
// fill lock, before or after it moved the fill ring's producer.
func (s *Socket) DieWhileFilling(pushed bool) {
	q := s.queues[0]
	l := &s.ledger.queue[0].fill
	n := q.next - q.released
	if !l.try(s.place) || n == 0 {
		panic("nothing to give back")
	}
	at := atomic.LoadUint32(q.fill.producer)
	l.produced.Store(at)
	l.consumed.Store(q.released)
	l.count.Store(n)
	for i := range n {
		*q.fill.address(at + i) = q.rx.packet(q.released+i).Addr &^ uint64(s.layout.FrameBytes-1)
	}
	if pushed {
		atomic.StoreUint32(q.fill.producer, at+n)
	}
}
