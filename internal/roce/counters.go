// SPDX-License-Identifier: BSD-2-Clause

package roce

// Counter names an event worth counting. Names follow `rdma statistic` where
// it has one.
type Counter uint8

// Counters of a queue pair.
const (
	SentPackets Counter = iota
	SentBytes
	RcvdPackets
	RcvdBytes
	DuplicateRequest // a request seen before: acknowledged again or replayed
	OutOfSeqRequest  // a request beyond the one expected: NAK sent or suppressed
	Kept             // a request after a gap, kept until the gap fills
	NotKept          // likewise, for which the memory was not there
	SentSeqNAK       // NAK PSN sequence error sent
	RcvdSeqNAK       // NAK PSN sequence error received
	SentSACK         // selective acknowledgement sent: it lists the missing requests
	RcvdSACK         // … received
	SentRNRNAK       // receiver not ready sent
	RcvdRNRNAK       // receiver not ready received
	SentErrorNAK     // NAK invalid request, access or operational error sent
	RcvdErrorNAK     // … received
	ImpliedNAK       // a response was skipped: asked for again
	RetryExceeded    // the queue pair failed: no answer within its retries
	RNRRetryExceeded // likewise: the peer was never ready to receive
	LocalACKTimeout  // the local ACK time-out expired
	TailProbe        // retransmission before the local ACK time-out
	Retransmitted    // packets sent more than once
	Lost             // packets that a NAK or SACK shows to be lost, or that a time-out gives up
	StaleAck         // acknowledgement outside the outstanding PSNs
	UnexpectedPacket // not legal in this state or for this service
	WrongSource      // from an address that is not the peer's
	WrongPKey        // partition key does not match
	WrongQKey        // Q_Key does not match
	DroppedNoRecv    // UC, UD: no receive posted
	DroppedMessage   // UC, UD: malformed or interrupted message
	DroppedState     // the queue pair cannot receive in its state
	BadResponse      // response that does not fit its request
	CEMarked         // packet marked congestion experienced
	SentCNP          // congestion notification packet sent
	RcvdCNP          // congestion notification packet received
	AtomicReplay     // duplicate atomic answered from its saved result
	AtomicForgotten  // duplicate atomic older than the saved ones: dropped
	RcvdMessages
	SentMessages
	NumCounters
)

var counterNames = [NumCounters]string{
	"sent_pkts", "sent_bytes", "rcvd_pkts", "rcvd_bytes", "duplicate_request", "out_of_seq_request",
	"kept_requests", "not_kept_requests", "sent_seq_err", "rcvd_seq_err",
	"sent_selective_acks", "rcvd_selective_acks", "send_rnr_err", "rcvd_rnr_err", "sent_error_nak",
	"rcvd_error_nak", "implied_nak_seq_err", "retry_exceeded_err", "retry_rnr_exceeded_err",
	"local_ack_timeout_err", "tail_probe",
	"retransmitted_pkts", "lost_pkts", "stale_ack", "unexpected_packet", "wrong_source",
	"bad_pkey", "bad_qkey",
	"dropped_no_recv", "dropped_message", "dropped_state", "bad_response",
	"np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled", "atomic_replay",
	"atomic_forgotten", "rdma_recvs", "rdma_sends",
}

// CounterNames returns the names of a queue pair's counts, in their order.
func CounterNames() []string { return counterNames[:] }

// Counters are the counts of one machine; its caller's lock guards them.
type Counters [NumCounters]uint64
