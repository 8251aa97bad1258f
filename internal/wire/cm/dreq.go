// SPDX-License-Identifier: BSD-2-Clause

package cm

import (
	"encoding/binary"

	"verbena/ib"
)

// DREQPrivateSize is the private data of a DREQ, in bytes.
const DREQPrivateSize = 220

// DREQ asks to end an established connection.
//
// Spec: IBTA vol. 1, table 112 DREQ message contents.
type DREQ struct {
	LocalCommID  uint32
	RemoteCommID uint32
	RemoteQPN    ib.QPN // the receiver's queue pair, to be checked by it
	PrivateData  [DREQPrivateSize]byte
}

// ParseDREQ reads the data of a DREQ MAD and returns the bytes behind it.
func ParseDREQ(b []byte) (d DREQ, rest []byte, ok bool) {
	if len(b) < DataSize {
		return d, b, false
	}
	d.LocalCommID = binary.BigEndian.Uint32(b)
	d.RemoteCommID = binary.BigEndian.Uint32(b[4:])
	d.RemoteQPN = ib.QPN(be24(b[8:])) // remote QPN 24 | reserved 8
	copy(d.PrivateData[:], b[12:])
	return d, b[DataSize:], true
}

// Append writes the 232 bytes of d.
func (d *DREQ) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, d.LocalCommID)
	b = binary.BigEndian.AppendUint32(b, d.RemoteCommID)
	b = append24(b, uint32(d.RemoteQPN), 0)
	return append(b, d.PrivateData[:]...)
}
