// SPDX-License-Identifier: BSD-2-Clause

package roce

import "fmt"

// Opcode is BTH.OpCode: the service in the top three bits, the operation and
// its place in the message in the low five.
//
// Spec: IBTA vol. 1, 9.2 (the OpCode field); annex A17.9.3 (CNP).
type Opcode uint8

// Reliable connected.
const (
	RCSendFirst              Opcode = 0x00
	RCSendMiddle             Opcode = 0x01
	RCSendLast               Opcode = 0x02
	RCSendLastImm            Opcode = 0x03
	RCSendOnly               Opcode = 0x04
	RCSendOnlyImm            Opcode = 0x05
	RCRDMAWriteFirst         Opcode = 0x06
	RCRDMAWriteMiddle        Opcode = 0x07
	RCRDMAWriteLast          Opcode = 0x08
	RCRDMAWriteLastImm       Opcode = 0x09
	RCRDMAWriteOnly          Opcode = 0x0a
	RCRDMAWriteOnlyImm       Opcode = 0x0b
	RCRDMAReadRequest        Opcode = 0x0c
	RCRDMAReadResponseFirst  Opcode = 0x0d
	RCRDMAReadResponseMiddle Opcode = 0x0e
	RCRDMAReadResponseLast   Opcode = 0x0f
	RCRDMAReadResponseOnly   Opcode = 0x10 // also answers FLUSH and ATOMIC WRITE, with 0 bytes
	RCAcknowledge            Opcode = 0x11
	RCAtomicAcknowledge      Opcode = 0x12
	RCCompareSwap            Opcode = 0x13
	RCFetchAdd               Opcode = 0x14
	RCSendLastInvalidate     Opcode = 0x16
	RCSendOnlyInvalidate     Opcode = 0x17
	RCFlush                  Opcode = 0x1c
	RCAtomicWrite            Opcode = 0x1d
)

// Unreliable connected.
const (
	UCSendFirst        Opcode = 0x20
	UCSendMiddle       Opcode = 0x21
	UCSendLast         Opcode = 0x22
	UCSendLastImm      Opcode = 0x23
	UCSendOnly         Opcode = 0x24
	UCSendOnlyImm      Opcode = 0x25
	UCRDMAWriteFirst   Opcode = 0x26
	UCRDMAWriteMiddle  Opcode = 0x27
	UCRDMAWriteLast    Opcode = 0x28
	UCRDMAWriteLastImm Opcode = 0x29
	UCRDMAWriteOnly    Opcode = 0x2a
	UCRDMAWriteOnlyImm Opcode = 0x2b
)

// Unreliable datagram.
const (
	UDSendOnly    Opcode = 0x64
	UDSendOnlyImm Opcode = 0x65
)

// Extended reliable connected: the operations of RC in a space of their own,
// each request with an XRCETH behind its BTH.
//
// Spec: IBTA annex A14; FLUSH and ATOMIC WRITE: annex A19.
const (
	XRCSendFirst              Opcode = 0xa0
	XRCSendMiddle             Opcode = 0xa1
	XRCSendLast               Opcode = 0xa2
	XRCSendLastImm            Opcode = 0xa3
	XRCSendOnly               Opcode = 0xa4
	XRCSendOnlyImm            Opcode = 0xa5
	XRCRDMAWriteFirst         Opcode = 0xa6
	XRCRDMAWriteMiddle        Opcode = 0xa7
	XRCRDMAWriteLast          Opcode = 0xa8
	XRCRDMAWriteLastImm       Opcode = 0xa9
	XRCRDMAWriteOnly          Opcode = 0xaa
	XRCRDMAWriteOnlyImm       Opcode = 0xab
	XRCRDMAReadRequest        Opcode = 0xac
	XRCRDMAReadResponseFirst  Opcode = 0xad
	XRCRDMAReadResponseMiddle Opcode = 0xae
	XRCRDMAReadResponseLast   Opcode = 0xaf
	XRCRDMAReadResponseOnly   Opcode = 0xb0
	XRCAcknowledge            Opcode = 0xb1
	XRCAtomicAcknowledge      Opcode = 0xb2
	XRCCompareSwap            Opcode = 0xb3
	XRCFetchAdd               Opcode = 0xb4
	XRCSendLastInvalidate     Opcode = 0xb6
	XRCSendOnlyInvalidate     Opcode = 0xb7
	XRCFlush                  Opcode = 0xbc
	XRCAtomicWrite            Opcode = 0xbd
)

// CNP is the congestion notification packet: PSN, Solicited and MigReq 0, the
// P_Key of the packet that was marked, and 16 reserved bytes.
//
// Spec: IBTA annex A17.9.3 and its figure 6.
const CNP Opcode = 0x81

