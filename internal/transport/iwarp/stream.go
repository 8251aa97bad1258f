// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import (
	"io"
	"net"
	"net/netip"
	"syscall"

	"verbena/internal/engine/policy"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/tcp"
)

// StreamEvents takes the events of a stream that is being set up. The polling thread calls it, one
// call at a time. A call must not block, nor call package verbs or Poll; it may call the stream's
// own methods.
type StreamEvents interface {
	// Connected is called when a stream of Dial is up.
	Connected()
	// Input brings bytes, which are the engine's again when it returns. With false
	// no more is read until the stream is a queue pair's.
	Input(b []byte) (more bool)
	// Closed is the last call: the peer has closed its side, which is no error, or
	// there is no connection any more, or never was.
	Closed(err error)
}

// Stream is a TCP connection that is no queue pair's yet.
type Stream struct {
	// immutable once it is watched
	in   *input
	sock faultcap.Conn
	id   uint64
	ev   StreamEvents

	use        use
	connecting bool // of the thread that reads
	paused     bool // of the thread that reads
}

// Local returns our address.
func (s *Stream) Local() netip.AddrPort { return s.sock.Local() }

// Remote returns the peer's address.
func (s *Stream) Remote() netip.AddrPort { return s.sock.Remote() }

// Dial begins a connection from local, where the address, the port or both may be left to the
// system. began returns the StreamEvents to notify. It is called, as their methods are, before any
// of those and before Dial returns.
//
// Errors, at once: EADDRNOTAVAIL, EADDRINUSE, ENETUNREACH and such. Others come
// with Closed.
func (t *Transport) Dial(local, remote netip.AddrPort,
	began func(*Stream) StreamEvents) (*Stream, error) {
	in, err := t.input()
	if err != nil {
		return nil, err
	}
	sock, err := tcp.Dial(local, remote)
	if err != nil {
		return nil, err
	}
	s := &Stream{in: in, sock: in.eng.TapStream(sock, true), connecting: true}
	s.ev = began(s)
	if err := s.watch(tcp.WantWrite); err != nil {
		sock.Close()
		return nil, err
	}
	return s, nil
}

// watch puts the stream in the set. Events may come before it returns.
func (s *Stream) watch(want tcp.Interest) (err error) {
	s.use.mu.Lock() // the id is there before the first event is looked at
	defer s.use.mu.Unlock()
	s.id, err = s.in.watch(s.sock.FD(), want, s)
	return err
}

// setupBytes is the size of one read of a stream that is being set up: a frame of the largest size.
const setupBytes = 1 << 10

func (s *Stream) ready(in *input, ev tcp.Event) (n int) {
	if !s.use.begin() {
		return 0
	}
	defer s.use.done()
	switch {
	case s.paused:
	case s.connecting:
		if err := s.sock.Finish(); err != nil {
			s.lost(err)
			break
		}
		s.connecting = false
		if err := in.set.Change(s.sock.FD(), s.id, tcp.WantRead); err != nil {
			s.lost(err)
			break
		}
		s.ev.Connected()
	default:
		got, err := s.sock.Readv(&in.vec, append(in.iov[:0], in.buf[:setupBytes]))
		switch {
		case err == io.EOF:
			s.lost(nil)
		case err != nil:
			s.lost(err)
		case got > 0:
			n = 1
			if !s.ev.Input(in.buf[:got]) {
				s.paused = true
				in.unwatch(s.sock.FD(), s.id)
			}
		}
	}
	return n
}

// lost closes a stream that has ended and reports that.
func (s *Stream) lost(err error) {
	if s.use.end(s.abort) {
		s.ev.Closed(err)
	}
}

func (s *Stream) abort() {
	s.in.unwatch(s.sock.FD(), s.id)
	s.sock.Abort()
}

// Send writes b, a frame of the set-up.
//
// Errors: net.ErrClosed. ENOBUFS if the system did not take all of it: nothing more can be sent
// then. The error of a connection that is lost.
func (s *Stream) Send(b []byte) error {
	s.use.mu.Lock()
	defer s.use.mu.Unlock()
	if s.use.ended {
		return net.ErrClosed
	}
	return send(s.sock, b)
}

// send writes b, which is smaller than any socket's buffer.
func send(sock faultcap.Conn, b []byte) error {
	w := writers.Get().(*writer)
	defer writers.Put(w)
	n, err := sock.Writev(&w.vec, [][]byte{b})
	if err == nil && n < len(b) {
		err = syscall.ENOBUFS
	}
	return err
}

// Close closes the stream behind the data sent. No event begins once it has returned.
func (s *Stream) Close() {
	s.use.end(func() {
		s.in.unwatch(s.sock.FD(), s.id)
		s.sock.Close()
	})
}

// Abort resets the connection. No event begins once it has returned.
func (s *Stream) Abort() { s.use.end(s.abort) }

// Listener takes connections.
type Listener struct {
	// immutable
	in     *input
	l      *tcp.Listener
	accept func(*Stream) StreamEvents

	use use
	id  uint64 // guarded by use.mu; 0 until Start
}

// Listen takes connections to a local address; with port 0 the system chooses a port. accept is
// called for each from Start on, as StreamEvents' methods are, and returns the StreamEvents to
// notify; with nil the connection is reset. Until Start, and while accept is behind, the system
// keeps up to backlog of them.
//
// Errors: EADDRINUSE if any program listens there; EADDRNOTAVAIL.
func (t *Transport) Listen(addr netip.AddrPort, backlog int,
	accept func(*Stream) StreamEvents) (*Listener, error) {
	in, err := t.input()
	if err != nil {
		return nil, err
	}
	l, err := tcp.Listen(addr, backlog)
	if err != nil {
		return nil, err
	}
	return &Listener{in: in, l: l, accept: accept}, nil
}

// Start has the connections accepted, if they are not yet.
//
// Errors: net.ErrClosed; those of epoll_ctl(2).
func (s *Listener) Start() (err error) {
	s.use.mu.Lock() // the id is there before the first event is looked at
	defer s.use.mu.Unlock()
	if s.use.ended {
		return net.ErrClosed
	}
	if s.id != 0 {
		return nil
	}
	s.id, err = s.in.watch(s.l.FD(), tcp.WantRead, s)
	return err
}

// Addr returns the address, with the port that was chosen.
func (s *Listener) Addr() netip.AddrPort { return s.l.Local() }

// Close ends listening. accept is not called any more once it has returned,
// unless it is being called. Connections that the system keeps are reset.
func (s *Listener) Close() {
	s.use.end(func() {
		s.in.unwatch(s.l.FD(), s.id)
		s.l.Close()
	})
}

// ready accepts connections, as many as a stream has reads in a turn.
func (s *Listener) ready(in *input, ev tcp.Event) (n int) {
	if !s.use.begin() {
		return 0
	}
	defer s.use.done()
	for n < policy.StreamTurn {
		sock, err := s.l.Accept()
		if err != nil {
			in.eng.CountReadError()
		}
		if sock == nil {
			break
		}
		n++
		in.eng.Stranger()
		c := &Stream{in: in, sock: in.eng.TapStream(sock, false)}
		if c.ev = s.accept(c); c.ev == nil {
			c.use.end(func() { c.sock.Abort() })
			continue
		}
		if !c.use.begin() { // the owner has closed it already
			continue
		}
		err = c.watch(tcp.WantRead)
		c.use.done()
		if err != nil {
			c.lost(err)
		}
	}
	return n
}
