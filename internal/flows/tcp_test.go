// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
)

// The models of TCP fill a link without loss. With loss CUBIC falls to the rate that its response
// function has, and BBR does not fall.
//
// Source: RFC 9438, section 5.1: 1.054 segments / p^0.75 * RTT^0.75 in a window; at short round
// trips the estimate of Reno is larger: 1.22 / sqrt(p) (RFC 3649, section 2).
func TestModelsOfTCP(t *testing.T) {
	notShort(t)
	for _, c := range []struct {
		kind        Kind
		rtt         monotime.Duration
		loss        int
		least, most float64 // of the link
	}{
		{Cubic, 10 * ms, 0, 0.9, 1.01},
		{BBR, 10 * ms, 0, 0.9, 1.01},
		{BBR, 10 * ms, 10_000, 0.9, 1.01},
		{Cubic, 10 * ms, 1000, 0.02, 0.06}, // 1.22/sqrt(0.001) = 39 segments of 1122
		{Cubic, 10 * ms, 10_000, 0.006, 0.02},
	} {
		s := Scenario{Kind: c.kind, Rate: 1e9, RTT: c.rtt, Loss: c.loss, MTU: ib.MTU1024,
			Buffer: 1_250_000, Warm: 2 * monotime.Second, Measured: 2 * monotime.Second}
		r := Run(s)
		share := r.Goodput / (125e6 * 1024 / (1024 + tcpHeaderBytes + 66))
		t.Logf("%v: %.3g of the link, %d repeated, %d time-outs", &s, share, r.Repeated, r.Timeouts)
		if share < c.least || share > c.most {
			t.Errorf("%v: %.3g of the link, want %g to %g", &s, share, c.least, c.most)
		}
	}
}

// Two flows of a model share a link, and each flow brings all its bytes through heavy loss.
func TestModelsOfTCPShare(t *testing.T) {
	notShort(t)
	for _, kind := range []Kind{Cubic, BBR} {
		s := Scenario{Kind: kind, Flows: 2, Rate: 1e8, RTT: 10 * ms, Buffer: 125_000, MTU: ib.MTU1024,
			Warm: 5 * monotime.Second, Measured: 20 * monotime.Second}
		r := Run(s)
		t.Logf("%v: %.3g MB/s", &s, r.Each)
		if j := Jain(r.Each); j < 0.9 {
			t.Errorf("%v: Jain's index is %.3g: %.3g", &s, j, r.Each)
		}
		const bytes = 1<<20 + 333
		w, hosts := star(2, 0)
		for _, l := range w.Net.Links() {
			l.Loss = 50_000
		}
		f := w.Add(Spec{Kind: kind, From: hosts[0], To: hosts[1], MTU: ib.MTU1024, Bytes: bytes})
		w.Run(30 * monotime.Second)
		if f.Carried() != bytes || f.Ended == monotime.Never || f.Received() < bytes {
			t.Errorf("%v: %d of %d bytes, %d received", kind, f.Carried(), bytes, f.Received())
		}
	}
}
