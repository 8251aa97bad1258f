// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"fmt"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
)

// BenchmarkTRPWrite streams WRITEs of 64 KiB between two engines of one process, with and without
// loss. One of the engines polls.
func BenchmarkTRPWrite(b *testing.B) {
	const n = 64 << 10
	for _, faults := range []string{"", "delay=50us", "delay=50us,loss=1%"} {
		b.Run(fmt.Sprintf("faults %q", faults), func(b *testing.B) {
			x, y := trpPair(b, 250*monotime.Microsecond, n, loopback4, faults)
			b.SetBytes(n)
			var wc [16]ib.WC
			posted, done := 0, 0
			for b.Loop() {
				for posted-done >= 32 {
					k := x.CQ.Poll(wc[:])
					if k == 0 {
						x.Node.Eng.FirstLane().Poll()
					}
					for _, c := range wc[:k] {
						if c.Status != ib.WCSuccess {
							b.Fatal(c.Err())
						}
					}
					done += k
				}
				x.Write(y.endpoint, n)
				posted++
			}
			b.ReportMetric(float64(x.Node.Counter("trp_retransmitted"))/float64(b.N), "again/op")
			b.ReportMetric(float64(x.Node.Counter("trp_timeouts")), "timeouts")
		})
	}
}
