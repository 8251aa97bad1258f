// SPDX-License-Identifier: BSD-2-Clause

package xsk

import (
	"net/netip"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"verbena/internal/monotime"
	"verbena/internal/sys/udp"
)

// verdict tells the fate of a send.
type verdict uint8

const (
	sent      verdict = iota
	full              // too many frames are under way
	elsewhere         // the kernel's socket is to send it
)

// maxKicks bounds the system calls for one write: each sends up to 32 frames.
const maxKicks = 3 * txFrames / 32

// write puts the datagrams of an item into the transmit ring, with UDP checksums if fill says so.
// flush sends them.
func (s *Socket) write(w *Way, src netip.AddrPort, d *udp.Datagrams, fill bool) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return elsewhere
	}
	all := d.Bytes()
	segment := d.SegmentSize
	if segment <= 0 || segment > all {
		segment = all
	}
	s.head.init(w, src, d)
	if ethernetBytes+w.MTU < s.head.n+segment || all > udp.MaxBurstBytes {
		return elsewhere
	}
	packets := max(1, (all+max(segment, 1)-1)/max(segment, 1))
	pieces := (s.head.n + segment + s.layout.FrameBytes - 1) / s.layout.FrameBytes
	if need := packets * pieces; pieces > maxPieces || need > txFrames {
		return elsewhere
	} else if s.ledger.available(s.place) < need || s.roomLocked() < need {
		s.reapLocked()
		if s.ledger.available(s.place) < need || s.roomLocked() < need {
			if s.heldUpLocked() {
				return elsewhere
			}
			s.count.blocked.Add(1)
			return full
		}
	}
	c := cutter{iov: d.Iov}
	for i := range packets {
		n := min(segment, all)
		all -= n
		s.head.set(n, uint16(i))
		s.packetLocked(&c, n, fill)
	}
	atomic.StoreUint32(s.out.tx.producer, s.at)
	s.count.sent.Add(uint64(packets))
	return sent
}

// roomLocked returns the number of free entries of the transmit ring.
func (s *Socket) roomLocked() int {
	return txFrames - int(s.at-atomic.LoadUint32(s.out.tx.consumer))
}

// took reports whether the kernel has taken all frames before an entry of the transmit ring.
func (s *Socket) took(behind uint32) bool {
	return int32(behind-atomic.LoadUint32(s.out.tx.consumer)) <= 0
}

// packetLocked puts one packet into frames, and these into the transmit ring.
func (s *Socket) packetLocked(c *cutter, payload int, fill bool) {
	head := s.head.b[:s.head.n]
	var sum uint64
	var field []byte
	if fill {
		sum = pseudoSum(head[ethernetBytes:], udpBytes+payload)
	}
	for left := len(head) + payload; left > 0; {
		frame, ok := s.ledger.take(s.place)
		if !ok {
			return // another process of this user has written the ledger: the packet is lost
		}
		addr := s.layout.txAddr(s.place, frame)
		n := min(left, s.layout.FrameBytes)
		b := s.frames[addr : addr+uint64(n)]
		c.copy(b[copy(b, head):])
		if fill { // all pieces but the last have an even length
			from := max(len(head)-udpBytes, 0)
			if sum = add(sum, b[from:]); head != nil {
				field = b[len(head)-2:]
			}
		}
		head = nil
		left -= n
		d := s.out.tx.packet(s.at)
		d.Addr, d.Len, d.Options = addr, uint32(n), 0
		if left > 0 {
			d.Options = moreFollows
		}
		s.at++
	}
	if fill {
		putChecksum(field, sum)
	}
}

// flush has the kernel send the packets of write. It reports false if the interface has gone.
func (s *Socket) flush() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return false
	}
	if s.zeroCopy && !s.out.tx.needsWakeup() {
		return true
	}
	dropped := false
	for kicks := 0; kicks < maxKicks && s.roomLocked() < txFrames; kicks++ {
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.out.fd), 0, 0,
			unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0, unix.EAGAIN, unix.EINTR:
		case unix.EBUSY: // the interface has dropped a packet; a second one says that it is full
			if dropped {
				return true
			}
			dropped = true
		case unix.ENOBUFS, unix.ENETDOWN: // the next write, or its repetition
			return true
		default:
			s.broken = true
			return false
		}
	}
	if s.ledger.available(s.place) < txFrames/2 {
		s.reapLocked()
	}
	return true
}

// reapLocked notes that frames have been sent: also those of other processes.
func (s *Socket) reapLocked() {
	q := s.out
	l := &s.ledger.queue[q.number].completion
	if !l.try(s.place) {
		if s.lockedSince == 0 {
			s.lockedSince = monotime.Now()
		}
		return
	}
	s.lockedSince = 0
	from, to := atomic.LoadUint32(q.done.consumer), atomic.LoadUint32(q.done.producer)
	for ; from != to; from++ {
		if place, frame, ok := s.layout.txFrame(*q.done.address(from)); ok {
			s.ledger.put(place, frame)
		}
	}
	atomic.StoreUint32(q.done.consumer, to)
	l.release()
}

// lockPatience bounds the wait for the completion ring's lock. A process holds it for some stores,
// so one that has it for longer was stopped or killed.
const lockPatience = 10 * monotime.Millisecond

// heldUpLocked reports whether the completion ring's lock has been taken for longer than that.
func (s *Socket) heldUpLocked() bool {
	return s.lockedSince != 0 && monotime.Now() >= s.lockedSince.Add(lockPatience)
}

// waitPause spaces the looks of a thread that waits for frames.
const waitPause = 20 * monotime.Microsecond

// waitWritable waits until a burst finds room, or for d.
func (s *Socket) waitWritable(d monotime.Duration) {
	for until := monotime.Now().Add(d); ; {
		if !s.flush() {
			return
		}
		s.mu.Lock()
		s.reapLocked()
		free := min(s.ledger.available(s.place), s.roomLocked())
		heldUp := s.heldUpLocked()
		s.mu.Unlock()
		if free >= txFrames/2 || heldUp || monotime.Now() >= until {
			return
		}
		unix.Nanosleep(&unix.Timespec{Nsec: int64(waitPause)}, nil)
	}
}

// cutter walks a scatter list.
type cutter struct {
	iov [][]byte
	off int // bytes of the first element that are used
}

// copy fills b with the next bytes.
func (c *cutter) copy(b []byte) {
	for len(b) > 0 && len(c.iov) > 0 {
		n := copy(b, c.iov[0][c.off:])
		b, c.off = b[n:], c.off+n
		if c.off == len(c.iov[0]) {
			c.iov, c.off = c.iov[1:], 0
		}
	}
}
