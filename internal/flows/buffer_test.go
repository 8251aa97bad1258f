// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"fmt"

	"verbena/ib"
	"verbena/internal/monotime"
)

// bufferTable has paths of up to 200 ms without loss, and a buffer that holds more than goodput's.
func bufferTable() goldenTable {
	g := goldenTable{name: "buffer", head: `One flow without loss, by the buffer: 1 and 4 MB with tail drop. Four products of bandwidth and
delay are posted, and at least 128 messages; 128 READs may be outstanding. TRP has segments of the
path MTU. After 30 round trips and 0.2 s, for 20 and 0.3 s, the longer. Columns: the part of the
link's payload rate that is used, and packets dropped in all the time.
Written by: go test ./internal/flows -run TestTables/buffer -update

kind      rate path MTU  message       RTT     1 MB  dropped     4 MB  dropped`}
	for _, kind := range []Kind{Write, Read, Send, TRP} {
		for _, size := range []struct {
			gbits   int64
			mtu     ib.MTU
			message int
			trips   []monotime.Duration
		}{
			{1, ib.MTU1024, 64 << 10, []monotime.Duration{200 * ms}},
			{1, ib.MTU4096, 64 << 10, []monotime.Duration{ms, 10 * ms, 100 * ms, 200 * ms}},
			{1, ib.MTU4096, 1 << 20, []monotime.Duration{ms, 10 * ms, 100 * ms, 200 * ms}},
			{10, ib.MTU4096, 1 << 20, []monotime.Duration{100 * ms, 200 * ms}},
		} {
			for _, rtt := range size.trips {
				message := fmt.Sprintf("%d KiB", size.message>>10)
				if kind == TRP {
					message = "-"
				}
				if kind == TRP && size.message > 64<<10 && size.gbits == 1 {
					continue
				}
				s := Scenario{Kind: kind, MTU: size.mtu, Rate: size.gbits * 1e9, RTT: rtt,
					Message: size.message}
				g.rows = append(g.rows, goldenRow{
					key: fmt.Sprintf("%-5v %2d Gb/s %8d %8s %9v", kind, size.gbits,
						size.mtu.Bytes(), message, rtt),
					quick: rtt == ms && size.message == 64<<10 && (kind == Write || kind == TRP),
					play: func() string {
						s.Buffer = 1_000_000
						one := roomy(s)
						s.Buffer = 4_000_000
						return one + roomy(s)
					},
				})
			}
		}
	}
	return g
}

func roomy(s Scenario) string {
	r := Run(s)
	if r.Dead > 0 {
		return "  dead " + r.Why
	}
	payload := float64(s.MTU.Bytes())
	link := float64(s.Rate) / 8 * payload / (payload + rcHeaders)
	return fmt.Sprintf(" %7.1f%% %8d", r.Goodput/link*100, r.Data.Dropped)
}
