// SPDX-License-Identifier: BSD-2-Clause

package pcap

import (
	"encoding/binary"
	"runtime"
	"time"
)

// Block types.
const (
	blockSection   = 0x0a0d0d0a
	blockInterface = 1
	blockPacket    = 6 // "enhanced"
	// BlockJournal is an entry of systemd's journal: see Call.
	BlockJournal = 9
)

// Codes of options. Some have another meaning in each type of block.
const (
	optionEnd             = 0
	optionComment         = 1
	sectionHardware       = 2
	sectionOS             = 3
	sectionApplication    = 4
	interfaceName         = 2
	interfaceTSResolution = 9
	interfaceOS           = 12
	packetFlags           = 2 // their two lowest bits are the direction
)

const (
	byteOrderMagic = 0x1a2b3c4d
	linkTypeRaw    = 101 // the frame begins with its IP header
	nanoseconds    = 9   // the resolution of time stamps, a power of 1/10
)

// order is the file's: a reader learns it from byteOrderMagic.
var order = binary.LittleEndian

// appendBlock appends a block around a body. A block's length stands at both ends.
func appendBlock(b []byte, kind uint32, body func([]byte) []byte) []byte {
	start := len(b)
	b = order.AppendUint32(b, kind)
	b = order.AppendUint32(b, 0)
	b = body(b)
	n := uint32(len(b) - start + 4)
	order.PutUint32(b[start+4:], n)
	return order.AppendUint32(b, n)
}

// appendPadded appends v and zeros up to a multiple of four bytes.
func appendPadded(b []byte, v string) []byte {
	b = append(b, v...)
	return append(b, padding[:-len(v)&3]...)
}

func appendOption(b []byte, code uint16, v string) []byte {
	b = order.AppendUint16(b, code)
	b = order.AppendUint16(b, uint16(len(v)))
	return appendPadded(b, v)
}

// appendHeader appends the blocks that a file begins with: the section, and its
// one interface.
func appendHeader(b []byte, device string) []byte {
	b = appendBlock(b, blockSection, func(b []byte) []byte {
		b = order.AppendUint32(b, byteOrderMagic)
		b = order.AppendUint16(b, 1)          // version, major
		b = order.AppendUint16(b, 0)          // minor
		b = order.AppendUint64(b, ^uint64(0)) // the section's length is not known
		b = appendOption(b, sectionHardware, runtime.GOARCH)
		b = appendOption(b, sectionOS, runtime.GOOS)
		b = appendOption(b, sectionApplication, "verbena")
		return appendOption(b, optionEnd, "")
	})
	return appendBlock(b, blockInterface, func(b []byte) []byte {
		b = order.AppendUint16(b, linkTypeRaw)
		b = order.AppendUint16(b, 0) // reserved
		b = order.AppendUint32(b, 0) // frames of any length
		b = appendOption(b, interfaceName, device)
		b = appendOption(b, interfaceTSResolution, string(rune(nanoseconds)))
		b = appendOption(b, interfaceOS, runtime.GOOS)
		return appendOption(b, optionEnd, "")
	})
}

// beginPacket appends a packet's block up to its frame, of n bytes.
func beginPacket(b []byte, t time.Time, n int) []byte {
	at := uint64(t.UnixNano())
	b = order.AppendUint32(b, blockPacket)
	b = order.AppendUint32(b, 0) // the block's length: endPacket
	b = order.AppendUint32(b, 0) // the interface
	b = order.AppendUint32(b, uint32(at>>32))
	b = order.AppendUint32(b, uint32(at))
	b = order.AppendUint32(b, uint32(n))    // captured
	return order.AppendUint32(b, uint32(n)) // on the link
}

// endPacket appends the part behind the frame of the block that begins at start: a comment and the
// direction, unless that is empty or unknown, and the block's length.
func endPacket(b []byte, start int, d Direction, comment string) []byte {
	b = append(b, padding[:-(len(b)-start)&3]...)
	if comment != "" {
		b = appendOption(b, optionComment, comment[:min(len(comment), maxCommentBytes)])
	}
	if d != DirectionUnknown {
		b = order.AppendUint16(b, packetFlags)
		b = order.AppendUint16(b, 4)
		b = order.AppendUint32(b, uint32(d))
	}
	if comment != "" || d != DirectionUnknown {
		b = appendOption(b, optionEnd, "")
	}
	n := uint32(len(b) - start + 4)
	order.PutUint32(b[start+4:], n)
	return order.AppendUint32(b, n)
}

var padding [3]byte

// packetTime returns the time of a packet's block from its part before the frame.
func packetTime(b []byte) time.Time {
	return time.Unix(0, int64(uint64(order.Uint32(b[12:]))<<32|uint64(order.Uint32(b[16:]))))
}
