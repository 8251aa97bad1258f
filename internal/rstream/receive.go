// SPDX-License-Identifier: BSD-2-Clause

package rstream

import (
	"errors"

	wire "verbena/internal/wire/rsocket"
)

// ErrProtocol is the error of a stream whose peer has sent what no rsocket sends.
var ErrProtocol = errors.New("the peer does not keep to the protocol of rsockets")

// HandleImmediate handles immediate data of a receive.
func (s *Stream) HandleImmediate(v uint32) { s.handle(wire.ParseMessage(v)) }

// HandleSend handles the bytes of a SEND.
func (s *Stream) HandleSend(b []byte) {
	m, ok := s.peer.ParseSend(b)
	if !ok {
		s.Fail(ErrProtocol)
		return
	}
	s.handle(m)
}

func (s *Stream) handle(m wire.Message) {
	switch m.Type {
	case wire.Data:
		if m.Value > s.rxWindow { // it has written outside its half
			s.Fail(ErrProtocol)
			return
		}
		written := &s.open[0]
		if s.opens == len(s.open) && s.rxWindow <= s.open[1].length {
			written = &s.open[1] // the peer has filled the first
		}
		written.messages++
		s.rxWindow -= m.Value
		s.rxReady += m.Value
		s.received++
	case wire.Credit:
		s.takeCredits(m.Value)
	case wire.Control:
		s.handleControl(m.Value)
	default: // mappings among others, of which it was given none
		s.Fail(ErrProtocol)
	}
}

func (s *Stream) handleControl(v uint32) {
	switch v {
	case wire.Shutdown:
		s.ended, s.mayReceive = true, false
		switch {
		case s.pending == wire.Shutdown: // ours is still to be sent
			s.pending = wire.Disconnect
		case s.pending == wire.Disconnect: // it ends the stream when it has arrived
		case !s.maySend:
			s.shutBoth()
		}
	case wire.Disconnect:
		s.ended, s.hasLeft = true, true
		s.shutBoth()
	default: // KeepAlive, and unknown ones
	}
}

// Readable reports whether Read need not wait: there are bytes, or the half is shut.
func (s *Stream) Readable() bool { return s.rxReady > 0 || !s.mayReceive }

// Ended reports whether the stream of received bytes has ended as the peer meant it to.
func (s *Stream) Ended() bool { return s.ended }

// Ready returns the next bytes for the application: n at an offset of the receive buffer. Behind
// that are offsets of the buffer that GrowReceive has added.
func (s *Stream) Ready() (at, n uint32) {
	h := s.open[0]
	return h.at + s.rxRead, min(s.rxReady, h.length-s.rxRead)
}

// Consume notes that the application has read n bytes, at most those of Ready. PollControl may have
// output.
func (s *Stream) Consume(n uint32) {
	s.rxRead += n
	s.rxReady -= n
	if h := s.open[0]; s.rxRead == h.length && s.opens > 0 {
		s.rxBulk, s.rxRead = h.messages <= h.length/BulkMessage, 0
		s.open = [2]half{s.open[1]}
		s.opens--
	}
}
