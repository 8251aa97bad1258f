// SPDX-License-Identifier: BSD-2-Clause

package queue

import (
	"fmt"
	"sync"
	"sync/atomic"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
)

// armed selects the completions for which OnEvent is to be called.
type armed uint8

const (
	armedNot       armed = iota // after NewCQ and after each event
	armedSolicited              // a solicited one or an error
	armedNext                   // any
)

// A CQ is a ring of completions that several queue pairs push into and any
// goroutine polls. All methods may be called concurrently.
//
// Pushing and polling have a lock each and meet only at the counters. So an empty poll is two
// loads, and neither side waits for the other.
//
// Lock order: pollMu, then pushMu.
type CQ struct {
	// OnEvent is called, without any lock, for the completion that the queue
	// was armed for. Set it before the first Arm; nil means no events.
	OnEvent func()
	// OnNext is called, without any lock, for the completion after AwaitNext, unless that makes an
	// event. Set it before the first AwaitNext.
	OnNext func()
	// Now returns the time, and OnHeld arranges a call of Expire at due, which Moderate needs.
	// OnHeld is called without any lock. Set them before Moderate.
	Now    func() monotime.Time
	OnHeld func(due monotime.Time)
	// Armed, which may be nil, counts the queues that are armed. Set it before the first Arm.
	Armed *atomic.Int32

	// Clock returns the time of a completion, if the queue keeps times. Set it before the first
	// Push.
	Clock func() ib.WCTime

	ring    *Ring // immutable: head is written under pollMu, tail under pushMu
	outside bool  // immutable: the ring is not Go's, and polled by its owner

	pollMu sync.Mutex

	_ [64]byte // the two sides on cache lines of their own

	pushMu sync.Mutex
	// guarded by pushMu
	armed     armed
	awaited   bool   // the next completion makes a call of OnEvent or OnNext
	told      uint64 // completions before this one are those that the last event was for
	solicited uint64 // one past the newest that is solicited or an error
	// of the events; nil: each completion makes its own
	moderation *moderation

	// written under both locks
	depth int
	slots []ib.WC     // a power of two of them, at least depth
	times []ib.WCTime // of slots, nil if the queue keeps no times
}

// NewCQ returns a queue of depth completions, at least one.
func NewCQ(depth int) *CQ {
	q := &CQ{depth: max(depth, 1), ring: &Ring{}}
	q.slots = newSlots(q.depth)
	return q
}

// KeepTimes has the queue keep the time of each completion, for PollTimed. Call it before the first
// Push.
func (q *CQ) KeepTimes(clock func() ib.WCTime) {
	q.Clock, q.times = clock, make([]ib.WCTime, len(q.slots))
}

// NewCQIn returns a queue of depth completions over memory of a C program. That polls it without
// Poll and keeps the memory in place as long as anyone may push. It must not poll while Purge or
// ResizeIn run.
//
// times are those of slots, or nil; then the owner sets Clock.
//
// Errors: ErrInvalid if slots are no power of two or less than depth.
func NewCQIn(r *Ring, slots []ib.WC, times []ib.WCTime, depth int) (*CQ, error) {
	if !fits(slots, depth) || times != nil && len(times) != len(slots) {
		return nil, fmt.Errorf("%w: %d slots for %d completions", ErrInvalid, len(slots), depth)
	}
	r.head.Store(0)
	r.tail.Store(0)
	r.overrun.Store(0)
	r.place(slots)
	return &CQ{ring: r, outside: true, depth: depth, slots: slots, times: times}, nil
}

// Push appends a completion; solicited says that its message asked for an
// event. It returns false if the queue is full: the completion is lost, the
// queue Overflowed for good, and its owner raises EventCQErr.
func (q *CQ) Push(wc *ib.WC, solicited bool) bool {
	q.pushMu.Lock()
	r := q.ring
	t := r.tail.Load()
	if t-r.head.Load() >= uint64(q.depth) {
		r.overrun.Store(1)
		q.pushMu.Unlock()
		return false
	}
	put(q.slot(t), wc)
	if q.times != nil {
		*q.time(t) = q.Clock()
	}
	publish(&r.tail, t+1)
	if solicited = solicited || wc.Status != ib.WCSuccess; solicited {
		q.solicited = t + 1
	}
	fire, alarm := false, monotime.Time(0)
	if q.armed == armedNext || q.armed == armedSolicited && solicited {
		fire, alarm = q.completedLocked(1)
	}
	awaited := q.awaited
	q.awaited = false
	q.pushMu.Unlock()
	q.announce(fire, alarm)
	if awaited && !(fire && q.OnEvent != nil) {
		q.OnNext()
	}
	return true
}

