// SPDX-License-Identifier: BSD-2-Clause

package rdma

// Counter names something that a queue pair counts.
type Counter uint8

// Counters of a queue pair.
const (
	SentMessages Counter = iota
	RcvdMessages
	SentPieces
	RcvdPieces
	SentBytes  // through the arena
	SentInline // within WQEs
	SentPlaced // straight into the peer's regions
	RcvdReads
	SentRNR
	RcvdRNR
	NotReady // tries that found the peer's queue pair not ready
	Refused  // requests that the owner's checks refused
	BadWQE   // a WQE that cannot be
	BadCQE   // a CQE that cannot be
	NumCounters
)

var counterNames = [NumCounters]string{
	"rdma_sends", "rdma_recvs", "sent_pieces", "rcvd_pieces", "sent_arena_bytes",
	"sent_inline_bytes", "sent_placed_bytes", "rcvd_reads", "sent_rnr", "rcvd_rnr", "not_ready",
	"refused_requests", "bad_wqe", "bad_cqe",
}

// CounterNames returns the names of a queue pair's counts, in their order.
func CounterNames() []string { return counterNames[:] }

// NodeCounter names something that a node counts.
type NodeCounter uint8

// Counters of a node.
const (
	BadIndex     NodeCounter = iota // a ring index that cannot be: the link is reset
	BadCommand                      // a command that cannot be
	CommandFails                    // commands of ours that the peer refused
	CommandLate                     // a command that was not answered: the link is reset
	NoRoom                          // a ring for which a window has no room
	SentMADs
	RcvdMADs
	DroppedMADs // the peer's ring was full, or its receiver had no room
	SentFrames
	RcvdFrames
	DroppedFrames // as DroppedMADs
	NumNodeCounters
)

var nodeCounterNames = [NumNodeCounters]string{"bad_index", "bad_command", "command_fails",
	"command_late", "no_room", "sent_mads", "rcvd_mads", "dropped_mads", "sent_frames",
	"rcvd_frames", "dropped_frames"}

func (c NodeCounter) String() string { return nodeCounterNames[c] }
