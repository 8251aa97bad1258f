// SPDX-License-Identifier: BSD-2-Clause

package faultcap

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/monotime"
	"verbena/internal/sys/tcp"
	"verbena/internal/wire/pcap"
)

// Conn is the interface that a Stream wraps and implements: *tcp.Conn or *Stream.
type Conn interface {
	Readv(*tcp.Vectors, [][]byte) (int, error)
	Writev(*tcp.Vectors, [][]byte) (int, error)
	CloseWrite() error
	Close() error
	Abort() error
	Finish() error
	MSS() (int, error)
	Path() (congestion.Path, error)
	Local() netip.AddrPort
	Remote() netip.AddrPort
	FD() int
}

// Stream shows the bytes of a TCP connection to a capture, and injects faults into those sent. A
// stream's bytes arrive in order or not at all. So it has these faults: corruption, which MPA's CRC
// is for, delay, and the cut, a reset in mid-stream.
//
// The segments of the capture are made up. Ports and bytes are true, while sequence numbers count
// from our side. A segment has the bytes of one write, or those read until nothing was left, cut to
// the segment size of the connection. tshark 4.0 does not follow an FPDU through three segments.
type Stream struct {
	Conn
	capture *Capture // nil: no capture
	dialled bool

	mu       sync.Mutex
	faults   Faults         // guarded by mu
	rng      *rand.Rand     // guarded by mu
	sent     uint32         // guarded by mu: sequence number of the next byte
	received uint32         // guarded by mu: of the next byte of the peer
	came     []byte         // guarded by mu: bytes read and not shown
	one      [1][]byte      // guarded by mu: of arrived, reused
	mss      int            // guarded by mu: 0 before there is a connection
	ended    bool           // guarded by mu: we have said that no more follows
	spoiled  []byte         // guarded by mu: the damaged copy that is sent instead
	line     delayLine      // guarded by mu
	path     congestion.Log // guarded by mu
	owner    string         // guarded by mu: names the queue pair in comments
	comment  string         // guarded by mu: of the next segment sent
}

// NewStream wraps a connection, of Dial or of a listener. stream tells
// connections of one seed apart.
func NewStream(c Conn, dialled bool, f Faults, stream uint64, capture *Capture) *Stream {
	s := &Stream{Conn: c, capture: capture, dialled: dialled, faults: f,
		rng: rand.New(rand.NewPCG(f.Seed, stream))}
	if !dialled {
		s.begin()
	}
	return s
}

// begin shows the three segments that make a connection.
func (s *Stream) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.capture.begin()
	defer s.capture.end()
	s.mss = minShown
	s.show(now, s.dialled, pcap.Segment{SYN: true}, nil)
	*s.next(s.dialled)++
	s.show(now, !s.dialled, pcap.Segment{SYN: true, HasAck: true}, nil)
	*s.next(!s.dialled)++
	s.show(now, s.dialled, pcap.Segment{HasAck: true}, nil)
}

// Bounds of a segment in a capture: the size that IPv4 carries, and no nonsense.
const (
	maxShown = 65000
	minShown = 536
)

// Finish is tcp.Conn's.
func (s *Stream) Finish() error {
	err := s.Conn.Finish()
	if err == nil {
		s.begin()
	}
	return err
}

// next returns the sequence number of the next bytes sent, or received.
func (s *Stream) next(out bool) *uint32 {
	if out {
		return &s.sent
	}
	return &s.received
}

// show captures a segment, sent or received. mu and the capture's lock are held.
func (s *Stream) show(now time.Time, out bool, g pcap.Segment, payload [][]byte) {
	if s.capture == nil {
		return
	}
	g.Time, g.Seq, g.Ack = now, *s.next(out), *s.next(!out)
	g.Src, g.Dst, g.Direction = s.Local(), s.Remote(), pcap.Outbound
	if !out {
		g.Src, g.Dst, g.Direction = g.Dst, g.Src, pcap.Inbound
	}
	if out {
		g.Comment, s.comment = s.comment, ""
	}
	s.capture.segment = g
	_ = s.capture.sink.WriteSegment(&s.capture.segment, payload...) // Close tells
}

// moved captures n bytes at the front of a scatter list. mu and the capture's lock are held.
func (s *Stream) moved(now time.Time, out bool, list [][]byte, n int) {
	if n > s.mss { // it grows with the window
		if mss, err := s.Conn.MSS(); err == nil {
			s.mss = min(max(mss, minShown), maxShown)
		}
	}
	if s.capture == nil {
		*s.next(out) += uint32(n)
		return
	}
	c := cutter{iov: list}
	for n > 0 {
		k := min(n, s.mss)
		pieces := c.cut(s.capture.pieces[:0], k)
		s.capture.pieces = pieces
		s.show(now, out, pcap.Segment{HasAck: true}, pieces)
		*s.next(out) += uint32(k)
		n -= k
	}
}

