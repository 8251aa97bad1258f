// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"sync/atomic"

	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
)

// Spin has a thread read on for policy.Spin before it sleeps, while that pays: a message that comes
// in this time wakes no thread. Two ends that spin answer each other as polling ends do.
//
//	found within spinPays       ─► costs fall; once there are none, half the next rest
//	found later, or not at all  ─► costs; a thread that found nothing sleeps
//	costs reach spinPatience    ─► so many waits sleep at once, twice as many the next time
//
// The zero value is ready. Several threads may use it: a note may be lost.
type Spin struct {
	costs atomic.Int32
	rest  atomic.Int32 // waits to come that do not spin
	term  atomic.Int32 // the last rest, halved since by messages that came soon
}

const (
	// A sleep and the wake-up after it take about as much time of a core.
	spinPays = 25 * monotime.Microsecond
	// The first messages that a thread finds are late, as its peer sleeps until it spins too. So 64
	// of them are allowed, and 4 waits without a message.
	spinPatience = 64
	lateCosts    = 1
	missCosts    = 16
	soonSaves    = missCosts / 2
	// Where more than a third of the waits are in vain the rests grow, too.
	firstRest = 16
	lastRest  = 1024
)

// Wait calls read, which reads arrivals, until it reports true or spinning does not pay. It reports
// whether read did.
func (s *Spin) Wait(e *Engine, read func() bool) bool {
	return s.wait(monotime.Now, e.ringsWait, read)
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
	for look := start.Add(policy.SpinLook); ; {
		now := clock()
		took := now.Sub(start)
		if took > policy.Spin {
			s.note(missCosts)
			return false
		}
		if now.Before(look) && !waiting() {
			continue
		}
		look = now.Add(policy.SpinLook)
		if !read() {
			continue
		}
		if took > spinPays {
			s.note(lateCosts)
		} else {
			s.paid()
		}
		return true
	}
}

// note adds the costs of a wait.
func (s *Spin) note(costs int32) {
	if s.costs.Add(costs) < spinPatience {
		return
	}
	s.costs.Store(0)
	term := min(max(2*s.term.Load(), firstRest), lastRest)
	s.term.Store(term)
	s.rest.Store(term)
}

// paid notes a message that came soon.
func (s *Spin) paid() {
	if costs := s.costs.Load(); costs > 0 {
		s.costs.Store(max(costs-soonSaves, 0))
	} else if term := s.term.Load(); term > 0 {
		s.term.Store(term / 2)
	}
}
