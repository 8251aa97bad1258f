// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"verbena/internal/iwarp/mpa"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	wire "verbena/internal/wire/iwarp"
)

// Stream is a queue pair on a TCP stream. Beside the methods below it has those
// of QP that concern work requests and state.
//
//	HandleInput(now, bytes)        bytes of the stream, however cut
//	Place, HandlePlaced            or read where they belong
//	PollOutput(now, *mpa.Burst)    fills one burst; call until it returns false
//	HandleWritten(now, n)          n more bytes of output are in the socket
//	HandleClose(now, lost)         the peer's side has ended
//	Closing()                      what to do with the stream when output is written
type Stream struct {
	*QP
	in      mpa.Deframer
	out     mpa.Framer
	emitted uint64 // bytes polled
	written uint64
	dead    bool   // input is no stream of FPDUs any more
	layout  layout // of the read
}

// NewStream returns a queue pair in the RESET state, without a stream.
func NewStream(c qp.Config) *Stream { return &Stream{QP: New(c)} }

// Connect gives the queue pair a stream that is set up. mss is the segment size of the connection;
// early are the bytes that came behind the Reply. It is to be called before the queue pair goes to
// RTS. Early input is only taken from then on, so that receives are posted.
func (s *Stream) Connect(c mpa.Settled, initiator, extensions bool, mss int) {
	*s = Stream{QP: s.QP, in: mpa.Deframer{CRC: c.CRC},
		out: mpa.Framer{CRC: c.CRC, Markers: c.SendMarkers}}
	s.Start(Settings{MaxSegment: wire.MaxULPDUFor(mss, c.SendMarkers), Initiator: initiator,
		RTR: c.RTR, Extensions: extensions, Counted: extensions})
}

// HandleInput takes bytes of the stream; all of b is looked at.
func (s *Stream) HandleInput(now monotime.Time, b []byte) {
	for !s.dead {
		ev, data, rest := s.in.Next(b)
		b = rest
		switch ev {
		case mpa.NeedMore:
			return
		case mpa.Started:
			s.BeginSegment(s.in.Length())
		case mpa.Data:
			s.SegmentData(data)
		case mpa.Ended:
			s.EndSegment(now)
		case mpa.BadCRC:
			s.Count[BadCRCs]++
			s.end(now, wire.MPACRCError)
		case mpa.BadMarker:
			s.Count[BadMarkers]++
			s.end(now, wire.MPAMarkerMismatch)
		}
	}
}

// end gives the input up.
func (s *Stream) end(now monotime.Time, e wire.TermError) {
	s.dead = true
	s.LayerError(now, e)
}

// placeAbove is the number of payload bytes from which reading straight into place pays. Below it a
// copy costs less than resolving memory and a longer scatter list.
const placeAbove = 512

// GapsBytes is the room that Place needs for all bytes between payloads.
const GapsBytes = wire.MaxMore * maxGap

// maxGap bounds the bytes between two payloads: pad, CRC, length, header.
const maxGap = 3 + wire.CRCBytes + wire.LengthBytes + wire.UntaggedBytes

// Place appends to iov the memory for the next bytes of the stream, and returns how many; bytes
// behind them belong into a buffer, for HandleInput. 0: all do. Else HandlePlaced must follow
// before any other input, with 0 bytes if none came: until then the memory is held, so that the
// read needs no lock.
//
// The segments that follow for sure are read too: their payloads to their places, and the bytes
// between payloads to gaps, which has GapsBytes.
func (s *Stream) Place(iov [][]byte, gaps []byte) ([][]byte, int) {
	s.layout = layout{}
	run := s.in.Run()
	if s.dead || run < placeAbove {
		return iov, 0
	}
	s.layout = s.openPlace(run, s.in.Markers)
	l := &s.layout
	iov = s.appendPlace(iov, 0, l.first)
	gap := s.gap()
	for i := range l.behind {
		iov = append(iov, gaps[:gap:gap])
		gaps = gaps[gap:]
		iov = s.appendPlace(iov, l.first+i*l.size, l.size)
	}
	return iov, l.bytes() + l.behind*gap
}

