// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"sync/atomic"

	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
	"verbena/internal/sys/udp"
)

// arrival wakes sleeping threads when packets have come. It has two descriptors: the bell, which
// the peers of this host write, and a set with the sockets. A thread of the application waits for
// both, reads, and returns with its event:
//
//	peer:   write the ring ─► armed? ─► swap it to 0 ─► write the bell     once per burst
//	thread: arm each ring ─► look at each ─► wait ─► Collect: read the bell, read rings and sockets
//
// The peer writes the ring before it looks at armed; the thread writes armed before it looks at the
// ring. So at least one of them sees the other's write. Only the peer's swap resets armed. A thread
// that takes the bell of another that sleeps, or reads packets meant for it, therefore arms the
// rings again.
//
// The background goroutine sleeps meanwhile: see background.
type arrival struct {
	// set has the sockets; its WakeFD is the bell. It is the background goroutine's poller
	// where the system has no NewSet.
	set *udp.Poller

	mayRing  atomic.Bool   // a thread armed the rings since the bell was last read
	waiters  atomic.Int32  // threads in BeginWait … EndWait
	watchers atomic.Int32  // threads in BeginWatch … EndWatch
	collects atomic.Uint64 // calls of Collect, EndWait and EndWatch
	shared   atomic.Bool   // BeginNap was called since the background goroutine last looked
	sleepy   atomic.Bool   // the last thread that read was in Collect, not in Poll
	napped   atomic.Bool   // … and had polled before it slept: it waits for no event
	closed   atomic.Bool   // the descriptors are not the engine's any more
}

// BellFD returns the eventfd that peers write, -1 where there is none.
func (e *Engine) BellFD() int { return e.arrival.set.WakeFD() }

// ArrivalFDs returns the bell and the set of sockets. After BeginWait or BeginWatch one of them
// becomes readable when something arrives. The engine closes them.
func (e *Engine) ArrivalFDs() (bell, sockets int) {
	return e.arrival.set.WakeFD(), e.arrival.set.FD()
}

// RingBell wakes the threads that wait, as a peer does.
func (e *Engine) RingBell() {
	e.arrival.mayRing.Store(true)
	e.arrival.set.Wake()
}

// Collect is Poll for a thread that wakes up, or is about to sleep: it reads the bell, then the
// rings and sockets. The caller delivers the events of other threads. With waits, the caller calls
// BeginWait next if nothing has come. The sockets end that wait at once. So they are left alone
// unless the last read before a wait found something there. Every policy.SocketPolls-th time they
// are read all the same, to see whether that pays by now.
func (e *Engine) Collect(waits bool) (messages int) {
	a := &e.arrival
	a.collects.Add(1)
	a.silence()
	e.bg.attended() // last: the background goroutine may have slept by the bell that is read now
	if !a.sleepy.Load() {
		a.sleepy.Store(true)
	}
	if a.napped.Load() {
		a.napped.Store(false)
	}
	n := e.bg.polls.Add(1)
	for i := range e.usedLanes() {
		e.lanes[i].joint.forget()
	}
	for _, r := range *e.rings.Load() {
		messages += max(r.TryPoll(true), 0)
	}
	left := waits && e.lull.Load() && len(*e.sleepers.Load()) == 0
	if messages == 0 && !left || passed(n, 1, policy.SocketPolls) {
		e.bg.looks.Add(1)
		k := 0
		for _, in := range *e.inputs.Load() {
			k += max(in.TryPoll(true), 0)
		}
		e.quiet.Store(k == 0)
		if waits {
			e.lull.Store(k == 0)
		}
		messages += k
		if k > 0 {
			now := monotime.Now()
			for i := range e.usedLanes() {
				e.lanes[i].readEnded(now)
			}
		}
	}
	e.sendAnswers()
	if a.asleep() && !e.armRings() {
		e.RingBell() // for other threads, whose bell this one may have read
	}
	return messages
}

