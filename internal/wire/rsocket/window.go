// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"encoding/binary"

	"verbena/ib"
)

// WindowSize is the size of a Window on the wire.
const WindowSize = 16

// Window is memory that the peer may write: an entry of the table.
type Window struct {
	Addr   uint64
	Key    ib.RKey
	Length uint32 // bytes; of a table: entries
}

// ParseWindow reads a Window.
func ParseWindow(b []byte, order binary.ByteOrder) (w Window, rest []byte, ok bool) {
	if len(b) < WindowSize {
		return Window{}, b, false
	}
	// address (64) key (32) length (32)
	w = Window{Addr: order.Uint64(b), Key: ib.RKey(order.Uint32(b[8:])),
		Length: order.Uint32(b[12:])}
	return w, b[WindowSize:], true
}

// Append appends the bytes of w to b.
func (w Window) Append(b []byte, order binary.AppendByteOrder) []byte {
	b = order.AppendUint64(b, w.Addr)
	b = order.AppendUint32(b, uint32(w.Key))
	return order.AppendUint32(b, w.Length)
}
