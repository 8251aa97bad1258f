// SPDX-License-Identifier: BSD-2-Clause

package rstream

import (
	"encoding/binary"

	"verbena/ib"
	wire "verbena/internal/wire/rsocket"
)

const (
	// TableEntries is the number of windows in the table: one being filled, one waiting.
	TableEntries = 2
	// TableSize is the size of the table in bytes.
	TableSize = TableEntries * wire.WindowSize
	// ControlSlots is the number of send work requests that are kept for control messages.
	ControlSlots = 4
	// LowWater is the number of free bytes in the send buffer without which nothing is sent; half a
	// small buffer suffices, as a quarter may wait for another work request to complete.
	LowWater = 2048
)

// Config has the sizes of a stream. They are immutable.
type Config struct {
	SendBuffer    uint32 // bytes
	ReceiveBuffer uint32 // bytes, at least 2
	SendQueue     uint16 // work requests, at least 4 × ControlSlots
	ReceiveQueue  uint16
	BySend        bool // messages are SENDs: iWARP
}

// Receives returns the number of receives to post: each completion of one makes room for another.
func (c Config) Receives() int {
	if c.BySend {
		return int(c.ReceiveQueue) + 2*ControlSlots // control messages come without credits
	}
	return int(c.ReceiveQueue)
}

// slots returns the send work requests of a WRITE and its message.
func (c Config) slots() uint32 {
	if c.BySend {
		return 2
	}
	return 1
}

// State is the progress of a stream.
type State uint8

// States.
const (
	Connected    State = iota // from Start on; either half may be shut
	Disconnected              // both halves are shut, or the peer is gone
	Failed                    // Err says why
)

func (s State) String() string { return [...]string{"connected", "disconnected", "failed"}[s] }

// Stream is the state of one end.
type Stream struct {
	Config
	peer wire.ConnData
	// table is memory that the peer writes. An entry is read once, with the message behind it.
	table []byte

	state      State
	err        error
	mayReceive bool // the peer has not shut its half, nor we ours
	maySend    bool
	ended      bool // the peer has shut its half by a message: nothing is missing
	hasLeft    bool // the peer reads no more: it has disconnected or is gone

	// receiving
	rbuf     wire.Window // the receive buffer as the peer names it
	rbufAt   uint32      // its offset
	rxGrant  uint32      // offset in rbuf of the half that is granted next
	open     [2]half     // those that the peer was granted, and that are not read to their end
	opens    int         // number of them
	rxRead   uint32      // bytes of open[0] that the application has
	rxReady  uint32      // bytes for the application
	rxWindow uint32      // bytes that the peer may still write
	rxBulk   bool        // the half that was read last came by long messages
	rxGrown  bool        // GrowReceive was called
	received uint16      // sequence number of the last message
	granted  uint16      // last sequence number granted to the peer

	// sending
	txSize     uint32 // bytes of the send buffer, a ring
	txHead     uint32 // its next free byte
	txFree     uint32 // bytes
	txOld      uint32 // bytes on the way that lie in the buffer before GrowSend
	txGrown    bool   // GrowSend was called
	txSlots    uint32 // of the send queue, for data
	ctlSlots   uint32
	unsignaled Sent   // data since the last signaled work request
	sent       uint16 // sequence number of the last message
	allowed    uint16 // last sequence number granted by the peer
	windows    [TableEntries]wire.Window
	window     int    // the one being filled
	fresh      int    // next entry of table
	peerEntry  uint32 // next entry of the peer's table
	pending    int    // control value that waits for a slot, or none
	parted     bool   // Disconnect was sent
}

const none = -1

// half is a half of the receive buffer.
type half struct {
	at, length uint32
	messages   uint32 // with which it came
}

// Start begins the stream of an established connection. The caller has posted Receives, and given
// the peer the ConnData that Local returned for the same memory.
func (s *Stream) Start(peer wire.ConnData, rbuf wire.Window, table []byte) {
	first := s.ReceiveBuffer / 2
	rbuf.Length = 2 * first
	*s = Stream{
		Config: s.Config, peer: peer, rbuf: rbuf, table: table,
		mayReceive: true, maySend: true,
		// The peer may write the first half from the start. The first credit grants the second.
		open: [2]half{{length: first}}, opens: 1, rxWindow: first, rxGrant: first,
		granted: s.ReceiveQueue, txSize: s.SendBuffer, txFree: s.SendBuffer,
		txSlots: uint32(s.SendQueue) - ControlSlots, ctlSlots: ControlSlots,
		allowed: peer.Credits, fresh: 1,
		peerEntry: 1, // entry 0 is that of Buffer
		pending:   none,
	}
	s.windows[0] = peer.Buffer
}

// Local returns the private data for memory of the stream: rbuf of 2 halves, and a table.
func (c Config) Local(rbuf, table wire.Window) wire.ConnData {
	table.Length, rbuf.Length = TableEntries, c.ReceiveBuffer/2
	return wire.ConnData{Credits: c.ReceiveQueue, Table: table, Buffer: rbuf}
}

// Acceptable reports whether a stream can be made with a peer: it has room for one window in use
// and one that waits.
func Acceptable(peer wire.ConnData) bool { return peer.Table.Length >= TableEntries }

// State returns the state.
func (s *Stream) State() State { return s.state }

// Err returns why the stream has failed, else nil.
func (s *Stream) Err() error { return s.err }

// Fail ends the stream by an error, unless it has ended before.
func (s *Stream) Fail(err error) {
	if s.state == Connected {
		s.state, s.err = Failed, err
		s.mayReceive, s.maySend = false, false
	}
}

// HandleGone notes that the connection has ended, behind all messages that came before.
func (s *Stream) HandleGone() {
	s.hasLeft = true
	s.shutBoth()
}

func (s *Stream) shutBoth() {
	s.mayReceive, s.maySend = false, false
	if s.state == Connected {
		s.state = Disconnected
	}
}

// takeCredits notes what the peer has granted. A grant that takes one back is ignored: a caller
// sends, unlocked in between, what Free has returned.
func (s *Stream) takeCredits(last uint32) {
	if last := uint16(last); last-s.sent >= s.allowed-s.sent {
		s.allowed = last
	}
	at := s.fresh * wire.WindowSize
	entry := s.table[at : at+wire.WindowSize]
	w, _, _ := wire.ParseWindow(entry, binary.LittleEndian)
	if w.Length == 0 || s.windows[s.fresh].Length != 0 {
		return
	}
	s.windows[s.fresh] = w
	// The peer writes the entry again only after we have filled the half that it names.
	clear(entry)
	s.fresh = (s.fresh + 1) % TableEntries
}

// Peer names the memory of a WRITE.
type Peer struct {
	Addr uint64
	Key  ib.RKey
}