// Poll moves up to len(dst) completions to dst, oldest first, and returns how
// many. An empty queue costs no lock.
func (q *CQ) Poll(dst []ib.WC) int { return q.PollTimed(dst, nil) }

// PollTimed is Poll, and stores the time of each completion in times, which has room for dst's.
// Times are zero in a queue that keeps no times.
func (q *CQ) PollTimed(dst []ib.WC, times []ib.WCTime) int {
	if q.Len() == 0 {
		return 0
	}
	q.pollMu.Lock()
	r := q.ring
	h := r.head.Load()
	n := min(uint64(len(dst)), r.tail.Load()-h)
	for i := range n {
		dst[i] = q.slots[(h+i)&uint64(len(q.slots)-1)]
		if times != nil {
			times[i] = ib.WCTime{}
			if q.times != nil {
				times[i] = *q.time(h + i)
			}
		}
	}
	publish(&r.head, h+n)
	q.pollMu.Unlock()
	return int(n)
}

// Lines returns the memory of the queue without its slots.
func (q *CQ) Lines() [2]mem.Lines { return [2]mem.Lines{mem.LinesOf(q), mem.LinesOf(q.ring)} }

// Pushed counts the completions that were pushed so far, Polled those that are in the queue
// no more: those of before are polled once Polled has come there.
func (q *CQ) Pushed() uint64 { return q.ring.tail.Load() }

// Polled is explained with Pushed.
func (q *CQ) Polled() uint64 { return q.ring.head.Load() }

// Arm asks for one call of OnEvent: for the next completion pushed, or, with
// solicitedOnly, the next that is solicited or an error. One that was pushed
// since the last event and is still in the queue counts as that: OnEvent is
// called before Arm returns. Those of before the last event do not. Armed for
// any completion it stays so if armed again for solicited ones.
//
// In the specification only later completions make an event. Devices look at the completions that
// the consumer has polled, so that applications came to arm last and sleep; UCX does.
//
// Spec: IBTA vol. 1, 11.4.2.2; ibv_req_notify_cq(3).
func (q *CQ) Arm(solicitedOnly bool) {
	want := armedNext
	if solicitedOnly {
		want = armedSolicited
	}
	q.pushMu.Lock()
	seen := max(q.told, q.ring.head.Load())
	fire, alarm := false, monotime.Time(0)
	if newest := q.newestLocked(want); newest > seen {
		n := 1 // the number of solicited ones is not known
		if want == armedNext {
			n = int(newest - seen)
		}
		fire, alarm = q.completedLocked(q.uncountedLocked(n))
	}
	if !fire {
		q.armLocked(max(q.armed, want))
	}
	q.pushMu.Unlock()
	q.announce(fire, alarm)
}

// newestLocked returns one past the newest completion that makes an event.
func (q *CQ) newestLocked(want armed) uint64 {
	if want == armedSolicited {
		return q.solicited
	}
	return q.ring.tail.Load()
}

// armLocked sets for which completions OnEvent is to be called.
func (q *CQ) armLocked(a armed) {
	if q.Armed != nil {
		switch {
		case q.armed == armedNot && a != armedNot:
			q.Armed.Add(1)
		case q.armed != armedNot && a == armedNot:
			q.Armed.Add(-1)
		}
	}
	q.armed = a
}

// fireLocked notes an event. The caller calls OnEvent.
func (q *CQ) fireLocked() {
	q.armLocked(armedNot)
	q.told = q.ring.tail.Load()
	if q.moderation != nil {
		q.moderation.held = 0
	}
}

// AwaitNext asks for one call at the next completion, of OnNext or OnEvent, if there are at most n
// completions: the consumer polls those now, or has polled all. Otherwise it returns false.
func (q *CQ) AwaitNext(n int) bool {
	q.pushMu.Lock()
	defer q.pushMu.Unlock()
	q.awaited = q.Len() <= n
	return q.awaited
}

// Disarm takes back what Arm asked for, before the queue goes.
func (q *CQ) Disarm() {
	q.pushMu.Lock()
	q.armLocked(armedNot)
	q.moderation = nil
	q.pushMu.Unlock()
}

// Len returns the number of completions in the queue.
func (q *CQ) Len() int {
	h := q.ring.head.Load() // before tail, which never falls behind it
	return int(q.ring.tail.Load() - h)
}

// Cap returns how many there can be.
func (q *CQ) Cap() int {
	q.pushMu.Lock()
	defer q.pushMu.Unlock()
	return q.depth
}

