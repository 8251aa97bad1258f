// SPDX-License-Identifier: BSD-2-Clause

package ibcm

// Counter names something an Agent counts.
type Counter uint8

// Counters. Malformed… are MADs that were dropped for their form; Bad… are
// well-formed ones whose fields cannot be; Ignored… came at the wrong time.
const (
	Received Counter = iota
	Sent
	Retried
	DroppedOutputFull // the output queue was full: as if lost on the wire
	MalformedLength
	MalformedClass
	MalformedVersion
	MalformedMethod
	MalformedAttribute
	BadSource     // for a connection, but not from its peer's address
	BadCommID     // the peer's id is not the connection's
	BadQPN        // a queue pair number that cannot be, or not the connection's
	BadGID        // the path in a REQ is not the one it came by
	BadMTU        // no path MTU
	BadTransport  // neither RC nor UC
	BadPKey       // not our partition
	UnknownConn   // names no connection
	IgnoredState  // the state has no use for it
	DuplicateREQ  // answered as the state demands
	DuplicateREP  // likewise
	DuplicateDREQ // likewise
	StaleRejected // REQ or REP of a peer that has forgotten its old connection
	NoListener    // REQ or SIDR_REQ for a service nobody offers
	EarlyREQ      // came between two listeners of its service, and waits
	BacklogFull   // a request had to wait: for the application to answer others
	// a request had to wait: for MaxConns, MaxHalfOpen, or the share of one address
	ConnsFull
	LAPRefused // alternate paths are not supported
	TimedOut   // all retries used up
	PathLost   // connections that ended because their path did
	Probed     // peers asked whether they have a connection, or have sent a request
	Held       // requests whose peers were asked
	Unproven   // requests that their peers denied
	numCounters
)

var counterNames = [numCounters]string{
	"received", "sent", "retried", "dropped_output_full", "malformed_length", "malformed_class",
	"malformed_version", "malformed_method", "malformed_attribute", "bad_source", "bad_comm_id",
	"bad_qpn", "bad_gid", "bad_mtu", "bad_transport", "bad_pkey", "unknown_conn", "ignored_state",
	"duplicate_req", "duplicate_rep", "duplicate_dreq", "stale_rejected", "no_listener",
	"early_req", "backlog_full", "conns_full", "lap_refused", "timed_out", "path_lost", "probed",
	"held", "unproven",
}

func (c Counter) String() string {
	if c < numCounters {
		return counterNames[c]
	}
	return "unknown"
}

// Counters are an Agent's counts, indexed by Counter.
type Counters [numCounters]uint64

// Counters returns the counts so far.
func (a *Agent) Counters() Counters { return a.count }
