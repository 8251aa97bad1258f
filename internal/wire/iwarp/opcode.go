// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import "fmt"

// Opcode is the RDMAP operation of a DDP segment, 4 bits.
//
// Spec: RFC 5040, 4.1 and figure 4; RFC 7306, 4 (header formats).
type Opcode uint8

// RDMAP opcodes.
const (
	RDMAWrite Opcode = iota
	ReadRequest
	ReadResponse
	Send
	SendInvalidate
	SendSE
	SendSEInvalidate
	Terminate
	Immediate   // RFC 7306
	ImmediateSE // …
	AtomicRequest
	AtomicResponse
)

// DDP queues of untagged messages.
//
// Spec: RFC 5040, 4.2 (queue numbers); RFC 7306, 4.
const (
	QNSend           uint32 = iota // SEND, immediate data
	QNRequest                      // READ and atomic requests
	QNTerminate                    // Terminate
	QNAtomicResponse               // RFC 7306
	NumQN
)

// OpcodeInfo describes an opcode.
type OpcodeInfo struct {
	Name         string // Wireshark's, where it has one
	Valid        bool
	Tagged       bool
	QN           uint32 // if untagged
	Invalidates  bool   // the header's STag is to be invalidated
	Solicited    bool
	ConsumesRecv bool // completes a receive
	// FixedBytes is the size of the RDMAP header that is the whole payload; 0
	// where the payload is the application's, or a Terminate.
	FixedBytes int
}

var opcodes = [16]OpcodeInfo{
	RDMAWrite: {Name: "Write", Valid: true, Tagged: true},
	ReadRequest: {Name: "Read Request", Valid: true, QN: QNRequest,
		FixedBytes: ReadRequestBytes},
	ReadResponse: {Name: "Read Response", Valid: true, Tagged: true},
	Send:         {Name: "Send", Valid: true, QN: QNSend, ConsumesRecv: true},
	SendInvalidate: {Name: "Send with Invalidate", Valid: true, QN: QNSend, ConsumesRecv: true,
		Invalidates: true},
	SendSE: {Name: "Send with SE", Valid: true, QN: QNSend, ConsumesRecv: true,
		Solicited: true},
	SendSEInvalidate: {Name: "Send with SE and Invalidate", Valid: true, QN: QNSend,
		ConsumesRecv: true, Solicited: true, Invalidates: true},
	Terminate: {Name: "Terminate", Valid: true, QN: QNTerminate},
	Immediate: {Name: "Immediate Data", Valid: true, QN: QNSend, ConsumesRecv: true,
		FixedBytes: ImmediateBytes},
	ImmediateSE: {Name: "Immediate Data with SE", Valid: true, QN: QNSend, ConsumesRecv: true,
		Solicited: true, FixedBytes: ImmediateBytes},
	AtomicRequest: {Name: "Atomic Request", Valid: true, QN: QNRequest,
		FixedBytes: AtomicRequestBytes},
	AtomicResponse: {Name: "Atomic Response", Valid: true, QN: QNAtomicResponse,
		FixedBytes: AtomicResponseBytes},
}

// Info returns the properties of an opcode.
func (o Opcode) Info() *OpcodeInfo { return &opcodes[o&15] }

// String returns Wireshark's name. Deviation: Wireshark 4.0 knows no immediate
// data and calls it Unknown 8 and 9.
func (o Opcode) String() string {
	if i := o.Info(); i.Valid {
		return i.Name
	}
	return fmt.Sprintf("Unknown %d", uint8(o))
}

// IsSend reports whether the opcode is one of the four SENDs.
func (o Opcode) IsSend() bool { return o >= Send && o <= SendSEInvalidate }
