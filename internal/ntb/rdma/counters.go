package rdma

// Counter names something that is counted.
type Counter uint8

// Counters of a node.
const (
	SentMessages Counter = iota
	RcvdMessages
	SentPieces
	RcvdPieces
	SentBytes // through the arena
	SentInline
	SentPlaced // straight into the peer's regions
	RcvdReads
	SentRNR
	RcvdRNR
	NotReady     // tries that found the peer's queue pair not ready
	Refused      // requests that the owner's checks refused
	BadIndex     // a ring index that cannot be: the link is reset
	BadCommand   // a command that cannot be
	BadWQE       // a WQE that cannot be
	BadCQE       // a CQE that cannot be
	CommandFails // commands of ours that the peer refused
	NoRoom       // an RQP or ring for which the window has no room
	NumCounters
)

var counterNames = [NumCounters]string{
	"rdma_sends", "rdma_recvs", "sent_pieces", "rcvd_pieces", "sent_arena_bytes", "sent_inline_bytes", "sent_placed_bytes", "rcvd_reads",
	"sent_rnr", "rcvd_rnr", "not_ready", "refused", "bad_index", "bad_command", "bad_wqe", "bad_cqe", "command_fails", "no_room",
}

func (c Counter) String() string {
	if c < NumCounters {
		return counterNames[c]
	}
	return "unknown"
}
