// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"strconv"
	"strings"
)

// parseSample reads a comment that a sender of Verbena has put on a packet: name=value, separated
// by spaces.
func parseSample(comment string) (s Sample, ok bool) {
	for _, field := range strings.Fields(comment) {
		name, value, found := strings.Cut(field, "=")
		if !found {
			continue
		}
		to := map[string]*uint64{"rtt_ns": &s.RTT, "min_rtt_ns": &s.MinRTT,
			"window_bytes": &s.Window, "pace_bytes_per_second": &s.Pace,
			"in_flight_bytes": &s.InFlight, "lost_packets": &s.Lost,
			"retransmitted_packets": &s.Repeated, "ecn_marked_packets": &s.Marked,
			"congestion_notifications": &s.Notices}[name]
		if to == nil {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 53) // a page has no larger whole numbers
		if err != nil {
			continue
		}
		*to, ok = n, true
	}
	return s, ok
}

// numberOf returns the queue pair that a comment names, or 0.
func numberOf(comment string) uint32 {
	for _, field := range strings.Fields(comment) {
		if text, ok := strings.CutPrefix(field, "qpn="); ok {
			n, _ := strconv.ParseUint(text, 0, 24)
			return uint32(n)
		}
	}
	return 0
}
