// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"net/netip"
	"slices"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
)

// A connection whose peer answers is not given up because of loss: at 5 % each way and 100 ms none
// dies in an hour.
func TestNoFlowDiesOfLoss(t *testing.T) {
	took := monotime.Duration(3600) * monotime.Second
	if testing.Short() {
		took /= 20
	}
	play := func(kind Kind, goBackN bool) {
		s := Scenario{Kind: kind, Rate: 5e5, Buffer: 50_000, RTT: 100 * monotime.Millisecond,
			MTU: ib.MTU1024, Message: 8 << 10, Depth: 16, Loss: 50_000, GoBackN: goBackN,
			Measured: took}
		r := Run(s)
		t.Logf("%v, goes back N %v: %.3g KB/s, %d lost, %d time-outs", &s, goBackN,
			r.Goodput/1e3, r.Lost(), r.Timeouts)
		if r.Dead > 0 || r.Goodput < 5e3 {
			t.Errorf("%v, goes back N %v: %.3g KB/s, %d dead: %s", &s, goBackN, r.Goodput/1e3,
				r.Dead, r.Why)
		}
	}
	for _, kind := range []Kind{Write, Read, Send, TRP} {
		play(kind, false)
		if kind != TRP {
			play(kind, true)
		}
	}
}

// latencies plays messages of 64 bytes, each posted when the one before has completed, and returns
// how long they took, in ascending order.
func latencies(s *Scenario, n int) (took []monotime.Duration) {
	s.Fill()
	w := NewWorld(s.Seed)
	from, to := netip.MustParseAddr("10.1.0.0"), netip.MustParseAddr("10.2.0.0")
	w.Net.Route(from, to, s.link())
	w.Net.Route(to, from, s.link())
	f := w.Add(Spec{Kind: s.Kind, From: from, To: to, MTU: s.MTU, Message: s.Message, Depth: 1,
		Reads: 1})
	for last := monotime.Time(0); len(took) < n; {
		done := f.Carried()
		for f.Carried() == done && w.Net.Step(w.Net.Now().Add(10*monotime.Second)) {
		}
		if f.Carried() == done {
			return nil
		}
		took = append(took, w.Net.Now().Sub(last))
		last = w.Net.Now()
	}
	slices.Sort(took)
	return took
}

// On a path of 1 ms that loses 1 % each way 99 of 100 messages take at most three round trips.
func TestLatencyWithLoss(t *testing.T) {
	notShort(t)
	for _, kind := range []Kind{Send, Write, Read, TRP} {
		s := Scenario{Kind: kind, Rate: 1e9, RTT: monotime.Millisecond, Loss: 10_000, Message: 64}
		n := 20_000
		took := latencies(&s, n)
		if took == nil {
			t.Fatalf("%v: ended early", &s)
		}
		p99 := took[n*99/100]
		t.Logf("%v: median %v, p99 %v, longest %v", &s, took[n/2], p99, took[n-1])
		if p99 > 3*s.RTT {
			t.Errorf("%v: p99 is %v, %.2f round trips", &s, p99, p99.Seconds()/s.RTT.Seconds())
		}
	}
}
