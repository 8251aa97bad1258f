// SPDX-License-Identifier: BSD-2-Clause

package trp

// Malformed names a fault in the form of a datagram. Each has its own counter; String is the
// counter's name.
type Malformed uint8

// Verdicts of Packet.Parse, in the order they are looked for.
const (
	WellFormed      Malformed = iota
	TooShort                  // less than a header
	BadOpcode                 // not assigned
	ShortSetup                // no room for the parameters
	LongPrivateData           // more than MaxPrivateBytes
	BadLength                 // private data do not end where the datagram does
	TrailingBytes             // bytes behind a FIN or a SACK
	EmptyRange                // a SACK of nothing
	NumMalformed              // the number of verdicts, for counter arrays
)

var malformedNames = [NumMalformed]string{
	"well_formed", "too_short", "bad_opcode", "short_setup", "long_private_data", "bad_length",
	"trailing_bytes", "empty_range",
}

func (m Malformed) String() string {
	if m < NumMalformed {
		return malformedNames[m]
	}
	return "unknown"
}
