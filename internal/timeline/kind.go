// SPDX-License-Identifier: BSD-2-Clause

package timeline

// Kind names the purpose of a packet, and how it fared.
type Kind uint8

// Kinds of packets.
const (
	Sent         Kind = iota // a request or data, for the first time
	Repeated                 // its number was seen before
	Late                     // for the first time, but behind later ones
	Response                 // data of a READ, or the result of an atomic
	Ack                      // acknowledges all before
	SelectiveAck             // names what is missing
	NAK                      // a sequence error: packets are missing
	Refusal                  // a NAK that ends the queue pair, or a Terminate
	RNR                      // the receiver has no receive posted
	CNP                      // a congestion notification
	SetUp                    // connection managers, MPA, TCP's SYN and FIN
	Reset                    // a rejected connection, or a reset one
	Bad                      // malformed, or with a wrong checksum
	NumKinds
)

var kindNames = [NumKinds]string{"sent", "repeated", "late", "response", "ack", "selective ack",
	"nak", "refusal", "rnr", "cnp", "setup", "reset", "bad"}

func (k Kind) String() string {
	if k < NumKinds {
		return kindNames[k]
	}
	return "unknown"
}

// Flags of a packet.
const (
	FromB   uint8 = 1 << iota // end B sent it
	OfB                       // its number counts in the space of B's requests
	Marked                    // the network has marked it: congestion experienced
	GivenUp                   // taken for lost: sent again, or not in the receiver's capture
	Arrival                   // only the receiver's capture has it: its time is that of its arrival
)

// Operation is the work that a span of packets does.
type Operation uint8

// Operations.
const (
	OpWrite Operation = iota
	OpSend
	OpRead
	OpAtomic
	OpFlush
	OpAtomicWrite
	NumOperations
)

var operationNames = [NumOperations]string{"WRITE", "SEND", "READ", "ATOMIC", "FLUSH",
	"ATOMIC WRITE"}

func (o Operation) String() string {
	if o < NumOperations {
		return operationNames[o]
	}
	return "unknown"
}

// answered reports whether the responder returns a result, which ends the operation.
func (o Operation) answered() bool { return o >= OpRead && o < NumOperations }

// Status says how an operation ended.
type Status uint8

// Statuses.
const (
	Open   Status = iota // the capture has no answer
	Done                 // acknowledged or answered
	Failed               // refused
	NumStatuses
)
