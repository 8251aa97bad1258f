// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"sync/atomic"

	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
	"verbena/internal/sys/cputime"
)

// Spin has a thread read on for policy.Spin before it sleeps, while that pays: a message that comes
// in this time wakes no thread. Two ends that spin answer each other as polling ends do.
//
//	found within spinPays       ─► costs fall; once there are none, half the next rest
//	found later, or not at all  ─► costs; a thread that found nothing sleeps
//	costs reach spinPatience    ─► waits sleep at once for a time, for twice as long the next time
//	comes as soon as it sleeps  ─► the peer waits for this core: after the third time it gets it
//
// The zero value is ready. Several threads may use it: a note may be lost, or be of another.
type Spin struct {
	costs atomic.Int32
	rest  atomic.Int32 // waits to come that do not spin
	until atomic.Int64 // and those do not that begin before this time
	term  atomic.Int64 // the last rest, halved since by messages that came soon
	first atomic.Int64 // when the first look at sockets pays; 0: policy.SpinLook
	vain  atomic.Int64 // since when a thread sleeps that spun in vain; 0: none does
	held  atomic.Int32 // waits in a row whose message came as soon as the thread slept
	rare  atomic.Int32 // waits in a row whose message came long after that
}

const (
	// A sleep and the wake-up after it take about as much time of a core.
	spinPays = 25 * monotime.Microsecond
	// The first messages that a thread finds are late, as its peer sleeps until it spins too. So 64
	// of them are allowed, and 4 waits without a message.
	spinPatience = 64
	lateCosts    = 1
	missCosts    = 16
	// Where more than a third of the waits are in vain costs grow.
	soonSaves = missCosts / 2
	// A rest is so many waits at least, and longer each time: from the first to the last. It ends
	// at a multiple of its length, so that both ends of a connection within a host try together.
	restWaits = 16
	firstRest = 256 * monotime.Microsecond
	lastRest  = firstRest << 6
	// A message is rare that comes so long after a wait in vain. Each in a row doubles the waits of
	// the next rest, up to 1,024.
	rareAfter   = monotime.Millisecond
	rareDoubles = 6
	// So many messages in a row that come as soon as the thread sleeps are no chance.
	heldMost = 3
	// The rest of a thread whose peer waits for the only core that both may use.
	onlyRest = monotime.Second
	// Looks at sockets after the first one: so many are so close together.
	closeLooks = 4
	closeLook  = monotime.Microsecond
	// A long message is several waits: for its parts, and for its acknowledgement.
	longRest = 4
)

// Wait calls read, which reads arrivals, until it reports true or spinning does not pay. It reports
// whether read did.
func (s *Spin) Wait(e *Engine, read func() bool) bool {
	if n := e.long.Load(); n > 0 {
		e.long.Store(n - 1)
		return false
	}
	if s.held.Load() >= heldMost {
		s.held.Store(0)
		if cputime.LeaveCore() {
			s.restUntil(monotime.Now().Add(onlyRest))
		}
	}
	return s.wait(monotime.Now, e.ringsWait, read)
}

// Woke takes note that a thread looks again that slept after Wait. It is called before the rings
// are read.
func (s *Spin) Woke(e *Engine) {
	if vain := s.vain.Load(); vain != 0 {
		s.vain.Store(0)
		s.woke(monotime.Now().Sub(monotime.Time(vain)), e.ringsWait())
	}
}

// woke takes note of a sleep after a wait in vain, and whether a ring has the message that ended
// it. If one came at once, the thread kept its core from the peer that it waited for. The system
// may leave both on one core for long, though others are idle: each finds a core when it wakes up.
func (s *Spin) woke(slept monotime.Duration, ring bool) {
	switch {
	case slept > rareAfter:
		s.rare.Add(1)
		s.held.Store(0)
	case ring && slept <= spinPays:
		s.held.Add(1)
		s.rare.Store(0)
	default:
		s.inTime()
	}
}

// inTime takes note of a message that was neither held up by this thread nor rare.
func (s *Spin) inTime() {
	if s.held.Load() != 0 {
		s.held.Store(0)
	}
	if s.rare.Load() != 0 {
		s.rare.Store(0)
	}
}

// restUntil has waits sleep at once until t, or until later if they do already.
func (s *Spin) restUntil(t monotime.Time) {
	for old := s.until.Load(); old < int64(t) && !s.until.CompareAndSwap(old, int64(t)); {
		old = s.until.Load()
	}
}

// NoteMessage notes that a queue pair has sent or received so many bytes of one message at once, by
// a socket. While one end works on a long message the other waits, for longer than a wake-up takes.
// So the next waits sleep at once, whichever threads of the process they are of. The system may
// then have both ends share a core, and its caches.
func (e *Engine) NoteMessage(n int) {
	if n >= policy.SpinBytes && e.long.Load() < longRest {
		e.long.Store(longRest)
	}
}

// ringsWait reports whether a peer has written a ring that no thread has read.
func (e *Engine) ringsWait() bool {
	for _, r := range *e.rings.Load() {
		if r.Waiting() {
			return true
		}
	}
	return false
}

func (s *Spin) wait(clock func() monotime.Time, waiting, read func() bool) bool {
	if n := s.rest.Load(); n > 0 {
		s.rest.Store(n - 1)
		return false
	}
	start := clock()
	if start < monotime.Time(s.until.Load()) {
		return false
	}
	looks := 0 // at sockets
	for look := start.Add(s.firstLook()); ; {
		now := clock()
		took := now.Sub(start)
		if took > policy.Spin && looks > 0 { // with none the thread was held up
			s.first.Store(0)
			s.vain.Store(int64(now))
			s.note(missCosts, now)
			return false
		}
		bySocket := !now.Before(look)
		if !bySocket && !waiting() {
			continue
		}
		if bySocket {
			if looks++; looks <= closeLooks {
				look = now.Add(closeLook)
			} else {
				look = now.Add(policy.SpinLook)
			}
		}
		if !read() {
			continue
		}
		if bySocket {
			s.learn(took, looks)
		}
		if took > spinPays {
			s.note(lateCosts, now)
		} else {
			s.paid()
		}
		return true
	}
}

// firstLook returns how long after the begin of a wait sockets are looked at. Each look is a system
// call, so the first one is about when messages came before.
func (s *Spin) firstLook() monotime.Duration {
	if d := monotime.Duration(s.first.Load()); d > 0 {
		return d
	}
	return policy.SpinLook
}

// learn notes that a look at sockets found a message. The first look should find few: a message
// that it finds may have waited. So it is never later than a message that comes soon.
func (s *Spin) learn(took monotime.Duration, looks int) {
	d := s.firstLook()
	if looks == 1 {
		d -= d / 8
	} else {
		d += (took - d) / 4
	}
	s.first.Store(int64(min(max(d, closeLook), spinPays)))
}

// note adds the costs of a wait that ends now.
func (s *Spin) note(costs int32, now monotime.Time) {
	if s.costs.Add(costs) < spinPatience {
		return
	}
	s.costs.Store(0)
	term := min(max(2*monotime.Duration(s.term.Load()), firstRest), lastRest)
	s.term.Store(int64(term))
	s.restUntil(now.NextMultiple(term))
	s.rest.Store(restWaits << min(s.rare.Load(), rareDoubles))
}

// paid notes a message that came soon.
func (s *Spin) paid() {
	if costs := s.costs.Load(); costs > 0 {
		s.costs.Store(max(costs-soonSaves, 0))
		return
	}
	s.inTime()
	if term := s.term.Load(); term > 0 {
		s.term.Store(term / 2)
	}
}
