// SPDX-License-Identifier: BSD-2-Clause

package cm

import (
	"encoding/binary"

	"verbena/ib"
)

// LAPPrivateSize is the private data of a LAP, in bytes.
const LAPPrivateSize = 168

// LAP asks to load an alternate path into an established connection.
//
// Spec: IBTA vol. 1, table 115 LAP message contents.
type LAP struct {
	LocalCommID           uint32
	RemoteCommID          uint32
	RemoteQPN             ib.QPN
	RemoteResponseTimeout uint8 // 5 bits
	AltLocalLID           uint16
	AltRemoteLID          uint16
	AltLocalGID           ib.GID
	AltRemoteGID          ib.GID
	AltFlowLabel          uint32 // 20 bits
	AltTrafficClass       uint8
	AltHopLimit           uint8
	AltRate               uint8 // 6 bits
	AltSL                 uint8 // 4 bits
	AltSubnetLocal        bool
	AltACKTimeout         uint8 // 5 bits
	PrivateData           [LAPPrivateSize]byte
}

// ParseLAP reads the data of a LAP MAD and returns the bytes behind it.
func ParseLAP(b []byte) (l LAP, rest []byte, ok bool) {
	if len(b) < DataSize {
		return l, b, false
	}
	l.LocalCommID = binary.BigEndian.Uint32(b)
	l.RemoteCommID = binary.BigEndian.Uint32(b[4:])
	// b[8:12] reserved
	l.RemoteQPN = ib.QPN(be24(b[12:]))
	l.RemoteResponseTimeout = b[15] >> 3 // response time-out 5 | reserved 3
	// b[16:20] reserved
	l.AltLocalLID = binary.BigEndian.Uint16(b[20:])
	l.AltRemoteLID = binary.BigEndian.Uint16(b[22:])
	copy(l.AltLocalGID[:], b[24:])
	copy(l.AltRemoteGID[:], b[40:])
	w := binary.BigEndian.Uint32(b[56:]) // flow label 20 | reserved 4 | traffic class 8
	l.AltFlowLabel, l.AltTrafficClass = w>>12, uint8(w)
	l.AltHopLimit = b[60]
	l.AltRate = b[61] & 0x3f                              // reserved 2 | rate 6
	l.AltSL, l.AltSubnetLocal = b[62]>>4, b[62]&0x08 != 0 // SL 4 | subnet local 1 | reserved 3
	l.AltACKTimeout = b[63] >> 3                          // time-out 5 | reserved 3
	copy(l.PrivateData[:], b[64:])
	return l, b[DataSize:], true
}

// Append writes the 232 bytes of l.
func (l *LAP) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, l.LocalCommID)
	b = binary.BigEndian.AppendUint32(b, l.RemoteCommID)
	b = append(b, 0, 0, 0, 0)
	b = append24(b, uint32(l.RemoteQPN), l.RemoteResponseTimeout<<3)
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, l.AltLocalLID)
	b = binary.BigEndian.AppendUint16(b, l.AltRemoteLID)
	b = append(b, l.AltLocalGID[:]...)
	b = append(b, l.AltRemoteGID[:]...)
	b = binary.BigEndian.AppendUint32(b, l.AltFlowLabel<<12|uint32(l.AltTrafficClass))
	b = append(b, l.AltHopLimit, l.AltRate&0x3f, l.AltSL<<4|bit(l.AltSubnetLocal, 3),
		l.AltACKTimeout<<3)
	return append(b, l.PrivateData[:]...)
}
