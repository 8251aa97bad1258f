// SPDX-License-Identifier: BSD-2-Clause

package rstream

import wire "verbena/internal/wire/rsocket"

// Control is a message without data, or a WRITE of Entry with its message. It always completes.
type Control struct {
	HasEntry bool
	Entry    [wire.WindowSize]byte
	To       Peer // of Entry
	Message  uint32
	Sent     Sent
}

// PollControl returns control messages to send, until there is none: false.
func (s *Stream) PollControl(out *Control) bool {
	switch {
	case s.state != Connected || s.parted:
		return false
	case s.pending != none && s.ctlSlots > 0:
		s.control(out)
		return true
	case s.ctlSlots >= s.slots() && (s.opens < len(s.open) || s.creditsDue()):
		s.credit(out)
		return true
	}
	return false
}

func (s *Stream) control(out *Control) {
	s.parted = s.pending == wire.Disconnect
	*out = Control{
		Message: wire.Message{Type: wire.Control, Value: uint32(s.pending)}.Uint32(),
		Sent:    Sent{Slots: 1, Control: true, Last: s.parted},
	}
	s.ctlSlots--
	s.pending = none
}

// creditsDue reports whether half of the granted credits are used up.
func (s *Stream) creditsDue() bool {
	return s.granted-s.received <= s.ReceiveQueue-s.ReceiveQueue/2
}

// credit grants the peer more messages, and a half of the receive buffer that is free.
func (s *Stream) credit(out *Control) {
	*out = Control{Sent: Sent{Slots: 1, Control: true}}
	if s.opens < len(s.open) {
		length := s.rbuf.Length / 2
		free := wire.Window{Addr: s.rbuf.Addr + uint64(s.rxGrant), Key: s.rbuf.Key, Length: length}
		out.HasEntry = true
		s.peer.AppendEntry(out.Entry[:0], free)
		out.To = Peer{s.peer.Table.Addr + uint64(s.peerEntry)*wire.WindowSize, s.peer.Table.Key}
		out.Sent.Slots = s.slots()
		s.peerEntry = (s.peerEntry + 1) % s.peer.Table.Length
		s.rxWindow += length
		s.open[s.opens] = half{at: s.rbufAt + s.rxGrant, length: length}
		s.opens++
		s.rxGrant = length - s.rxGrant
	}
	s.ctlSlots -= out.Sent.Slots
	// Messages do not wait for the application: their bytes are in a ring, which the halves bound.
	// So the receive of a message counts as free at once.
	s.granted = s.received + s.ReceiveQueue
	out.Message = wire.Message{Type: wire.Credit, Value: uint32(s.granted)}.Uint32()
}

// ShutRead shuts the receiving half. PollControl may have output.
func (s *Stream) ShutRead() { s.shut(true, false) }

// ShutWrite shuts the sending half. PollControl may have output.
func (s *Stream) ShutWrite() { s.shut(false, true) }

// Close shuts both halves. PollControl may have output.
func (s *Stream) Close() { s.shut(true, true) }

func (s *Stream) shut(read, write bool) {
	sent := s.maySend
	s.mayReceive = s.mayReceive && !read
	s.maySend = s.maySend && !write
	switch {
	case s.state != Connected || s.parted || s.maySend:
		// The peer may still write if only the receiving half is shut: nothing reads it.
	case !s.mayReceive:
		s.pending = wire.Disconnect
	case sent:
		s.pending = wire.Shutdown
	}
}

// Settled reports whether a closed stream need not wait: everything sent has arrived, or never
// will. The message that shut our half was the last one.
func (s *Stream) Settled() bool {
	return s.state == Failed || s.hasLeft || s.state == Disconnected && s.ctlSlots == ControlSlots
}

// Told reports whether the peer was sent the shutting of a half, or never will be.
func (s *Stream) Told() bool { return s.state != Connected || s.pending == none }
