// SPDX-License-Identifier: BSD-2-Clause

package iwcm

// Counter names something that is counted.
type Counter uint8

// Counters. Those that are not named here are one for each Fault, behind them.
const (
	Dialed Counter = iota // streams asked for
	// of them, for peers that refused the stream, or knew MPA revision 1 only
	Redialed
	Taken        // streams that came to a listener
	Requests     // that came with them
	HeldBack     // of them, because the backlog was full
	Rejected     // by our application
	RejectedBy   // by a peer's
	Connections  // that were established
	faultCounter // + Fault
	numCounters  = faultCounter + Counter(numFaults)
)

var counterNames = [...]string{
	"dialed", "redialed", "taken", "requests", "held_back", "rejected", "rejected_by_peer",
	"established",
}

func (n Counter) String() string {
	if n >= faultCounter {
		return "fault_" + Fault(n-faultCounter).String()
	}
	return counterNames[n]
}

// Counters are the counts of a process's connections, indexed by Counter.
type Counters [numCounters]uint64

// Fault returns how many connections ended with a fault.
func (n *Counters) Fault(f Fault) uint64 { return n[faultCounter+Counter(f)] }
