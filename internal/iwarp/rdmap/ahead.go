// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	wire "verbena/internal/wire/iwarp"
)

// A Guess holds the plan of one read behind the payload of a segment: the payloads of the next
// segments of the same SEND, and the bytes between them.
//
//	iov:  payload of Place | between[0] | payload | between[1] | payload | the reader's buffer
//
// A wrong guess must never change memory that no message was to be placed in. So the guess stays
// within the receive that the SEND has taken, which is the queue pair's until it completes. It ends
// where the last SEND ended. A shorter one leaves bytes of the stream in the receive, behind the
// message. They are copied to their place before the receive completes. The range of a WRITE is
// its sender's to choose, and known only at its end: no guess is made.
type Guess struct {
	n        int
	segments [maxGuessed]guessed
	between  [maxGuessed][betweenBytes]byte
	stray    []byte // bytes that were read to the wrong place
}

// guessed is a segment that may come.
type guessed struct {
	length  int         // of the segment
	h       wire.Header // but for its last flag
	between int         // bytes before its payload
	pieces  int         // of its payload's memory
	payload int
}

// Bounds of a guess: a read of an answer of 64 KiB takes all of it.
const (
	maxGuessed   = 7
	maxReadBytes = 64 << 10 // payload of one read
	betweenBytes = 3 + wire.CRCBytes + wire.LengthBytes + wire.UntaggedBytes
)

// PlaceAhead appends to iov the memory for bytes behind those of Place, which has given room for
// placed bytes, and returns how many. HandleAhead must follow HandlePlaced, also after a failed
// read or the end of the queue pair: until then the memory is held.
func (s *Stream) PlaceAhead(iov [][]byte, placed int, g *Guess) ([][]byte, int) {
	g.n = 0
	if placed == 0 || placed < s.in.Run() || s.in.Markers || !s.takesPayload() {
		return iov, 0
	}
	h := s.rx.h
	if h.Last || !h.Opcode.IsSend() {
		return iov, 0
	}
	length, each, room, payload := s.in.Length(), s.rx.payload(), 0, placed
	end := int(min(s.Recv.Length, s.rx.lastSend))
	for off := int(h.MO) + each; off < end && g.n < maxGuessed; off += each {
		a := &g.segments[g.n]
		a.payload = min(each, end-off)
		if payload += a.payload; payload > maxReadBytes {
			break
		}
		a.between = wire.FPDUBytes(length) - length + wire.UntaggedBytes
		at := len(iov)
		var ok bool
		iov = append(iov, g.between[g.n][:a.between])
		if iov, ok = s.openAhead(iov, off, a.payload); !ok {
			return iov[:at], room
		}
		length = wire.UntaggedBytes + a.payload
		h.MO = uint32(off)
		a.h, a.length, a.pieces = h, length, len(iov)-at-1
		room += a.between + a.payload
		g.n++
	}
	return iov, room
}

// openAhead appends the memory of n bytes from off of the receive held. It reports false where they
// cannot be read there: their segment will show why.
func (q *QP) openAhead(iov [][]byte, off, n int) ([][]byte, bool) {
	opened := len(q.guessing)
	var v ib.VendorErr
	if q.guessing, v = q.appendRecv(q.guessing, off, n); v != ib.VendorNone {
		return iov, false
	}
	for i := range q.guessing[opened:] {
		s := &q.guessing[opened+i]
		if s.Null() {
			return iov, false
		}
		iov = s.AppendSlices(iov, 0, s.Len())
	}
	return iov, true
}

// HandleAhead handles the next n bytes of the stream, which were read to where: the memory of
// PlaceAhead, and the reader's buffer behind it.
func (s *Stream) HandleAhead(now monotime.Time, where [][]byte, n int, g *Guess) {
	for i := 0; i < g.n && n > g.segments[i].between; i++ {
		a := &g.segments[i]
		if !a.follows(where[0]) {
			// The bytes before the wrong header may complete the receive: first its
			// memory is the application's alone.
			where, n = s.takeBack(now, where, n, g)
			break
		}
		s.HandleInput(now, where[0])
		if s.dead {
			n = 0
			break
		}
		k := min(n-a.between, a.payload)
		s.HandlePlaced(where[1:1+a.pieces], k)
		where, n = where[1+a.pieces:], n-a.between-k
	}
	if n > 0 {
		s.HandleInput(now, where[0][:n])
	}
	s.guessing = release(s.guessing)
}

// follows reports whether the bytes between two payloads end with the header guessed.
func (a *guessed) follows(between []byte) bool {
	length, head, _ := wire.ParseLength(between[a.between-wire.LengthBytes-wire.UntaggedBytes:])
	h, _, _ := wire.ParseHeader(head)
	h.Last = a.h.Last
	return length == a.length && h == a.h
}

// takeBack copies n bytes out of the memory of a wrong guess. Bytes of memory that has gone
// meanwhile are lost, and the stream with them.
func (s *Stream) takeBack(now monotime.Time, where [][]byte, n int, g *Guess) ([][]byte, int) {
	if cap(g.stray) < n {
		g.stray = make([]byte, n)
	}
	g.stray = g.stray[:n]
	for i, at := 0, 0; at < n; i++ {
		p := where[i][:min(len(where[i]), n-at)]
		if !mem.Copy(g.stray[at:], p) {
			s.end(now, wire.RDMAPLocalCatastrophic)
			return nil, 0
		}
		at += len(p)
	}
	s.Count[WrongGuesses]++
	return [][]byte{g.stray}, n
}
