// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"time"

	"verbena/ib"
)

// pollBatch is the number of completions that one poll takes.
const pollBatch = 64

// stream is one size of a bandwidth test on one side.
type stream struct {
	e        *endpoint
	w        *watch
	size     int64
	sends    bool
	receives bool
	deadline time.Time // zero is by iterations
	meter    meter
	messages int64
	arrived  int64 // messages received
	stopped  bool  // the deadline has passed
	reported bool  // we have notified the peer that we are done
	wc       [pollBatch]ib.WC
	progress func(int64)
}

// run sends and receives until both sides are done. report is called once,
// when this side has sent all.
func (s *stream) run(report func(BWResult) error) error {
	wait := s.e.waiter()
	s.meter = newMeter(time.Now())
	if s.e.o.duration > 0 {
		s.deadline = s.meter.start.Add(s.e.o.duration)
	}
	for {
		if s.sends && !s.reported {
			if err := s.fill(); err != nil {
				return err
			}
		}
		sent, err := s.pollSends()
		if err != nil {
			return err
		}
		received, err := s.pollReceives()
		if err != nil {
			return err
		}
		if !s.reported && s.finished() {
			s.reported = true
			if err := report(s.meter.result(time.Now(), s.messages)); err != nil {
				return err
			}
			if !s.receives {
				return nil
			}
		}
		if sent+received > 0 {
			continue
		}
		if wait.idle(s.w.ctx) != nil {
			return s.ended(report)
		}
	}
}

// ended is reached when the peer is done, or gone.
func (s *stream) ended(report func(BWResult) error) error {
	if err := s.w.failed(); err != nil {
		return err
	}
	select {
	case <-s.w.done:
	default:
		return s.w.ctx.Err() // interrupted
	}
	if s.reported {
		return nil
	}
	if !s.sends {
		return report(BWResult{})
	}
	// The peer was faster; the context is spent, so wait by polling alone.
	for !s.finished() {
		if err := s.fill(); err != nil {
			return err
		}
		if _, err := s.pollSends(); err != nil {
			return err
		}
	}
	s.reported = true
	return report(s.meter.result(time.Now(), s.messages))
}

func (s *stream) fill() error {
	if s.stopped {
		return nil
	}
	for i := range s.e.flows {
		if err := s.e.flows[i].fill(i); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) pollSends() (int, error) {
	if !s.sends {
		return 0, nil
	}
	n, err := s.e.scq.Poll(s.wc[:])
	if n == 0 || err != nil {
		return n, err
	}
	now := time.Now()
	for i := range n {
		done, err := s.e.complete(&s.wc[i])
		if err != nil {
			return n, err
		}
		s.messages += done
		s.meter.add(now, done*s.size)
	}
	if !s.deadline.IsZero() && now.After(s.deadline) {
		s.stopped = true
	}
	if s.progress != nil {
		s.progress(s.messages)
	}
	return n, nil
}

// pollReceives posts a receive for each that was used, a list at a time.
func (s *stream) pollReceives() (int, error) {
	if !s.receives {
		return 0, nil
	}
	n, err := s.e.rcq.Poll(s.wc[:])
	if err != nil {
		return n, err
	}
	for i := range n {
		wc := &s.wc[i]
		if wc.Status == ib.WCWRFlushErr && s.e.dev.Info().Kind.IsIWARP() {
			return 0, nil // the peer has closed the connection: if it was done, its message says so
		}
		if wc.Status != ib.WCSuccess {
			return n, explain(wc)
		}
		i := int(wc.WRID >> flowShift)
		f := &s.e.flows[i]
		f.used++
		s.arrived++
		if err := f.restore(i, min(listLength, s.e.receiveDepth()/2)); err != nil {
			return n, err
		}
	}
	return n, nil
}

// drainTime bounds the time for which the last messages may be under way after the peer has said
// that it is done.
const drainTime = 10 * time.Millisecond

// drain takes in the messages still under way and returns how many arrived.
func (s *stream) drain() (int64, error) {
	for quiet := time.Now(); time.Since(quiet) < drainTime; {
		n, err := s.pollReceives()
		if err != nil {
			return 0, err
		}
		if n > 0 {
			quiet = time.Now()
		}
	}
	return s.arrived, nil
}

func (s *stream) finished() bool {
	if !s.sends {
		return false
	}
	for i := range s.e.flows {
		if !s.e.flows[i].finished(s.stopped) {
			return false
		}
	}
	return true
}
