// SPDX-License-Identifier: BSD-2-Clause

package trp

import "encoding/binary"

// Sizes of connection set-up.
const (
	SetupBytes      = 6   // without private data
	MaxPrivateBytes = 512 // urdma's limit; its own sender truncates above 255
)

// Setup follows the header of Request, Accept and Reject.
//
// The header's PSN is 0, and so is AckPSN from urdma, which looks at neither. Deviation: in AckPSN
// of a Request or an Accept we announce how many datagrams beyond the last in order we keep. 0 is a
// peer that does not announce it.
//
// Deviation: a Request that announces its window is answered with another, whose PSN is a cookie
// and which says nothing else. With the cookie in its PSN it counts. urdma's Requests do not
// announce it, and are not asked for one.
type Setup struct {
	IRD         uint16 // READs and atomics that the sender serves at a time
	ORD         uint16 // and that it would have outstanding
	PrivateData []byte
}

// parseSetup reads the rest behind a header, to the end of the datagram.
func parseSetup(b []byte) (s Setup, m Malformed) {
	if len(b) < SetupBytes {
		return Setup{}, ShortSetup
	}
	n := int(binary.BigEndian.Uint16(b)) // pd_len (16)
	s.IRD = binary.BigEndian.Uint16(b[2:])
	s.ORD = binary.BigEndian.Uint16(b[4:])
	switch {
	case n > MaxPrivateBytes:
		return Setup{}, LongPrivateData
	case n != len(b)-SetupBytes:
		return Setup{}, BadLength
	}
	s.PrivateData = b[SetupBytes:]
	return s, WellFormed
}

// append appends the bytes of s to b.
func (s *Setup) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s.PrivateData)))
	b = binary.BigEndian.AppendUint16(b, s.IRD)
	b = binary.BigEndian.AppendUint16(b, s.ORD)
	return append(b, s.PrivateData...)
}
