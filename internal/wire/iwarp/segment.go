// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import (
	"encoding/binary"

	"verbena/ib"
)

// Sizes of DDP headers.
const (
	ControlBytes  = 2
	TaggedBytes   = 14
	UntaggedBytes = 18
)

// The versions spoken.
const (
	DDPVersion   = 1
	RDMAPVersion = 1
)

// Bits of the two control bytes.
const (
	ddpTagged      = 1 << 7 // byte 0
	ddpLast        = 1 << 6
	ddpMoreShift   = 2
	ddpVersionMask = 3
	rdmapVShift    = 6 // byte 1
	rdmapOpMask    = 15
)

// Control is the beginning of every DDP segment: DDP's control byte and
// RDMAP's, which DDP reserves for it.
//
// Spec: RFC 5041, 4.1 and 4.2; RFC 5040, 4.1 (RDMAP control field).
type Control struct {
	Tagged bool // T
	Last   bool // L: of the message
	// More is the number of segments of the message, with as much payload, that follow this one,
	// or MaxMore if there are more. 0: their sender does not say.
	//
	// Deviation: RFC 5041 reserves these bits, which receivers do not look at. Only our own kind
	// is sent others than 0.
	More   uint8
	DV     uint8
	RV     uint8
	Opcode Opcode
}

// MaxMore is the largest number of segments that Control.More can have.
const MaxMore = 15

// NewControl returns the control bytes of a segment of this version.
func NewControl(o Opcode, last bool) Control {
	return Control{Tagged: o.Info().Tagged, Last: last, DV: DDPVersion, RV: RDMAPVersion, Opcode: o}
}

// ParseControl reads the control bytes from the front of b.
func ParseControl(b []byte) (c Control, rest []byte, ok bool) {
	if len(b) < ControlBytes {
		return Control{}, b, false
	}
	// T L reserved (4) DV (2)
	c.Tagged, c.Last, c.DV = b[0]&ddpTagged != 0, b[0]&ddpLast != 0, b[0]&ddpVersionMask
	c.More = b[0] >> ddpMoreShift & MaxMore
	c.RV, c.Opcode = b[1]>>rdmapVShift, Opcode(b[1]&rdmapOpMask) // RV (2) reserved (2) opcode (4)
	return c, b[ControlBytes:], true
}

// Append appends the 2 bytes of c to b.
func (c Control) Append(b []byte) []byte {
	first := c.DV&ddpVersionMask | c.More&MaxMore<<ddpMoreShift
	if c.Tagged {
		first |= ddpTagged
	}
	if c.Last {
		first |= ddpLast
	}
	return append(b, first, c.RV<<rdmapVShift|byte(c.Opcode)&rdmapOpMask)
}

// HeaderBytes returns the size of the header that c begins.
func (c Control) HeaderBytes() int {
	if c.Tagged {
		return TaggedBytes
	}
	return UntaggedBytes
}

// Header is the header of one DDP segment, of either buffer model.
//
// Spec: RFC 5041, 4.3 (tagged) and 4.4 (untagged); RFC 5040, 4.1.
type Header struct {
	Control
	STag ib.RKey // tagged: the sink's; untagged: which to invalidate, else 0
	TO   uint64  // tagged: tagged offset
	QN   uint32  // untagged: queue
	MSN  uint32  // … message sequence number in it, from 1
	MO   uint32  // … offset in the message
}

// ParseHeader reads a segment's header from the front of b.
func ParseHeader(b []byte) (h Header, rest []byte, ok bool) {
	c, rest, ok := ParseControl(b)
	if !ok || len(b) < c.HeaderBytes() {
		return Header{}, b, false
	}
	h.Control = c
	h.STag = ib.RKey(binary.BigEndian.Uint32(rest)) // STag (32), or RsvdULP (32)
	if rest = rest[4:]; c.Tagged {
		h.TO = binary.BigEndian.Uint64(rest) // TO (64)
	} else {
		h.QN = binary.BigEndian.Uint32(rest) // QN (32) MSN (32) MO (32)
		h.MSN = binary.BigEndian.Uint32(rest[4:])
		h.MO = binary.BigEndian.Uint32(rest[8:])
	}
	return h, b[c.HeaderBytes():], true
}

// Append appends the header to b: 14 bytes if tagged, else 18.
func (h Header) Append(b []byte) []byte {
	b = h.Control.Append(b)
	b = binary.BigEndian.AppendUint32(b, uint32(h.STag))
	if h.Tagged {
		return binary.BigEndian.AppendUint64(b, h.TO)
	}
	b = binary.BigEndian.AppendUint32(b, h.QN)
	b = binary.BigEndian.AppendUint32(b, h.MSN)
	return binary.BigEndian.AppendUint32(b, h.MO)
}

// String returns Wireshark's info column of the segment.
func (h Header) String() string {
	if h.Last {
		return h.Opcode.String() + " [last DDP segment]"
	}
	return h.Opcode.String() + " [more DDP segments]"
}
