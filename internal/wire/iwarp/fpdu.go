// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import (
	"encoding/binary"
	"hash/crc32"
)

// Sizes of an FPDU's parts.
const (
	LengthBytes    = 2 // the ULPDU length that an FPDU begins with
	CRCBytes       = 4
	MarkerBytes    = 4
	MarkerInterval = 512 // from the first byte of a marker to the next's
	MaxULPDU       = 1<<16 - 1
	fpduAlign      = 4
)

// PadBytes returns how many bytes stand between an ULPDU of n bytes and the
// CRC, so that an FPDU is a multiple of 4 bytes.
func PadBytes(n int) int { return -(LengthBytes + n) & (fpduAlign - 1) }

// FPDUBytes returns the size of an FPDU of an ULPDU of n bytes, without markers.
func FPDUBytes(n int) int { return LengthBytes + n + PadBytes(n) + CRCBytes }

// MaxULPDUFor returns the largest ULPDU whose FPDU fits one TCP segment of mss
// bytes, wherever in the stream it stands: MULPDU. It is at least 128, which
// MPA asks of every segment size, and may be more than mss then.
//
// Spec: RFC 5044, 3 (MULPDU) and 4.5 (MPA segmentation).
func MaxULPDUFor(mss int, markers bool) int {
	if markers {
		mss = min(mss, maxMarked) // a marker points back no further
	}
	n := mss - LengthBytes - CRCBytes - mss%fpduAlign
	if markers {
		n -= MarkerBytes * ((mss + MarkerInterval - 1) / MarkerInterval)
	}
	return min(max(n, minULPDU), maxAlignedULPDU)
}

const (
	minULPDU        = 128
	maxAlignedULPDU = MaxULPDU - 1 // so that no pad is needed
	maxMarked       = 1<<16 - fpduAlign
)

// AppendLength appends the ULPDU length.
func AppendLength(b []byte, n int) []byte { return binary.BigEndian.AppendUint16(b, uint16(n)) }

// ParseLength reads the ULPDU length from the front of b.
func ParseLength(b []byte) (n int, rest []byte, ok bool) {
	if len(b) < LengthBytes {
		return 0, b, false
	}
	return int(binary.BigEndian.Uint16(b)), b[LengthBytes:], true
}

// A Marker gives the distance to the start of the FPDU that it stands in: FPDUPTR bytes, markers in
// between included; 0 if it stands before the length.
//
// Spec: RFC 5044, 4.3 (MPA markers).
type Marker struct{ FPDUPtr uint16 }

// ParseMarker reads a marker from the front of b.
func ParseMarker(b []byte) (m Marker, rest []byte, ok bool) {
	if len(b) < MarkerBytes {
		return Marker{}, b, false
	}
	// reserved (16), FPDUPTR (16)
	return Marker{FPDUPtr: binary.BigEndian.Uint16(b[2:])}, b[MarkerBytes:], true
}

// Append appends the 4 bytes of m to b.
func (m Marker) Append(b []byte) []byte {
	return append(b, 0, 0, byte(m.FPDUPtr>>8), byte(m.FPDUPtr))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// UpdateCRC extends the CRC32c sum by p; 0 is the sum of no bytes. It covers an FPDU from its first
// byte, marker or length, to the pad.
//
// Spec: RFC 5044, 4.4 (CRC calculation).
func UpdateCRC(sum uint32, p []byte) uint32 { return crc32.Update(sum, castagnoli, p) }

// AppendCRC appends a CRC. Its bytes go least significant first, as those of
// iSCSI do.
func AppendCRC(b []byte, sum uint32) []byte { return binary.LittleEndian.AppendUint32(b, sum) }

// ParseCRC reads a CRC from the front of b.
func ParseCRC(b []byte) (sum uint32, rest []byte, ok bool) {
	if len(b) < CRCBytes {
		return 0, b, false
	}
	return binary.LittleEndian.Uint32(b), b[CRCBytes:], true
}

// AppendFPDU appends a whole FPDU without markers around an ULPDU. Without crc
// the field is there and zero.
func AppendFPDU(b, ulpdu []byte, crc bool) []byte {
	start := len(b)
	b = AppendLength(b, len(ulpdu))
	b = append(b, ulpdu...)
	b = append(b, make([]byte, PadBytes(len(ulpdu)))...)
	var sum uint32
	if crc {
		sum = UpdateCRC(0, b[start:])
	}
	return AppendCRC(b, sum)
}
