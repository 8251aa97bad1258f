// SPDX-License-Identifier: BSD-2-Clause

package cm

import "encoding/binary"

// Sizes in bytes.
const (
	MADSize    = 256 // one management datagram
	HeaderSize = 24  // its common header
	DataSize   = MADSize - HeaderSize
)

// Fixed values in the header of a CM message.
const (
	BaseVersion  = 1
	Class        = 0x07 // communication management
	ClassVersion = 2
	MethodSend   = 0x03 // ComMgtSend: every message of the protocol
)

// Attribute is the kind of message that a MAD carries.
type Attribute uint16

// Messages of the connection protocol.
const (
	AttrREQ     Attribute = 0x10
	AttrMRA     Attribute = 0x11
	AttrREJ     Attribute = 0x12
	AttrREP     Attribute = 0x13
	AttrRTU     Attribute = 0x14
	AttrDREQ    Attribute = 0x15
	AttrDREP    Attribute = 0x16
	AttrSIDRREQ Attribute = 0x17
	AttrSIDRREP Attribute = 0x18
	AttrLAP     Attribute = 0x19
	AttrAPR     Attribute = 0x1a
)

// Valid reports whether a names a message of the protocol.
func (a Attribute) Valid() bool { return a >= AttrREQ && a <= AttrAPR }

// Header is the common MAD header.
type Header struct {
	BaseVersion   uint8
	Class         uint8
	ClassVersion  uint8
	Method        uint8
	Status        uint16
	ClassSpecific uint16
	TransactionID uint64
	Attribute     Attribute
	Modifier      uint32
}

// NewHeader returns the header of a CM message.
func NewHeader(a Attribute, tid uint64) Header {
	return Header{BaseVersion: BaseVersion, Class: Class, ClassVersion: ClassVersion,
		Method: MethodSend, Attribute: a, TransactionID: tid}
}

// ParseHeader reads the header of a MAD and returns the bytes behind it.
func ParseHeader(b []byte) (h Header, rest []byte, ok bool) {
	if len(b) < HeaderSize {
		return h, b, false
	}
	h.BaseVersion, h.Class, h.ClassVersion, h.Method = b[0], b[1], b[2], b[3]
	h.Status = binary.BigEndian.Uint16(b[4:])
	h.ClassSpecific = binary.BigEndian.Uint16(b[6:])
	h.TransactionID = binary.BigEndian.Uint64(b[8:])
	h.Attribute = Attribute(binary.BigEndian.Uint16(b[16:]))
	// b[18:20] reserved
	h.Modifier = binary.BigEndian.Uint32(b[20:])
	return h, b[HeaderSize:], true
}

// Append writes the 24 bytes of h.
func (h Header) Append(b []byte) []byte {
	b = append(b, h.BaseVersion, h.Class, h.ClassVersion, h.Method)
	b = binary.BigEndian.AppendUint16(b, h.Status)
	b = binary.BigEndian.AppendUint16(b, h.ClassSpecific)
	b = binary.BigEndian.AppendUint64(b, h.TransactionID)
	b = binary.BigEndian.AppendUint16(b, uint16(h.Attribute))
	b = append(b, 0, 0) // reserved
	return binary.BigEndian.AppendUint32(b, h.Modifier)
}

// be24 reads a 24-bit big-endian number, as QPNs and PSNs are written.
func be24(b []byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }

// append24 writes the low 24 bits of v, then the byte that shares its word.
func append24(b []byte, v uint32, low uint8) []byte {
	return append(b, byte(v>>16), byte(v>>8), byte(v), low)
}

func bit(set bool, n uint) uint8 {
	if set {
		return 1 << n
	}
	return 0
}
