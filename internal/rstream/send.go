// SPDX-License-Identifier: BSD-2-Clause

package rstream

import wire "verbena/internal/wire/rsocket"

// Sent has the bytes and slots that the completion of a work request gives back. The work
// request's ID has all of it.
type Sent struct {
	Bytes   uint32 // of the send buffer
	Slots   uint32 // of the send queue
	Control bool   // they are slots for control messages
	Last    bool   // it was Disconnect
}

// ID returns the number of a work request.
func (c Sent) ID() uint64 {
	id := uint64(c.Bytes)<<32 | uint64(c.Slots)<<2
	if c.Control {
		id |= 1
	}
	if c.Last {
		id |= 2
	}
	return id
}

// SentOf returns the Sent of a work request's number.
func SentOf(id uint64) Sent {
	return Sent{uint32(id >> 32), uint32(id) >> 2, id&1 != 0, id&2 != 0}
}

// HandleSent handles a successful completion.
func (s *Stream) HandleSent(c Sent) {
	if c.Control {
		s.ctlSlots += c.Slots
	} else {
		s.txSlots += c.Slots
		old := min(c.Bytes, s.txOld)
		s.txOld -= old
		s.txFree += c.Bytes - old
	}
	if c.Last {
		s.shutBoth()
	}
}

// Writable reports whether Write need not wait: there is room, or the half is shut.
func (s *Stream) Writable() bool { return s.room() > 0 || !s.maySend }

// room returns the bytes that one message may have now.
func (s *Stream) room() uint32 {
	spare := uint16(0)
	if s.BySend {
		spare = ControlSlots
	}
	if s.txSlots < s.slots() || s.txFree < min(s.SendBuffer/2, LowWater) ||
		s.allowed-s.sent <= spare {
		return 0
	}
	return min(s.windows[s.window].Length, s.txFree, wire.MaxValue)
}

// MaySend reports whether the sending half is open.
func (s *Stream) MaySend() bool { return s.maySend }

// Free returns the next free bytes of the send buffer: n at an offset, and more at its beginning.
func (s *Stream) Free() (at, n, more uint32) {
	n = s.room()
	first := min(n, s.txSize-s.txHead)
	return s.txHead, first, n - first
}

// Write is a WRITE with its message.
type Write struct {
	To      Peer
	Message uint32
	Sent    Sent // of a signaled one
	Signal  bool // it is to complete; of the others only failures do
}

// Send takes n bytes for a message. n is at most what Free has returned. The bytes are in the send
// buffer unless inline is true.
func (s *Stream) Send(n uint32, inline bool) Write {
	w := &s.windows[s.window]
	out := Write{To: Peer{w.Addr, w.Key}, Message: wire.Message{Type: wire.Data, Value: n}.Uint32()}
	w.Addr += uint64(n)
	if w.Length -= n; w.Length == 0 {
		s.window = (s.window + 1) % TableEntries
	}
	s.sent++
	s.txSlots -= s.slots()
	s.unsignaled.Slots += s.slots()
	if !inline {
		s.txHead = (s.txHead + n) % s.txSize
		s.txFree -= n
		s.unsignaled.Bytes += n
	}
	// A sender that waits for room waits for a completion. So the bytes and slots that no
	// completion gives back are a quarter at most. Readers are not woken for the others.
	if s.unsignaled.Bytes >= s.txSize/4 || s.unsignaled.Slots >= uint32(s.SendQueue)/4 {
		out.Sent, out.Signal = s.unsignaled, true
		s.unsignaled = Sent{}
	}
	return out
}
