// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import "encoding/binary"

// ConnDataSize is the size of ConnData on the wire.
const ConnDataSize = 40

const version = 1

// Flags of ConnData.
const (
	bigEndian = 0x01 // the sender reads its table big-endian
	iomap     = 0x02 // the number of mappings counts
)

// ConnData is the private data of a stream's request and answer.
type ConnData struct {
	BigEndian bool   // byte order of the table's entries, and of messages that are SENDs
	Credits   uint16 // receives that are posted for messages
	Table     Window // where the sender reads windows; Length counts entries
	Buffer    Window // the first window
}

// ParseConnData reads ConnData. ok is false if the peer is no rsocket.
func ParseConnData(b []byte) (d ConnData, rest []byte, ok bool) {
	if len(b) < ConnDataSize || b[0] != version {
		return ConnData{}, b, false
	}
	// version (8) flags (8) credits (16) reserved (24) mappings (8)
	d.BigEndian = b[1]&bigEndian != 0
	d.Credits = binary.BigEndian.Uint16(b[2:])
	rest = b[8:]
	d.Table, rest, _ = ParseWindow(rest, binary.BigEndian)
	d.Buffer, rest, _ = ParseWindow(rest, binary.BigEndian)
	return d, rest, true
}

// Append appends the bytes of d to b. They announce a table without mappings.
func (d ConnData) Append(b []byte) []byte {
	flags := byte(iomap)
	if d.BigEndian {
		flags |= bigEndian
	}
	b = append(b, version, flags)
	b = binary.BigEndian.AppendUint16(b, d.Credits)
	b = append(b, 0, 0, 0, 0)
	b = d.Table.Append(b, binary.BigEndian)
	return d.Buffer.Append(b, binary.BigEndian)
}

// AppendEntry appends a window as the sender of d reads it in its table.
func (d ConnData) AppendEntry(b []byte, w Window) []byte {
	if d.BigEndian {
		return w.Append(b, binary.BigEndian)
	}
	return w.Append(b, binary.LittleEndian)
}

// ParseSend reads a message that the sender of d has sent as a SEND.
func (d ConnData) ParseSend(b []byte) (m Message, ok bool) {
	switch {
	case len(b) != MessageSize:
		return Message{}, false
	case d.BigEndian:
		return ParseMessage(binary.BigEndian.Uint32(b)), true
	}
	return ParseMessage(binary.LittleEndian.Uint32(b)), true
}
