// SPDX-License-Identifier: BSD-2-Clause

package roce

// Malformed names a fault in the form of a packet. Each has its own counter; String is the
// counter's name.
type Malformed uint8

// Verdicts of Packet.Parse, in the order they are looked for.
const (
	WellFormed        Malformed = iota
	TooShort                    // less than a BTH and an ICRC
	BadLength                   // not a multiple of 4 bytes
	BadTVer                     // transport header version not 0
	BadOpcode                   // reserved, or a service not spoken
	ShortHeaders                // the opcode's extended headers do not fit
	BadPad                      // more pad than payload
	PayloadNotAllowed           // bytes, or pad, after an opcode that carries none
	NumMalformed                // the number of verdicts, for counter arrays
)

var malformedNames = [NumMalformed]string{
	"well_formed", "too_short", "bad_length", "bad_tver", "bad_opcode", "short_headers", "bad_pad",
	"payload_not_allowed",
}

func (m Malformed) String() string {
	if m < NumMalformed {
		return malformedNames[m]
	}
	return "unknown"
}
