// SPDX-License-Identifier: BSD-2-Clause

package congestion

import (
	"fmt"

	"verbena/internal/monotime"
)

// Path holds measurements of a queue pair's path, for people and tools that look. A value of 0 is
// not known, or does not occur.
type Path struct {
	RTT    monotime.Duration `json:"rtt_ns"` // smoothed: RFC 6298
	RTTVar monotime.Duration `json:"rtt_var_ns"`
	MinRTT monotime.Duration `json:"min_rtt_ns"`
	// WindowBytes bounds the bytes that may be outstanding.
	WindowBytes int64 `json:"window_bytes"`
	PaceRate    int64 `json:"pace_bytes_per_second"` // 0: not paced
	// InFlight is sent, and not known to have arrived or to be lost.
	InFlight int64  `json:"in_flight_bytes"`
	Lost     uint64 `json:"lost_packets"` // of those sent, as far as that is known
	Repeated uint64 `json:"retransmitted_packets"`
	Marked   uint64 `json:"ecn_marked_packets"`       // received: "congestion experienced"
	Notified uint64 `json:"congestion_notifications"` // received: CNPs
}

// AppendText appends the values with the names that they have in JSON: name=value, separated by
// spaces.
func (p *Path) AppendText(b []byte) ([]byte, error) {
	return fmt.Appendf(b, "rtt_ns=%d rtt_var_ns=%d min_rtt_ns=%d window_bytes=%d "+
		"pace_bytes_per_second=%d in_flight_bytes=%d lost_packets=%d retransmitted_packets=%d "+
		"ecn_marked_packets=%d congestion_notifications=%d",
		p.RTT, p.RTTVar, p.MinRTT, p.WindowBytes, p.PaceRate, p.InFlight, p.Lost, p.Repeated,
		p.Marked, p.Notified), nil
}

// A Log decides which measurements of a path go into a capture: those that have changed, once a
// round trip and a millisecond at most. The zero value is ready.
type Log struct {
	next monotime.Time
	last Path
}

// leastInterval is the least time between two entries, for short paths.
const leastInterval = monotime.Millisecond

// Due reports whether Add may take a path now.
func (l *Log) Due(now monotime.Time) bool { return !now.Before(l.next) }

// Add reports whether p is to be logged.
func (l *Log) Add(now monotime.Time, p Path) bool {
	if !l.Due(now) || p == l.last {
		return false
	}
	l.next, l.last = now.Add(max(p.RTT, leastInterval)), p
	return true
}

// Path returns the measurements of the path, without counts and the bytes in flight, which the
// window's user adds.
func (w *Window) Path() Path {
	return Path{RTT: w.RTT.Smoothed, RTTVar: w.RTT.Variation, MinRTT: w.RTT.Shortest,
		WindowBytes: int64(w.Bytes()), PaceRate: int64(w.Rate())}
}
