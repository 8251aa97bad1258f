// SPDX-License-Identifier: BSD-2-Clause

package cm

import "encoding/binary"

// RTUPrivateSize is the private data of an RTU, in bytes.
const RTUPrivateSize = 224

// RTU says that the sender of the REQ has taken the REP: ready to use.
//
// Spec: IBTA vol. 1, table 111 RTU message contents.
type RTU struct {
	LocalCommID  uint32
	RemoteCommID uint32
	PrivateData  [RTUPrivateSize]byte
}

// ParseRTU reads the data of an RTU MAD and returns the bytes behind it.
func ParseRTU(b []byte) (r RTU, rest []byte, ok bool) {
	if len(b) < DataSize {
		return r, b, false
	}
	r.LocalCommID = binary.BigEndian.Uint32(b)
	r.RemoteCommID = binary.BigEndian.Uint32(b[4:])
	copy(r.PrivateData[:], b[DataSize-RTUPrivateSize:])
	return r, b[DataSize:], true
}

// Append writes the 232 bytes of r.
func (r *RTU) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, r.LocalCommID)
	b = binary.BigEndian.AppendUint32(b, r.RemoteCommID)
	return append(b, r.PrivateData[:]...)
}
