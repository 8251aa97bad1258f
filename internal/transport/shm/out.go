// SPDX-License-Identifier: BSD-2-Clause

package shm

import (
	"sync"
	"sync/atomic"

	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
	"verbena/internal/sys/shmring"
)

// Out is the ring to a process of this host; many queue pairs write to it.
type Out struct {
	// immutable
	rings *Rings
	slot  int
	out   *shmring.Out // nil within this process
	sent  *atomic.Uint64
	made  monotime.Time // when dial began to make it

	mu     sync.Mutex        // innermost but for the locks of PollOutput
	tx     *shmring.Producer // guarded by mu; unmapped when gone
	gone   bool              // guarded by mu: nothing goes any more
	died   monotime.Time     // guarded by mu: when the peer's process ended; 0 if it has not
	memory []byte            // guarded by mu: where the next burst goes; nil if there is no room
	since  monotime.Time     // guarded by mu: when the ring was found full; 0 if there is room
	taken  uint64            // guarded by mu: how far the peer had read then
	probe  cacheProbe        // guarded by mu
}

// stallTimeout is the time for which a full ring holds back packets that are not acknowledged,
// while the peer does not read it. After that they are lost, as on any network.
const stallTimeout = 100 * monotime.Millisecond

// Room is the room that a ring has.
type Room uint8

// Rooms.
const (
	Ready Room = iota // a burst
	Full              // nothing now
	Stuck             // nothing, and the peer does not read: unacknowledged packets are lost
	Gone              // nothing, ever
)

// Lock serialises the writers. Methods whose names end in Locked need it.
func (o *Out) Lock() { o.mu.Lock() }

// Unlock ends Lock.
func (o *Out) Unlock() { o.mu.Unlock() }

// Slot returns the slot of the process that reads.
func (o *Out) Slot() int { return o.slot }

// RoomLocked reports whether a burst fits.
func (o *Out) RoomLocked() Room {
	if o.gone {
		return Gone
	}
	if o.memory = o.tx.Reserve(); o.memory != nil {
		o.since = 0
		return Ready
	}
	if o.tx.Corrupt() {
		o.rings.Count.Corrupt.Add(1)
		o.gone = true
		if o.out != nil {
			o.out.HangUp() // the background goroutine does the rest
		}
		return Gone
	}
	now := monotime.Now()
	if o.since == 0 || o.taken != o.tx.Taken() {
		o.since, o.taken = now, o.tx.Taken()
	}
	if now.Sub(o.since) < stallTimeout {
		return Full
	}
	return Stuck
}

// LookAgainLocked returns when to look whether a full ring has room. Many queue pairs may wait
// for a process that is stopped.
func (o *Out) LookAgainLocked() monotime.Time {
	if o.since == 0 {
		return monotime.Never
	}
	now := monotime.Now()
	return now.Add(min(max(now.Sub(o.since)/8, policy.RingRetry), policy.RingLook))
}

// Ended reports whether the process at the other end has ended, and when.
func (o *Out) Ended() (at monotime.Time, ended bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.died, o.died != 0
}

// Wake ends the reader's sleep.
func (o *Out) Wake() {
	if o.out == nil {
		o.rings.eng.RingBell()
		return
	}
	o.mu.Lock()
	if o.out.Open() {
		o.out.Wake()
	}
	o.mu.Unlock()
}

// await waits for the reader, of another process, to take the ring, until patience has passed since
// it was made. It reports whether the reader is there, and has not refused it.
func (o *Out) await(patience monotime.Duration) bool {
	there := o.out == nil || o.out.Await(o.made.Add(patience).Sub(monotime.Now()))
	o.mu.Lock()
	defer o.mu.Unlock()
	return there && !o.gone
}

// accepted reports whether the reader has taken the ring, which is not gone.
func (o *Out) accepted() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.gone && (o.out == nil || o.out.Taken())
}

func (o *Out) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.gone && o.out != nil && o.out.PeerEnded() { // gone: by nonsense in it
		o.died = monotime.Now()
	}
	o.gone = true
	if o.out != nil {
		o.rings.listener.Forget(o.out)
		o.out.Close()
	}
}

// MemoryLocked returns where the burst goes, after RoomLocked returned Ready; else nil.
func (o *Out) MemoryLocked() []byte { return o.memory }

// BypassCacheLocked reports whether the burst is better written past the caches.
func (o *Out) BypassCacheLocked() bool { return o.probe.bypassCache() }

// ClockLocked returns the time if CommitLocked wants to know how long the burst took to
// write, else 0.
func (o *Out) ClockLocked() monotime.Time { return o.probe.clock() }

// CommitLocked gives the reader the first n bytes of MemoryLocked, with some packets, whose
// writing began at begin, of ClockLocked.
func (o *Out) CommitLocked(n, packets int, begin monotime.Time, m *shmring.Message) {
	o.sent.Add(uint64(packets))
	o.probe.wrote(n, o.probe.clock().Sub(begin))
	o.tx.Commit(n, m)
}

// MustWakeLocked reports whether the reader sleeps, and is to be woken.
func (o *Out) MustWakeLocked() bool { return o.tx.MustWake() }

// WakeIfAsleep ends the reader's sleep if it sleeps.
func (o *Out) WakeIfAsleep() {
	o.mu.Lock()
	wake := !o.gone && o.tx.MustWake()
	o.mu.Unlock()
	if wake {
		o.Wake()
	}
}

// Ask asks whether all that is in the ring was handled, by an entry behind it: number is the
// question's, 0 if the ring is full. With the number of an earlier question it does not ask
// again. answered says that the reader has answered, ok that the ring is not gone.
func (o *Out) Ask(number uint64) (n uint64, answered, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone {
		return 0, false, false
	}
	if number == 0 {
		number = o.tx.Ask()
	}
	return number, number != 0 && o.tx.Answered(number), true
}

// HeldUp reports whether what waits for room will get it: there is some by now, or the reader may
// only have lost its core, as it has read within stallTimeout.
func (o *Out) HeldUp() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.RoomLocked()
	return r == Ready || r == Full
}

// full reports whether the ring had no room when it was last written to, and has none.
func (o *Out) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone || o.since == 0 {
		return false
	}
	r := o.RoomLocked()
	return r == Full || r == Stuck
}
