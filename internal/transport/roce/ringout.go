// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"hash/crc32"
	"net/netip"

	"verbena/internal/engine"
	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/sys/shmring"
	"verbena/internal/transport/shm"
)

// willTimeout bounds the wait for a connection's DREQ, after the peer's process has ended, before
// its queue pairs fail. A program is to learn first that the peer has gone, as it does with an
// adapter, whose time-outs are longer. A DREQ takes some milliseconds on a busy machine.
const willTimeout = 100 * monotime.Millisecond

// flushRing writes the machine's output to the ring, as long as it is that of the next packet. It
// returns Ready if all was written, Full if the rest waits for room, and Gone if the ring is gone.
func (c *Conn) flushRing(o *shm.Out, now monotime.Time) shm.Room {
	waking := false
	r := c.fillRing(o, now, &waking)
	if waking {
		c.roce.rings.EndWake()
	}
	return r
}

// fillRing is flushRing, and sets waking when it is counted there.
func (c *Conn) fillRing(o *shm.Out, now monotime.Time, waking *bool) shm.Room {
	p := pumpers.Get().(*pumper)
	defer pumpers.Put(p)
	for !c.Closed() && c.staysIn(o) {
		o.Lock()
		r, more, wrote := shm.Ready, true, false
		for n := 0; more && n < engine.BurstsPerWrite && c.staysIn(o); n++ {
			r = o.RoomLocked()
			if r == shm.Stuck && c.acked != nil {
				r = shm.Full // the reader lives: its end would end the ring
			}
			if r == shm.Full || r == shm.Gone {
				break
			}
			more = c.writeBurst(o, now, p.bursts[0])
			wrote = wrote || more
		}
		wake := (wrote || r == shm.Full) && o.MustWakeLocked()
		again := o.LookAgainLocked()
		o.Unlock()
		if r == shm.Gone {
			return shm.Gone
		}
		if wake { // no connection's lock is held across a system call
			if !*waking {
				*waking = true
				c.roce.rings.BeginWake()
			}
			c.Unlock()
			o.Wake()
			c.Lock()
			continue // others left their work to this pump, and may have modified the queue pair
		}
		if r == shm.Full {
			c.RetryAt(again)
			return shm.Full
		}
		if !more {
			break
		}
	}
	return shm.Ready
}

// writeBurst writes the machine's next burst to the ring, whose lock is held. It
// reports false if there is none.
func (c *Conn) writeBurst(o *shm.Out, now monotime.Time, b *roce.Burst) bool {
	b.Limit(policy.RingTurn)
	memory, prefix := o.MemoryLocked(), 0
	if c.each != nil {
		prefix = shmring.PrefixBytes
	}
	if memory != nil {
		b.Into(memory[prefix:], o.BypassCacheLocked())
	}
	b.PlaceAck(c.ackPlace())
	defer b.Reset()
	if c.ack.Waiting() {
		if _, ok := c.packets.AckMayWait(); ok {
			return false // as in flushSockets
		}
	}
	begin := o.ClockLocked()
	if !c.packets.PollOutput(now, b) {
		return false
	}
	if memory == nil {
		c.roce.rings.Count.Lost.Add(uint64(b.Packets()))
		return true
	}
	m := shmring.Message{Segment: b.SegmentBytes(), TOS: b.Path().TClass, Tag: c.tag}
	if prefix > 0 {
		m.Prefixed = true
		putAddresses(memory, b.Path())
	}
	o.CommitLocked(prefix+b.Bytes(), b.Packets(), begin, &m)
	return true
}

// pathTag distinguishes the packets of one pair of addresses from those of others, as the addresses
// of an IP header do.
func pathTag(src, dst netip.Addr) uint32 {
	s, d := src.Unmap().As16(), dst.Unmap().As16()
	return crc32.Update(crc32.ChecksumIEEE(s[:]), crc32.IEEETable, d[:])
}