// gap returns the bytes between the payload of the segment that is arriving and that of an equal
// one behind it.
func (s *Stream) gap() int {
	return wire.PadBytes(s.in.Length()) + wire.CRCBytes + wire.LengthBytes + s.rx.h.HeaderBytes()
}

// HandlePlaced handles the next n bytes of the stream, which were read to where, Place's memory.
func (s *Stream) HandlePlaced(now monotime.Time, where [][]byte, n int) {
	size := s.layout.first
	for {
		k := min(n, size)
		if k > 0 && !s.in.Placed(where, k) {
			s.PlaceFault()
		}
		s.placed(k)
		if n -= k; n == 0 {
			break
		}
		for ; size > 0; where = where[1:] {
			size -= len(where[0])
		}
		before := s.rx.h
		k = min(n, len(where[0]))
		s.HandleInput(now, where[0][:k])
		if n -= k; n == 0 {
			break
		}
		where, size = where[1:], s.layout.size
		if !s.continues(&before, size) {
			s.reclaim(now, where, n)
			return
		}
	}
	s.closePlace()
}

// continues reports whether the segment that has begun is the one that belongs behind another,
// with as much payload.
func (s *Stream) continues(before *wire.Header, size int) bool {
	if s.dead || s.in.Run() != size || !s.takesPayload() {
		return false
	}
	want := *before
	want.Last, want.More = s.rx.h.Last, s.rx.h.More
	if want.Tagged {
		want.TO += uint64(size)
	} else {
		want.MO += uint32(size)
	}
	return s.rx.h == want
}

// reclaim handles n bytes that were read to the place of a segment that did not come: the sender
// has found an error, and a Terminate follows. The message, whose memory this is, fails.
func (s *Stream) reclaim(now monotime.Time, where [][]byte, n int) {
	b := make([]byte, n)
	ok := true
	for rest := b; ok && len(rest) > 0; where = where[1:] {
		k := min(len(rest), len(where[0]))
		ok = mem.Copy(rest, where[0][:k])
		rest = rest[k:]
	}
	s.closePlace()
	if !ok {
		s.end(now, wire.RDMAPLocalCatastrophic)
		return
	}
	s.HandleInput(now, b)
}

// PollOutput fills b with the next FPDUs; false if there is nothing to be sent
// now.
func (s *Stream) PollOutput(now monotime.Time, b *mpa.Burst) bool {
	for {
		head, p, ok := s.Peek(now)
		if !ok {
			break
		}
		before := b.Bytes()
		switch s.out.Append(b, head, p) {
		case mpa.Added:
			s.emitted += uint64(b.Bytes() - before)
			s.Commit(now, s.emitted)
			continue
		case mpa.Fault:
			s.DropFaulty(now)
			continue
		case mpa.Full:
			s.Drop(true)
		}
		break
	}
	return b.Len() > 0
}

// HandleWritten is called when n more bytes of output are in the socket.
func (s *Stream) HandleWritten(now monotime.Time, n int) {
	s.written += uint64(n)
	s.QP.HandleWritten(now, s.written)
}

// HandleClose handles the end of the peer's side of the stream, or the loss of all of it. An end
// within an FPDU is a loss.
func (s *Stream) HandleClose(now monotime.Time, lost bool) {
	s.QP.HandleClose(now, lost || !s.in.Between())
}

// SegmentBytes returns the length of the segment that is arriving, or was the
// last to arrive.
func (s *Stream) SegmentBytes() int { return s.in.Length() }

// Rest returns how many payload bytes of the segment that is arriving come next
// without anything between, as far as that is known: not before its headers are.
func (s *Stream) Rest() int {
	if !s.rx.done {
		return 0
	}
	return s.in.Run()
}

// Unwritten returns how many bytes of output are polled and not written.
func (s *Stream) Unwritten() uint64 { return s.emitted - s.written }