// SelectiveAcknowledge has a SACK as its payload, and as PSN the one that the responder expects. It
// is of the opcodes that vendors define.
const SelectiveAcknowledge Opcode = 0xe0

// Service is the transport service of an opcode, its top three bits.
type Service uint8

// Transport services.
const (
	ServiceRC  Service = 0
	ServiceUC  Service = 1
	ServiceRD  Service = 2 // not spoken
	ServiceUD  Service = 3
	ServiceCNP Service = 4
	ServiceXRC Service = 5
	ServiceOwn Service = 7 // of the vendor: Verbena's
)

var serviceNames = [8]string{"RC", "UC", "RD", "UD", "CNP", "XRC", "reserved service 6",
	"manufacturer defined"}

func (s Service) String() string {
	if int(s) < len(serviceNames) {
		return serviceNames[s]
	}
	return "invalid service"
}

// Operation names the work of a packet, regardless of its place in the message.
type Operation uint8

// Operations.
const (
	OpReserved Operation = iota
	OpSend
	OpRDMAWrite
	OpRDMARead
	OpCompareSwap
	OpFetchAdd
	OpFlush
	OpAtomicWrite
	OpReadResponse
	OpAcknowledge
	OpAtomicAcknowledge
	OpCongestion
	OpSelectiveAck
)

// Info returns the row of the opcode table. It is never nil: a reserved opcode
// has a row whose Valid is false and whose Service is still told by its bits.
func (o Opcode) Info() *OpInfo { return &opcodes[o] }

// Row returns the row of h's opcode, or of the same packet with a RETH: see AllRETH.
func (h *BTH) Row() *OpInfo {
	if h.AllRETH {
		switch h.Opcode {
		case RCRDMAWriteMiddle:
			return &middleWithRETH
		case RCRDMAWriteLast:
			return &lastWithRETH
		}
	}
	return h.Opcode.Info()
}

// Rows of packets with AllRETH.
var (
	middleWithRETH = row(OpRDMAWrite, "RC RDMA Write Middle", middle|payload|reth)
	lastWithRETH   = row(OpRDMAWrite, "RC RDMA Write Last", last|payload|reth)
)

// String returns the words Wireshark uses.
func (o Opcode) String() string { return opcodes[o].Name }

// OpInfo describes one opcode as the specification does. Rows are read-only.
type OpInfo struct {
	Name      string // in Wireshark's words
	Valid     bool   // spoken here
	Service   Service
	Operation Operation

	// Extended headers, in the order they follow BTH. AtomicETH, DETH and AETH
	// never share a packet with the others but XRCETH, ImmDt and AtomicAckETH.
	HasXRCETH    bool
	HasDETH      bool
	HasFETH      bool
	HasRETH      bool
	HasAtomicETH bool
	HasAETH      bool
	HasAtomicAck bool
	HasImm       bool
	HasIETH      bool

	// Place in the message. An "only" packet is both First and Last.
	First, Middle, Last bool

	HasPayload   bool // payload bytes may follow the headers
	ConsumesRecv bool // takes a receive request, or ends one, at the responder
	Request      bool // travels from requester to responder
	Response     bool // travels back; CNP is neither

	HeaderBytes int // BTH and extended headers
}

// Only reports whether the packet is a whole message.
func (i *OpInfo) Only() bool { return i.First && i.Last }

// place of a packet in its message, and the other bits of a table row.
type shape uint16

const (
	first shape = 1 << iota
	middle
	last
	payload
	deth
	feth
	reth
	atomicETH
	aeth
	atomicAck
	imm
	ieth
	consumes
	response
	xrceth
	only = first | last
)

func row(op Operation, name string, s shape) OpInfo {
	i := OpInfo{
		Name: name, Valid: true, Operation: op,
		HasXRCETH: s&xrceth != 0, HasDETH: s&deth != 0, HasFETH: s&feth != 0, HasRETH: s&reth != 0,
		HasAtomicETH: s&atomicETH != 0, HasAETH: s&aeth != 0, HasAtomicAck: s&atomicAck != 0,
		HasImm: s&imm != 0, HasIETH: s&ieth != 0, First: s&first != 0, Middle: s&middle != 0,
		Last: s&last != 0, HasPayload: s&payload != 0, ConsumesRecv: s&consumes != 0,
		Response: s&response != 0, Request: s&response == 0 && op != OpCongestion,
		HeaderBytes: BTHBytes,
	}
	for _, h := range [...]struct {
		has   bool
		bytes int
	}{
		{i.HasXRCETH, XRCETHBytes}, {i.HasDETH, DETHBytes}, {i.HasFETH, FETHBytes},
		{i.HasRETH, RETHBytes}, {i.HasAtomicETH, AtomicETHBytes},
		{i.HasAETH, AETHBytes}, {i.HasAtomicAck, AtomicAckETHBytes}, {i.HasImm, ImmDtBytes},
		{i.HasIETH, IETHBytes},
	} {
		if h.has {
			i.HeaderBytes += h.bytes
		}
	}
	return i
}

