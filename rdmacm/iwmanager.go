// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"verbena/internal/cm/iwcm"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/monotime"
)

// iwManager is iWARP's connection manager in this process.
//
// The engine reads streams that are being set up, and hands their bytes to iwStream. That feeds the
// connection under the manager's mu and wakes the manager's goroutine. The goroutine does the rest:
// it writes, closes, opens again, and takes events to identifiers. Commands of the application
// write their answers themselves. The engine is never called with mu held.
type iwManager struct {
	m *manager

	// guarded by m.mu
	count   iwcm.Counters
	streams map[*iwcm.Conn]*iwStream // those that are not over
	timed   map[*iwStream]struct{}   // of them, those with a timer
	touched []*iwStream              // changed since the goroutine handled them
	// ports without a listener, with the time until which they wait
	bound map[*iwListener]monotime.Time
}

func newIWManager(m *manager) *iwManager {
	return &iwManager{m: m, streams: map[*iwcm.Conn]*iwStream{}, timed: map[*iwStream]struct{}{},
		bound: map[*iwListener]monotime.Time{}}
}

// options returns this side's offer for every set-up: first messages of every kind, from which a
// client sends one, and RFC 7306's operations.
func (w *iwManager) options(crc bool) mpa.Options {
	return mpa.Options{CRC: crc, Extensions: true,
		RTR: mpa.RTRs(mpa.RTREmpty, mpa.RTRWrite, mpa.RTRRead)}
}

// addLocked adds a connection to those that are served.
func (w *iwManager) addLocked(s *iwStream) {
	w.streams[s.conn] = s
	w.touchLocked(s)
}

// touchLocked hands a stream to the goroutine.
func (w *iwManager) touchLocked(s *iwStream) {
	w.touched = append(w.touched, s)
	if s.conn.NextTimeout() == monotime.Never {
		delete(w.timed, s)
	} else {
		w.timed[s] = struct{}{}
	}
}

// update runs f on a connection and hands its stream to the goroutine.
func (w *iwManager) update(s *iwStream, f func(c *iwcm.Conn, now monotime.Time)) {
	w.m.mu.Lock()
	f(s.conn, monotime.Now())
	w.touchLocked(s)
	w.m.mu.Unlock()
	w.m.kick()
}

// serve does due work, on the manager's goroutine. It returns when it is to be called next, and
// whether there was something to do.
func (w *iwManager) serve(now monotime.Time) (next monotime.Time, busy bool) {
	next = monotime.Never
	w.m.mu.Lock()
	for s := range w.timed {
		if t := s.conn.NextTimeout(); now.Before(t) {
			next = min(next, t)
			continue
		}
		s.conn.HandleTimeout(now)
		w.touchLocked(s)
	}
	var late []*iwListener
	for l, until := range w.bound {
		if now.Before(until) {
			next = min(next, until)
			continue
		}
		late = append(late, l)
	}
	touched := w.touched
	w.touched = nil
	w.m.mu.Unlock()
	for _, l := range late {
		_ = l.start() // fails if it was closed meanwhile, or keeps waiting
	}
	for _, s := range touched {
		w.settle(s)
	}
	return next, len(touched) > 0
}

// settle carries out a connection's wishes after its inputs.
func (w *iwManager) settle(s *iwStream) {
	w.flush(s)
	w.m.mu.Lock()
	var events []iwcm.Event
	for ev, ok := s.conn.PollEvent(); ok; ev, ok = s.conn.PollEvent() {
		events = append(events, ev)
	}
	owner, l := s.owner, s.listener
	w.m.mu.Unlock()
	if owner != nil {
		for _, ev := range events {
			owner.dispatch(s, ev)
		}
	}
	if l != nil {
		l.request()
	}
}

// idleLocked reports whether nothing is under way any more.
func (w *iwManager) idleLocked() bool { return len(w.streams)+len(w.touched) == 0 }