// Overflowed reports whether a completion was ever lost.
func (q *CQ) Overflowed() bool { return q.ring.overrun.Load() != 0 }

// Resize changes how many completions there can be; those in the queue stay.
//
// Errors: ErrInvalid if n is less than 1 or than Len, or if the memory is not
// Go's.
func (q *CQ) Resize(n int) error {
	if n < 1 || q.outside {
		return fmt.Errorf("%w: size %d", ErrInvalid, n)
	}
	slots := newSlots(n)
	var times []ib.WCTime
	if q.Clock != nil {
		times = make([]ib.WCTime, len(slots))
	}
	return q.move(n, slots, times)
}

// ResizeIn is Resize to other memory of the ring's owner.
//
// Errors: those of Resize and NewCQIn.
func (q *CQ) ResizeIn(n int, slots []ib.WC, times []ib.WCTime) error {
	if !q.outside || !fits(slots, n) || q.Clock != nil && len(times) != len(slots) {
		return fmt.Errorf("%w: %d slots for %d completions", ErrInvalid, len(slots), n)
	}
	return q.move(n, slots, times)
}

func (q *CQ) move(n int, slots []ib.WC, times []ib.WCTime) error {
	q.pollMu.Lock()
	defer q.pollMu.Unlock()
	q.pushMu.Lock()
	defer q.pushMu.Unlock()
	h, t := q.ring.head.Load(), q.ring.tail.Load()
	if uint64(n) < t-h {
		return fmt.Errorf("%w: size %d, %d completions held", ErrInvalid, n, t-h)
	}
	mask := uint64(len(slots) - 1)
	for i := h; i != t; i++ {
		slots[i&mask] = *q.slot(i)
		if q.times != nil {
			times[i&mask] = *q.time(i)
		}
	}
	q.depth, q.slots = n, slots
	if q.times != nil {
		q.times = times
	}
	if q.outside {
		q.ring.place(slots)
	}
	return nil
}

// put copies a completion whose fields were just stored. A wide load would wait until several
// narrow stores are in the cache, which takes as long as the rest of Push. So each field is loaded
// as it was stored: one a line, as the compiler joins the loads of one assignment.
func put(dst, src *ib.WC) {
	dst.WRID = src.WRID
	dst.Status = src.Status
	dst.Opcode = src.Opcode
	dst.Flags = src.Flags
	dst.VendorErr = src.VendorErr
	dst.ByteLen = src.ByteLen
	dst.ImmData = src.ImmData
	dst.InvalidatedRKey = src.InvalidatedRKey
	dst.QPN = src.QPN
	dst.SrcQP = src.SrcQP
	dst.PKeyIndex = src.PKeyIndex
	dst.SLID = src.SLID
	dst.SL = src.SL
	dst.TagHigh = src.TagHigh
}

// slot returns where completion i is.
func (q *CQ) slot(i uint64) *ib.WC { return &q.slots[i&uint64(len(q.slots)-1)] }

// time returns where the time of completion i is.
func (q *CQ) time(i uint64) *ib.WCTime { return &q.times[i&uint64(len(q.times)-1)] }

// Purge removes the completions of queue pair qpn, which is being reset or
// destroyed, and returns how many. The others keep their order.
func (q *CQ) Purge(qpn ib.QPN) int {
	return q.purge(func(wc *ib.WC) bool { return wc.QPN == qpn })
}

// PurgeSends is Purge of send work requests only.
func (q *CQ) PurgeSends(qpn ib.QPN) int {
	return q.purge(func(wc *ib.WC) bool { return wc.QPN == qpn && wc.Opcode < ib.WCRecv })
}

func (q *CQ) purge(gone func(*ib.WC) bool) int {
	q.pollMu.Lock()
	defer q.pollMu.Unlock()
	q.pushMu.Lock()
	defer q.pushMu.Unlock()
	h, t := q.ring.head.Load(), q.ring.tail.Load()
	keep := t // fill from the newest end, so that only head moves
	told, solicited := q.told, q.solicited
	for i := t; i != h; i-- {
		if i == q.told {
			told = keep
		}
		if i == q.solicited {
			solicited = keep
		}
		if wc := q.slot(i - 1); !gone(wc) {
			keep--
			*q.slot(keep) = *wc
			if q.times != nil {
				*q.time(keep) = *q.time(i - 1)
			}
		}
	}
	q.told, q.solicited = told, solicited
	q.ring.head.Store(keep)
	return int(keep - h)
}
