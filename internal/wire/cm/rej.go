// SPDX-License-Identifier: BSD-2-Clause

package cm

import "encoding/binary"

// Sizes of a REJ's variable parts, in bytes.
const (
	ARISize        = 72 // additional reject information
	REJPrivateSize = 148
)

// REJ ends a connection that was not established.
//
// Spec: IBTA vol. 1, table 108 REJ message contents.
type REJ struct {
	LocalCommID  uint32 // 0 if the sender has none
	RemoteCommID uint32
	Of           Rejected // 2 bits
	ARILength    uint8    // 7 bits: bytes of ARI that count
	Reason       Reason
	ARI          [ARISize]byte
	PrivateData  [REJPrivateSize]byte
}

// ParseREJ reads the data of a REJ MAD and returns the bytes behind it.
func ParseREJ(b []byte) (r REJ, rest []byte, ok bool) {
	if len(b) < DataSize {
		return r, b, false
	}
	r.LocalCommID = binary.BigEndian.Uint32(b)
	r.RemoteCommID = binary.BigEndian.Uint32(b[4:])
	r.Of = Rejected(b[8] >> 6) // message rejected 2 | reserved 6
	r.ARILength = b[9] >> 1    // reject information length 7 | reserved 1
	r.Reason = Reason(binary.BigEndian.Uint16(b[10:]))
	copy(r.ARI[:], b[12:])
	copy(r.PrivateData[:], b[12+ARISize:])
	return r, b[DataSize:], true
}

// Append writes the 232 bytes of r.
func (r *REJ) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, r.LocalCommID)
	b = binary.BigEndian.AppendUint32(b, r.RemoteCommID)
	b = append(b, uint8(r.Of)<<6, r.ARILength<<1)
	b = binary.BigEndian.AppendUint16(b, uint16(r.Reason))
	b = append(b, r.ARI[:]...)
	return append(b, r.PrivateData[:]...)
}