// MaxHeaderBytes is the longest BTH and extended headers of any opcode, that of
// the atomics of XRC.
const MaxHeaderBytes = BTHBytes + XRCETHBytes + AtomicETHBytes

// connected are the opcodes of RC and XRC, and the first ucOpcodes of them those of UC. A SEND
// consumes a receive from its first packet on; an RDMA WRITE with immediate only by its last.
var connected = [...]struct {
	at    Opcode // from the first of its service
	op    Operation
	name  string
	shape shape
}{
	{0x00, OpSend, "Send First", first | payload | consumes},
	{0x01, OpSend, "Send Middle", middle | payload | consumes},
	{0x02, OpSend, "Send Last", last | payload | consumes},
	{0x03, OpSend, "Send Last Immediate", last | payload | consumes | imm},
	{0x04, OpSend, "Send Only", only | payload | consumes},
	{0x05, OpSend, "Send Only Immediate", only | payload | consumes | imm},
	{0x06, OpRDMAWrite, "RDMA Write First", first | payload | reth},
	{0x07, OpRDMAWrite, "RDMA Write Middle", middle | payload},
	{0x08, OpRDMAWrite, "RDMA Write Last", last | payload},
	{0x09, OpRDMAWrite, "RDMA Write Last Immediate", last | payload | imm | consumes},
	{0x0a, OpRDMAWrite, "RDMA Write Only", only | payload | reth},
	{0x0b, OpRDMAWrite, "RDMA Write Only Immediate", only | payload | reth | imm | consumes},
	{RCRDMAReadRequest, OpRDMARead, "RDMA Read Request", only | reth},
	{RCRDMAReadResponseFirst, OpReadResponse, "RDMA Read Response First",
		first | payload | aeth | response},
	{RCRDMAReadResponseMiddle, OpReadResponse, "RDMA Read Response Middle",
		middle | payload | response},
	{RCRDMAReadResponseLast, OpReadResponse, "RDMA Read Response Last",
		last | payload | aeth | response},
	{RCRDMAReadResponseOnly, OpReadResponse, "RDMA Read Response Only",
		only | payload | aeth | response},
	{RCAcknowledge, OpAcknowledge, "Acknowledge", only | aeth | response},
	{RCAtomicAcknowledge, OpAtomicAcknowledge, "Atomic Acknowledge",
		only | aeth | atomicAck | response},
	{RCCompareSwap, OpCompareSwap, "Compare Swap", only | atomicETH},
	{RCFetchAdd, OpFetchAdd, "Fetch Add", only | atomicETH},
	{RCSendLastInvalidate, OpSend, "Send Last Invalidate", last | payload | ieth | consumes},
	{RCSendOnlyInvalidate, OpSend, "Send Only Invalidate", only | payload | ieth | consumes},
	{RCFlush, OpFlush, "Flush", only | feth | reth},
	{RCAtomicWrite, OpAtomicWrite, "Atomic Write", only | reth | payload},
}

const ucOpcodes = 12

// opcodes is the opcode table.
var opcodes [256]OpInfo

func init() {
	t := &opcodes
	for _, s := range [...]struct {
		name string
		base Opcode
		has  int
		x    shape // carried by all requests of the service
	}{{"RC ", RCSendFirst, len(connected), 0}, {"UC ", UCSendFirst, ucOpcodes, 0},
		{"XRC ", XRCSendFirst, len(connected), xrceth}} {
		for _, c := range connected[:s.has] {
			if c.shape&response == 0 {
				c.shape |= s.x
			}
			t[s.base+c.at] = row(c.op, s.name+c.name, c.shape)
		}
	}
	t[UDSendOnly] = row(OpSend, "UD Send Only", only|payload|deth|consumes)
	t[UDSendOnlyImm] = row(OpSend, "UD Send Only Immediate", only|payload|deth|imm|consumes)
	// The 16 reserved bytes of a CNP stand as its payload.
	t[CNP] = row(OpCongestion, "CNP", only|payload)
	t[SelectiveAcknowledge] = row(OpSelectiveAck, "Selective Acknowledge", only|payload|response)
	for o := range t {
		t[o].Service = Service(o >> 5)
		if !t[o].Valid {
			t[o].Name = fmt.Sprintf("Unknown OpCode (0x%02x)", o)
			t[o].HeaderBytes = BTHBytes
		}
	}
}
