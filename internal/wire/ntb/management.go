// SPDX-License-Identifier: BSD-2-Clause

package ntb

import "verbena/ib"

// MADBytes is the size of every MAD. Spec: IBTA vol. 1, 13.4.2.
const MADBytes = 256

// ManagementBytes is the size of a Management.
const ManagementBytes = 2*16 + MADBytes

// A Management is a MAD between the connection managers of the two ends, with
// the addresses of a GRH: a port has several.
type Management struct {
	Source      ib.GID
	Destination ib.GID
	MAD         []byte // MADBytes
}

// ParseManagement reads a Management. MAD aliases b.
func ParseManagement(b []byte) (m Management, rest []byte, ok bool) {
	if len(b) < ManagementBytes {
		return Management{}, b, false
	}
	m.MAD = b[copy(m.Source[:], b)+copy(m.Destination[:],
		b[16:]) : ManagementBytes : ManagementBytes]
	return m, b[ManagementBytes:], true
}

// Append appends the bytes of m to b.
func (m Management) Append(b []byte) []byte {
	b = append(b, m.Source[:]...)
	b = append(b, m.Destination[:]...)
	return append(b, m.MAD...)
}