// read takes n bytes read, at the front of a scatter list. mu and the capture's lock are held.
func (s *Stream) read(now time.Time, list [][]byte, n int) {
	if s.capture == nil {
		return
	}
	for _, p := range list {
		p = p[:min(len(p), n)]
		s.came = append(s.came, p...)
		n -= len(p)
	}
	if k := len(s.came) - len(s.came)%s.mss; k > 0 {
		s.arrived(now, k)
	}
}

// arrived captures the first n bytes that were read and not shown. mu and the capture's lock are
// held.
func (s *Stream) arrived(now time.Time, n int) {
	if n > 0 {
		s.one[0] = s.came[:n]
		s.moved(now, false, s.one[:], n)
		s.came = s.came[:copy(s.came, s.came[n:])]
	}
}

// Readv is tcp.Conn's.
func (s *Stream) Readv(v *tcp.Vectors, list [][]byte) (int, error) {
	n, err := s.Conn.Readv(v, list)
	if n == 0 && err == nil {
		return 0, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.capture.begin()
	defer s.capture.end()
	s.read(now, list, n)
	room := 0
	for _, p := range list {
		room += len(p)
	}
	if n < room {
		s.arrived(now, len(s.came))
	}
	switch err {
	case io.EOF:
		s.show(now, false, pcap.Segment{FIN: true, HasAck: true}, nil)
		s.received++
	case syscall.ECONNRESET:
		s.show(now, false, pcap.Segment{RST: true}, nil)
	}
	return n, err
}

// Writev is tcp.Conn's, for the bytes that the faults leave. A connection that they cut is not
// there any more: ECONNRESET.
func (s *Stream) Writev(v *tcp.Vectors, list [][]byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rng.Float64() < s.faults.Cut {
		return 0, syscall.ECONNRESET
	}
	if s.rng.Float64() < s.faults.Corrupt {
		list = s.corrupt(list)
	}
	if s.delays() {
		return s.delay(list)
	}
	return s.pass(v, list)
}

// pass sends as much of a scatter list as the socket takes. mu is held.
func (s *Stream) pass(v *tcp.Vectors, list [][]byte) (int, error) {
	now := s.capture.begin()
	defer s.capture.end()
	s.arrived(now, len(s.came)) // the bytes sent may be the answer
	n, err := s.Conn.Writev(v, list)
	if n > 0 {
		s.describe()
	}
	s.moved(now, true, list, n)
	return n, err
}

// describe gives the next segment a comment with the state of the path, if that has changed. mu is
// held.
func (s *Stream) describe() {
	now := monotime.Now()
	if s.capture == nil || !s.path.Due(now) {
		return
	}
	if p, err := s.Conn.Path(); err == nil && s.path.Add(now, p) {
		text, _ := p.AppendText([]byte(s.owner))
		s.comment = string(text)
	}
}

// Name notes the queue pair that has the connection now. The comments of its segments begin with
// its number, and the next one sent has a comment.
func (s *Stream) Name(q ib.QPN) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owner = fmt.Sprintf("qpn=%#06x ", uint32(q))
	s.comment = strings.TrimSpace(s.owner + s.comment)
}

// corrupt returns a copy of the front of a scatter list with one bit changed. The copy may be
// shorter: the rest is written by another call.
func (s *Stream) corrupt(list [][]byte) [][]byte {
	const most = 64 << 10
	s.spoiled = s.spoiled[:0]
	for _, p := range list {
		if room := most - len(s.spoiled); len(p) > room {
			p = p[:room]
		}
		s.spoiled = append(s.spoiled, p...)
	}
	if n := len(s.spoiled); n > 0 {
		bit := s.rng.Uint64N(uint64(8 * n))
		s.spoiled[bit/8] ^= 1 << (bit % 8)
	}
	return [][]byte{s.spoiled}
}

// finish shows that no more follows. mu is held.
func (s *Stream) finish() {
	if !s.ended && s.mss > 0 {
		s.ended = true
		now := s.capture.begin()
		defer s.capture.end()
		s.arrived(now, len(s.came))
		s.show(now, true, pcap.Segment{FIN: true, HasAck: true}, nil)
		s.sent++
	}
}

// CloseWrite is tcp.Conn's, behind delayed bytes.
func (s *Stream) CloseWrite() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.line.pieces) > 0 {
		s.line.shut = true
		return nil
	}
	s.finish()
	return s.Conn.CloseWrite()
}

// Close is tcp.Conn's. It waits until delayed bytes have been sent.
func (s *Stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drain()
	s.finish()
	return s.Conn.Close()
}

// Abort is tcp.Conn's.
func (s *Stream) Abort() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line.drop()
	if s.mss > 0 {
		now := s.capture.begin()
		defer s.capture.end()
		s.arrived(now, len(s.came))
		s.show(now, true, pcap.Segment{RST: true, HasAck: true}, nil)
	}
	return s.Conn.Abort()
}
