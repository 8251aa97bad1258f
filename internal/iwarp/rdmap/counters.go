// SPDX-License-Identifier: BSD-2-Clause

package rdmap

// Counter names an event worth counting.
type Counter uint8

// Counters of a queue pair.
const (
	SentSegments Counter = iota
	SentBytes            // payload
	RcvdSegments
	RcvdBytes // payload
	SentMessages
	RcvdMessages
	SentReads
	RcvdReads
	SentTerminate
	RcvdTerminate
	SwappedTerminate // received with its control field as siw lays it out
	BadCRCs
	BadMarkers
	MalformedSegment // shorter than its headers, or of a form its opcode does not have
	DroppedState     // segments that came when the queue pair did not take any
	PlacedDirect     // payload bytes read straight into their place
	Nudges           // WRITEs of no bytes that have a peer look again
	NumCounters
)

var counterNames = [NumCounters]string{
	"sent_segments", "sent_bytes", "rcvd_segments", "rcvd_bytes", "rdma_sends", "rdma_recvs",
	"sent_reads", "rcvd_reads", "sent_terminate", "rcvd_terminate", "rcvd_terminate_swapped",
	"mpa_crc_errors", "mpa_marker_errors", "malformed_segment", "dropped_state",
	"placed_direct_bytes", "sent_nudges",
}

// CounterNames returns the names of a queue pair's counts, in their order.
func CounterNames() []string { return counterNames[:] }

// Counters are the counts of one machine; its caller's lock guards them.
type Counters [NumCounters]uint64
