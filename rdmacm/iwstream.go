// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"errors"
	"net/netip"
	"syscall"

	"verbena/internal/cm/iwcm"
	"verbena/internal/engine"
	"verbena/internal/monotime"
	"verbena/internal/transport/iwarp"
)

// iwStream is a connection and the stream that it is set up on, until a queue
// pair has it.
type iwStream struct {
	// immutable
	iw       *iwManager
	conn     *iwcm.Conn // guarded by manager.mu
	listener *iwListener
	engine   *engine.Engine // of a stream that is dialled, as the next two
	local    netip.AddrPort
	remote   netip.AddrPort

	// guarded by manager.mu
	sock  *iwarp.Stream // nil before it is open, and once it is closed or a queue pair's
	turn  *iwTurn       // takes the events of sock
	owner *iwConnector  // nil before a request has an identifier, and once that is destroyed
}

// iwTurn takes the events of one stream. Once another stream has taken its place they have no
// meaning.
type iwTurn struct{ *iwStream }

func (s *iwStream) newTurn() *iwTurn {
	s.turn = &iwTurn{s}
	return s.turn
}

// tell passes on the engine's events of a stream.
func (t *iwTurn) tell(f func(c *iwcm.Conn, now monotime.Time)) {
	t.iw.update(t.iwStream, func(c *iwcm.Conn, now monotime.Time) {
		if t.turn == t {
			f(c, now)
		}
	})
}

// Connected implements iwarp.StreamEvents.
func (t *iwTurn) Connected() {
	t.tell(func(c *iwcm.Conn, now monotime.Time) { c.HandleConnected(now) })
}

// Input implements iwarp.StreamEvents. Once the set-up is done the queue pair takes the input.
func (t *iwTurn) Input(b []byte) (more bool) {
	t.tell(func(c *iwcm.Conn, now monotime.Time) {
		c.HandleInput(now, b)
		more = c.State() != iwcm.Replied && c.State() != iwcm.Closed
	})
	return more
}

// Closed implements iwarp.StreamEvents.
func (t *iwTurn) Closed(err error) {
	t.tell(func(c *iwcm.Conn, now monotime.Time) { c.HandleClose(now, faultOf(err)) })
}

// faultOf classifies the end of a TCP connection.
func faultOf(err error) iwcm.Fault {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return iwcm.FaultRefused
	case errors.Is(err, syscall.ETIMEDOUT):
		return iwcm.FaultTimeout
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return iwcm.FaultUnreachable
	}
	return iwcm.FaultReset // the peer's end of it, or any other
}

// flush writes the connection's output, and closes the stream if it wants that.
func (w *iwManager) flush(s *iwStream) {
	w.m.mu.Lock()
	sock := s.sock
	want := s.conn.Want()
	if want == iwcm.WantRedial {
		s.sock, s.turn = nil, nil
		s.conn.HandleRedial()
		w.m.mu.Unlock()
		if sock != nil {
			sock.Close()
		}
		_, _ = w.open(s) // the connection has been notified
		return
	}
	if sock == nil { // not open yet, or no more
		w.forgetLocked(s)
		w.m.mu.Unlock()
		return
	}
	var out []byte
	for b, ok := s.conn.PollOutput(); ok; b, ok = s.conn.PollOutput() {
		out = append(out, b...)
	}
	if want != iwcm.KeepOpen {
		s.sock, s.turn = nil, nil
	}
	w.forgetLocked(s)
	w.m.mu.Unlock()

	var err error
	if len(out) > 0 && want != iwcm.WantAbort {
		err = sock.Send(out)
	}
	switch want {
	case iwcm.WantShut:
		sock.Close()
	case iwcm.WantAbort:
		sock.Abort()
	default:
		if err != nil {
			w.update(s, func(c *iwcm.Conn, now monotime.Time) { c.HandleClose(now, faultOf(err)) })
		}
	}
}

// forgetLocked looks no more after a connection that is over.
func (w *iwManager) forgetLocked(s *iwStream) {
	if s.conn.State() == iwcm.Closed && s.sock == nil {
		delete(w.streams, s.conn)
		delete(w.timed, s)
	}
}

// open opens a stream to the peer of a connection that dials, and returns where
// from.
func (w *iwManager) open(s *iwStream) (local netip.AddrPort, err error) {
	w.m.mu.Lock()
	turn := s.newTurn()
	w.m.mu.Unlock()
	sock, err := iwarp.Of(s.engine).Dial(s.local, s.remote,
		func(sock *iwarp.Stream) iwarp.StreamEvents {
			w.m.mu.Lock()
			s.sock = sock
			w.m.mu.Unlock()
			return turn
		})
	if err != nil {
		turn.tell(func(c *iwcm.Conn, now monotime.Time) {
			s.sock = nil
			c.HandleClose(now, faultOf(err))
		})
		return netip.AddrPort{}, err
	}
	return sock.Local(), nil
}