// BeginWait announces that the caller is about to wait for ArrivalFDs. It reports false, and
// announces nothing, if there is something to collect.
func (e *Engine) BeginWait() bool {
	e.arrival.waiters.Add(1)
	if e.readyToSleep(true) {
		return true
	}
	e.EndWait() // the background goroutine may have gone to sleep, and counts on this thread
	return false
}

// EndWait ends BeginWait.
func (e *Engine) EndWait() {
	e.arrival.waiters.Add(-1)
	e.arrival.collects.Add(1) // it may leave with an event that is there
	e.bg.attended()
}

// BeginNap is BeginWait for a thread that polls. It shares its core with a thread that computes,
// and so sleeps between two polls: see cabi/include/giveway.h.
func (e *Engine) BeginNap() bool {
	a := &e.arrival
	if !a.shared.Load() {
		a.shared.Store(true)
	}
	a.waiters.Add(1)
	e.Settle()
	if e.armRings() {
		return true
	}
	e.EndWait()
	return false
}

// EndNap is EndWait and Collect.
func (e *Engine) EndNap() {
	e.EndWait()
	e.Collect(false)
	e.arrival.napped.Store(true)
}

// BeginWatch announces that the application may be about to wait for ArrivalFDs, in an epoll set of
// its own. If there is something to collect they are readable.
func (e *Engine) BeginWatch() {
	e.arrival.watchers.Add(1)
	if !e.readyToSleep(true) {
		e.RingBell()
	}
}

// TryWatch is BeginWatch, unless there is something to collect. It then announces nothing, and
// reports false. Without settle delayed acknowledgements wait on: the application has completions.
func (e *Engine) TryWatch(settle bool) bool {
	e.arrival.watchers.Add(1)
	if e.readyToSleep(settle) {
		return true
	}
	e.EndWatch() // the background goroutine may have gone to sleep, and counts on this thread
	return false
}

// BeginWatchEarly is BeginWatch of an application that has work to do before it waits.
func (e *Engine) BeginWatchEarly() {
	e.arrival.watchers.Add(1)
	if !e.armRings() {
		e.RingBell()
	}
}

// EndWatch ends BeginWatch: the application does not wait.
func (e *Engine) EndWatch() {
	e.arrival.watchers.Add(-1)
	e.arrival.collects.Add(1) // it may leave with an event that is there
	e.bg.attended()
}

// readyToSleep sends delayed acknowledgements, with settle, and arms the rings. It reports false if
// something has come.
func (e *Engine) readyToSleep(settle bool) bool {
	if settle {
		e.Settle()
	}
	if len(*e.sleepers.Load()) > 0 {
		e.bg.kick() // no thread but the background goroutine looks after them
	}
	return e.armRings()
}

// armRings has the peers ring the bell. It reports false if something has come already.
func (e *Engine) armRings() (quiet bool) {
	quiet = true
	rings := *e.rings.Load()
	if len(rings) > 0 {
		e.arrival.mayRing.Store(true)
	}
	for _, r := range rings {
		quiet = r.Arm() && quiet
	}
	return quiet
}

// disarmRings ends armRings where that saves wake-ups: the caller polls.
func (e *Engine) disarmRings() {
	for _, r := range *e.rings.Load() {
		r.Disarm()
	}
}

// MaySleep reports whether a thread, or the background goroutine, may be waiting for arrivals. It
// announces that before it arms the rings.
func (e *Engine) MaySleep() bool { return e.arrival.asleep() || e.bg.away.Load() }

// asleep reports whether a thread of the application waits for the bell, as far as the engine
// knows.
func (a *arrival) asleep() bool { return a.waiters.Load() > 0 || a.watchers.Load() > 0 }

// silence reads the bell if it may have been rung.
func (a *arrival) silence() {
	if a.mayRing.Load() && a.mayRing.Swap(false) && !a.closed.Load() {
		a.set.Silence()
	}
}
