// SPDX-License-Identifier: BSD-2-Clause

package cm

import "encoding/binary"

// MRAPrivateSize is the private data of an MRA, in bytes.
const MRAPrivateSize = 222

// Rejected names the message that an MRA or a REJ speaks of.
type Rejected uint8

// Messages that are answered by an MRA or a REJ.
const (
	OfREQ   Rejected = 0
	OfREP   Rejected = 1
	OfOther Rejected = 2 // REJ: none of these; MRA: a LAP
)

// MRA says that a message was received and that its answer takes longer than
// the response time-out.
//
// Spec: IBTA vol. 1, table 107 MRA message contents.
type MRA struct {
	LocalCommID    uint32
	RemoteCommID   uint32
	Of             Rejected // 2 bits
	ServiceTimeout uint8    // 5 bits: the answer comes within 4.096 µs × 2^n
	PrivateData    [MRAPrivateSize]byte
}

// ParseMRA reads the data of an MRA MAD and returns the bytes behind it.
func ParseMRA(b []byte) (m MRA, rest []byte, ok bool) {
	if len(b) < DataSize {
		return m, b, false
	}
	m.LocalCommID = binary.BigEndian.Uint32(b)
	m.RemoteCommID = binary.BigEndian.Uint32(b[4:])
	m.Of = Rejected(b[8] >> 6)     // message MRAed 2 | reserved 6
	m.ServiceTimeout = b[9] >> 3   // service time-out 5 | reserved 3
	copy(m.PrivateData[:], b[10:]) // to the end
	return m, b[DataSize:], true
}

// Append writes the 232 bytes of m.
func (m *MRA) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, m.LocalCommID)
	b = binary.BigEndian.AppendUint32(b, m.RemoteCommID)
	b = append(b, uint8(m.Of)<<6, m.ServiceTimeout<<3)
	return append(b, m.PrivateData[:]...)
}
