// SPDX-License-Identifier: BSD-2-Clause

package faultcap

import (
	"verbena/internal/monotime"
	"verbena/internal/sys/futex"
	"verbena/internal/sys/tcp"
)

// delayLine holds the bytes that a stream has taken and not sent yet. TCP keeps the order, so bytes
// with a short delay wait behind bytes with a longer one.
type delayLine struct {
	pieces []piece // the oldest first
	bytes  int
	alarm  *futex.Alarm // of the oldest; nil before the first
	shut   bool         // no more follows: CloseWrite behind the last
	err    error        // of a write: the connection is lost
	vec    tcp.Vectors
}

// piece are bytes of a stream and when they are to be sent.
type piece struct {
	buf []byte
	due monotime.Time
}

const (
	// maxDelayed bounds the bytes that a stream holds: 1 GB/s for 32 ms. Bytes beyond find no room,
	// as in a socket.
	maxDelayed = 32 << 20
	// fullWait is the pause before a full socket is tried again.
	fullWait = monotime.Millisecond
	// drainPatience bounds the time after the last delay in which a close waits for the peer to
	// take the delayed bytes.
	drainPatience = 100 * monotime.Millisecond
)

// delays reports whether bytes wait before they are sent.
func (s *Stream) delays() bool { return s.faults.Delay > 0 || s.faults.Jitter > 0 }

// delay takes a copy of the bytes that there is room for. s.mu is held.
func (s *Stream) delay(list [][]byte) (n int, err error) {
	l := &s.line
	if l.err != nil {
		return 0, l.err
	}
	wait := s.faults.Delay
	if s.faults.Jitter > 0 {
		wait += monotime.Duration(s.rng.Float64() * float64(s.faults.Jitter))
	}
	now := monotime.Now()
	p := piece{due: now.Add(wait)}
	if k := len(l.pieces); k > 0 {
		p.due = max(p.due, l.pieces[k-1].due)
	}
	for _, b := range list {
		b = b[:min(len(b), maxDelayed-l.bytes)]
		p.buf = append(p.buf, b...)
		l.bytes += len(b)
	}
	if len(p.buf) > 0 {
		l.pieces = append(l.pieces, p)
		s.passDelayed(now)
	}
	return len(p.buf), nil
}

// passDelayed sends due bytes. s.mu is held.
func (s *Stream) passDelayed(now monotime.Time) {
	l := &s.line
	next := monotime.Never
	for len(l.pieces) > 0 && l.err == nil {
		p := &l.pieces[0]
		if next = p.due; now.Before(next) {
			break
		}
		n, err := s.pass(&l.vec, [][]byte{p.buf})
		p.buf, l.bytes, l.err = p.buf[n:], l.bytes-n, err
		if len(p.buf) > 0 {
			next = now.Add(fullWait)
			break
		}
		l.pieces = l.pieces[:copy(l.pieces, l.pieces[1:])]
		next = monotime.Never
	}
	switch {
	case l.err != nil:
		l.drop()
	case next != monotime.Never:
		if l.alarm == nil {
			l.alarm = futex.NewAlarm(s.wake)
		}
		l.alarm.Set(max(next.Sub(now), 0))
	case l.shut:
		l.shut = false
		s.finish()
		l.err = s.Conn.CloseWrite()
	}
}

func (s *Stream) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passDelayed(monotime.Now())
}

// drop loses the held bytes.
func (l *delayLine) drop() {
	l.pieces, l.bytes, l.shut = nil, 0, false
	if l.alarm != nil {
		l.alarm.Stop()
	}
}

// drain waits until the held bytes have been sent, as a system that sends written data before a
// close. A peer that does not read is not waited for. s.mu is held, but not while it waits.
func (s *Stream) drain() {
	l := &s.line
	for len(l.pieces) > 0 {
		now := monotime.Now()
		last := l.pieces[len(l.pieces)-1].due
		if !now.Before(last.Add(drainPatience)) {
			break
		}
		s.mu.Unlock()
		futex.Sleep(max(last.Sub(now), fullWait))
		s.mu.Lock()
		s.passDelayed(monotime.Now())
	}
	l.drop()
}
