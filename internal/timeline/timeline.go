// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"net/netip"
	"time"
)

// Timeline holds the result of Read. Packets, operations and samples of a connection stand
// together, in the order of time.
type Timeline struct {
	Files   []File
	Start   time.Time // of the first packet; others count from it, in nanoseconds
	Span    int64     // up to the last packet
	Conns   []*Conn
	Packets Packets
	Ops     []Op
	Samples []Sample
	Calls   []Call
	Details Details
	// LeftOut counts packets beyond the bounds: of flows or of packets.
	LeftOut int
	// Joined counts packets that were captured at both ends, and have one row.
	Joined int
}

// File is a capture that was read.
type File struct {
	Name   string
	Frames int
	Err    error // why the rest of it could not be read
}

// End is one end of a connection.
type End struct {
	Addr netip.Addr
	Port uint16 // of TCP and TRP
	QPN  uint32 // 0 if no packet, and over iWARP and TRP no comment, names it
	Base uint32 // the PSN of its requests' number 0; 0 for UD and iWARP
	Health
}

// Conn is a connection: a pair of queue pairs, or one end's packets to a queue pair.
type Conn struct {
	File     int    // the first that has it
	Files    [2]int // the captures of A's host and of B's: two if they are joined
	Protocol string // "RC", "UC", "UD", "XRC", "CM", "iWARP", "TRP"
	A, B     End    // A sent the first packet, or asked for the connection
	Note     string // why the connection manager rejected it
	// Ranges of Packets, Ops and Samples: from the first to before the second.
	PacketRange, OpRange, SampleRange [2]int
	Findings                          []Finding
	Captures                          string // how captures of it are joined, or why they are not
	Flight                            int64  // of joined ones: the least time that a packet takes

	keys  [2]flowKey // of the packets of A, and of B
	base  [2]uint32  // the number 0 of their requests
	local int        // the capture's host: 1 is A's, 2 is B's, 0 is not known
	asks  bool       // one end asks for it
}

// Joined reports whether captures of both ends are joined.
func (c *Conn) Joined() bool { return c.Files[0] != c.Files[1] }

// End returns A, or B.
func (c *Conn) End(b bool) *End {
	if b {
		return &c.B
	}
	return &c.A
}

// Packets are columns with a row for each packet.
type Packets struct {
	Time     []int64 // since Start, in nanoseconds
	Number   []uint32
	Payload  []uint32 // bytes that were not sent before
	Length   []uint32 // of the frame
	Op       []uint32 // the operation it belongs to, or None
	RTT      []uint32 // measured by an acknowledgement, in nanoseconds; 0 is none
	InFlight []uint32 // bytes that its space has outstanding behind it
	Flight   []uint32 // of joined captures, up to the arrival; None is not known. Else nil
	Serial   []uint32 // in the captures, from 0: the place in Details
	Kind     []Kind
	Flags    []uint8
}

// None is the Op of packets that belong to no operation.
const None = ^uint32(0)

// Len returns the number of packets.
func (p *Packets) Len() int { return len(p.Time) }

// Op is an operation: one message, and its answer.
type Op struct {
	OfB       bool // B asked for it
	Operation Operation
	Status    Status
	Reason    string // of a failure
	Number    uint32 // among the operations of its end, from 1
	Start     int64  // of its first packet
	End       int64  // of the answer, or of the last packet that the capture has
	Packets   uint32
	Repeated  uint32
	Waited    uint32 // receiver-not-ready NAKs
	Posted    uint32 // the Call that asked for it, or None
	Completed uint32 // the Call that completed it, or None
	Bytes     uint64

	first, end int64 // in the space: from the first to before the second
	respNext   int64 // the next number of a READ's response
	flow       uint32
	psn        uint32 // of UD
	rkey       uint32 // of the memory of RoCE, as the next two
	rkeyBytes  uint32
	va         uint64
	complete   bool // its last packet has been seen
	hole       bool // segments of a stream are missing before it
}

// Sample is the state of a path that a sender has written into its capture.
type Sample struct {
	Time                    int64
	OfB                     bool
	RTT, MinRTT             uint64 // nanoseconds
	Window, Pace, InFlight  uint64 // bytes, bytes a second, bytes
	Lost, Repeated, Notices uint64
	Marked                  uint64 // received
}

// Health counts how the packets fared that an End sent, and what its requests met.
type Health struct {
	Packets, Bytes       uint64 // Bytes are those of payload, each counted once
	Operations           uint64
	Done, Failed         uint64 // operations
	Repeated, Late       uint64
	Lost                 uint64            // as the sender has counted, else taken for lost
	Resent               uint64            // how often it began to repeat
	TimedOut             uint64            // … without a NAK or SACK before
	NAKs                 map[string]uint64 `json:",omitempty"` // received, by syndrome
	RNRs, CNPs           uint64            // received
	Marked               uint64            // sent, and marked by the network
	Bad                  uint64
	RTTs                 uint64 // samples of the round trip, by acknowledgements
	RTTMin, RTTMax       int64
	RTTSum               int64
	InFlightMax          uint64
	WindowMin, WindowMax uint64 // of samples; 0 without any
}

// Finding is a sentence about a connection that a reader should see first.
type Finding struct {
	Bad    bool
	Text   string
	Packet int // that shows it, or -1
}
