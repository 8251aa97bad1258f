// SPDX-License-Identifier: BSD-2-Clause

package iwarp

// Sizes of a Terminate message: its control field, and all that may follow.
const (
	TermControlBytes = 4
	termLengthBytes  = 2
	MaxTermBytes     = TermControlBytes + termLengthBytes + UntaggedBytes + ReadRequestBytes
)

// Which parts follow the control field, byte 2.
const (
	termM = 1 << 7
	termD = 1 << 6
	termR = 1 << 5
	// siw's, which lays the bits out from the other end.
	siwM, siwD, siwR = 1 << 0, 1 << 1, 1 << 2
)

// A TermMsg is the last message of a stream: an error, and the headers of the segment that caused
// it.
//
// Spec: RFC 5040, 4.8 (Terminate header) and 7.1.
type TermMsg struct {
	TermError
	HasLength bool // M: SegmentBytes holds
	HasDDP    bool // D: DDP holds
	HasRead   bool // R: Read holds

	SegmentBytes uint16 // of the terminated DDP segment
	DDP          Header
	Read         ReadReq

	// Swapped says that nibbles and bits of the control field are in the order of siw on a
	// little-endian machine. ParseTermMsg sets it; our own messages never have it.
	Swapped bool
}

// ParseTermMsg reads a Terminate message. rest is the bytes that its control field does not account
// for. The DDP header is taken for tagged or untagged by its own T bit.
//
// siw writes layer and type into each other's nibble, and M, D and R to the low
// end of their byte. Where the high end is empty and the low is not, it is
// siw's.
func ParseTermMsg(b []byte) (t TermMsg, rest []byte, ok bool) {
	if len(b) < TermControlBytes {
		return TermMsg{}, b, false
	}
	// layer (4) EType (4) error code (8)
	t.Layer, t.Type, t.Code = TermLayer(b[0]>>4), b[0]&15, b[1]
	bits := b[2] // M D R (3) reserved (13)
	if bits&(termM|termD|termR) == 0 && bits&(siwM|siwD|siwR) != 0 {
		t.Swapped = true
		t.Layer, t.Type = TermLayer(t.Type), uint8(t.Layer)
		t.HasLength, t.HasDDP, t.HasRead = bits&siwM != 0, bits&siwD != 0, bits&siwR != 0
	} else {
		t.HasLength, t.HasDDP, t.HasRead = bits&termM != 0, bits&termD != 0, bits&termR != 0
	}
	rest = b[TermControlBytes:]
	if t.HasLength {
		n, r, ok := ParseLength(rest)
		if !ok {
			return TermMsg{}, b, false
		}
		t.SegmentBytes, rest = uint16(n), r
	}
	if t.HasDDP {
		if t.DDP, rest, ok = ParseHeader(rest); !ok {
			return TermMsg{}, b, false
		}
	}
	if t.HasRead {
		if t.Read, rest, ok = ParseReadReq(rest); !ok {
			return TermMsg{}, b, false
		}
	}
	return t, rest, true
}

// Append appends the message to b, at most MaxTermBytes.
func (t TermMsg) Append(b []byte) []byte {
	first, bits := byte(t.Layer)<<4|t.Type&15, byte(0)
	m, d, r := byte(termM), byte(termD), byte(termR)
	if t.Swapped {
		first, m, d, r = first<<4|first>>4, siwM, siwD, siwR
	}
	if t.HasLength {
		bits |= m
	}
	if t.HasDDP {
		bits |= d
	}
	if t.HasRead {
		bits |= r
	}
	b = append(b, first, t.Code, bits, 0)
	if t.HasLength {
		b = AppendLength(b, int(t.SegmentBytes))
	}
	if t.HasDDP {
		b = t.DDP.Append(b)
	}
	if t.HasRead {
		b = t.Read.Append(b)
	}
	return b
}
