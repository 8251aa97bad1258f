// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"testing"

	"verbena/internal/monotime"
)

// A path whose round trip is longer than the first time-out is learnt, without loss and from the
// first packet. Late packets are not taken for lost for ever.
func TestLongPathWithoutLoss(t *testing.T) {
	const least = 0.8 // of the rate with 256 KiB per round trip, which is less than any window there is
	for _, kind := range []Kind{Write, Read, Send, TRP} {
		for _, rtt := range []monotime.Duration{20, 25, 60, 250, 600} {
			if testing.Short() && rtt != 60 {
				t.Logf("%v over %d ms is left out: run without -short", kind, rtt)
				continue
			}
			s := Scenario{Kind: kind, Rate: 1e8, Buffer: 1 << 28, RTT: rtt * monotime.Millisecond, Warm: 20 * rtt * monotime.Millisecond}
			s.Measured = 10 * s.RTT
			r := Run(s)
			want := least * min((256<<10)/s.RTT.Seconds(), float64(s.Rate)/8*1024/1100)
			t.Logf("%v: %.3g MB/s, %d repeated, %d time-outs", &s, r.Goodput/1e6, r.Repeated, r.Timeouts)
			if r.Goodput < want {
				t.Errorf("%v: %.3g MB/s, want %.3g", &s, r.Goodput/1e6, want/1e6)
			}
			if r.Lost() > 0 || r.Dead > 0 {
				t.Errorf("%v: %d packets lost, %d dead: %s", &s, r.Lost(), r.Dead, r.Why)
			}
		}
	}
}
