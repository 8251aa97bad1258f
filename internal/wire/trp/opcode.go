// SPDX-License-Identifier: BSD-2-Clause

package trp

// Opcode names the purpose of a datagram: the top 4 bits of the header's last field.
type Opcode uint8

// Opcodes.
const (
	Data    Opcode = iota // a DDP segment, or, without one, an ACK
	Request               // a client asks for a connection
	Accept                // the server's yes
	Reject                // the server's no
	FIN                   // the sender has closed the connection
	SACK                  // a range of PSNs that arrived beyond a gap

	numOpcodes
)

var opcodeNames = [numOpcodes]string{"Data", "Request", "Accept", "Reject", "FIN", "SACK"}

func (o Opcode) String() string {
	if o < numOpcodes {
		return opcodeNames[o]
	}
	return "unknown"
}

// setsUp reports whether Setup follows the header.
func (o Opcode) setsUp() bool { return o == Request || o == Accept || o == Reject }
