// SPDX-License-Identifier: BSD-2-Clause

package trp

import wire "verbena/internal/wire/trp"

// Counter names something that is counted.
type Counter uint8

// Counters. Bad… are well-formed datagrams whose fields cannot be; Ignored…
// came at the wrong time.
const (
	Received Counter = iota
	Sent
	Retransmitted   // segments sent again
	Timeouts        // the retransmission timer expired
	TailProbes      // the newest segment went again, as nothing reported it
	Lost            // segments found lost by a later segment's arrival
	SetupRepeated   // Request or Accept
	FINRepeated     //
	Duplicate       // a segment that had arrived already; acknowledged again
	OutOfOrder      // a segment that arrived before one sent earlier
	RefusedByUpper  // a segment that HandleSegment did not take
	BeyondWindow    // a segment further ahead than we keep
	BadSource       // not from the association's peer
	BadACK          // acknowledges segments that were not sent
	BadRange        // a SACK of segments that were not sent, or that must be missing
	BadFIN          // its PSN is not in our window
	OldACK          // overtaken by a later one
	IgnoredState    // the state has no use for it
	IgnoredOpcode   // nor has this end, or a listener
	RepeatedRequest // a Request that we have
	BacklogFull     // a Request that had to be dropped: too many wait, or are known
	Probes          // a peer was asked whether it is there: an idle one, or one that may have gone
	PeerRefused     // the network says that nobody has the peer's port
	Challenged      // a client was asked for its Request again, to show that it is there
	// a Request was not answered in time, and nothing has shown that its client exists
	Expired

	numCounters
)

var counterNames = [numCounters]string{
	"received", "sent", "retransmitted", "timeouts", "tail_probes", "lost", "setup_repeated",
	"fin_repeated", "duplicate", "out_of_order", "refused_by_upper", "beyond_window", "bad_source",
	"bad_ack", "bad_range", "bad_fin", "old_ack", "ignored_state", "ignored_opcode",
	"repeated_request",
	"backlog_full", "probes", "peer_refused", "challenged", "expired",
}

// Counters counts the events of a Conn or a Listener.
type Counters struct {
	By        [numCounters]uint64       // by Counter
	Malformed [wire.NumMalformed]uint64 // datagrams by their error of form
}

// CounterNames returns the names of the values that Counters.Append appends.
func CounterNames() []string {
	var names []string
	for _, n := range counterNames {
		names = append(names, "trp_"+n)
	}
	for m := wire.WellFormed + 1; m < wire.NumMalformed; m++ {
		names = append(names, "trp_malformed_"+m.String())
	}
	return names
}

// Add adds the counts of another.
func (c *Counters) Add(o Counters) {
	for i, n := range o.By {
		c.By[i] += n
	}
	for i, n := range o.Malformed {
		c.Malformed[i] += n
	}
}

// Append appends the counts.
func (c *Counters) Append(counts []uint64) []uint64 {
	return append(append(counts, c.By[:]...), c.Malformed[wire.WellFormed+1:]...)
}
