// SPDX-License-Identifier: BSD-2-Clause

package ntb

import "encoding/binary"

// IntroductionBytes is the size of an Introduction.
const IntroductionBytes = 24

// introductionMagic opens the link of two processes of a shared-memory hub.
const introductionMagic uint32 = 0x6d746e02

// An Introduction is the first message that two processes with shared memory exchange. It says
// which process it is. It brings the two parts of its window, with their lengths: the link's own,
// and the application's.
type Introduction struct {
	Side                      uint8
	Slot                      uint16
	SessionBytes, MemoryBytes uint64
}

// ParseIntroduction reads an Introduction.
func ParseIntroduction(b []byte) (i Introduction, rest []byte, ok bool) {
	if len(b) < IntroductionBytes || binary.LittleEndian.Uint32(b) != introductionMagic {
		return Introduction{}, b, false
	}
	return Introduction{
		// magic (32)
		Side: b[4],
		// reserved (8)
		Slot:         binary.LittleEndian.Uint16(b[6:]),
		SessionBytes: binary.LittleEndian.Uint64(b[8:]),
		MemoryBytes:  binary.LittleEndian.Uint64(b[16:]),
	}, b[IntroductionBytes:], true
}

// Append appends the bytes of i to b.
func (i Introduction) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, introductionMagic)
	b = append(b, i.Side, 0)
	b = binary.LittleEndian.AppendUint16(b, i.Slot)
	b = binary.LittleEndian.AppendUint64(b, i.SessionBytes)
	return binary.LittleEndian.AppendUint64(b, i.MemoryBytes)
}
