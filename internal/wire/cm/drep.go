// SPDX-License-Identifier: BSD-2-Clause

package cm

import "encoding/binary"

// DREPPrivateSize is the private data of a DREP, in bytes.
const DREPPrivateSize = 224

// DREP answers a DREQ.
//
// Spec: IBTA vol. 1, table 113 DREP message contents.
type DREP struct {
	LocalCommID  uint32
	RemoteCommID uint32
	PrivateData  [DREPPrivateSize]byte
}

// ParseDREP reads the data of a DREP MAD and returns the bytes behind it.
func ParseDREP(b []byte) (d DREP, rest []byte, ok bool) {
	if len(b) < DataSize {
		return d, b, false
	}
	d.LocalCommID = binary.BigEndian.Uint32(b)
	d.RemoteCommID = binary.BigEndian.Uint32(b[4:])
	copy(d.PrivateData[:], b[8:])
	return d, b[DataSize:], true
}

// Append writes the 232 bytes of d.
func (d *DREP) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, d.LocalCommID)
	b = binary.BigEndian.AppendUint32(b, d.RemoteCommID)
	return append(b, d.PrivateData[:]...)
}
