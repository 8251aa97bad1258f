// SPDX-License-Identifier: BSD-2-Clause

package channel

// Counter names something that is counted.
type Counter uint8

// Counters.
const (
	LinkUps       Counter = iota
	PeerRestarted         // the peer's session changed
	PeerSilent            // its heartbeat stood still
	SlowHello             // the hello took too long
	BadHello              // a phase that cannot be
	NoVersion             // no version in common
	Resets                // asked for by our side
	BackendLost           // Detach
	NumCounters
)

var counterNames = [NumCounters]string{
	"link_ups", "peer_restarted", "peer_silent", "slow_hello", "bad_hello", "no_version",
	"link_resets", "backend_lost",
}

func (c Counter) String() string {
	if c < NumCounters {
		return counterNames[c]
	}
	return "unknown"
}
