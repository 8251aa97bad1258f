// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"strings"
	"testing"

	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/monotime"
	"verbena/internal/simnet"
)

// markedScenario has flows through a switch with a buffer of 100 KB, which marks packets from 30 KB
// on. The flows have time to settle.
func markedScenario(kind Kind, flows int, us monotime.Duration, a congestion.Algorithm) Scenario {
	s := Scenario{Kind: kind, Flows: flows, MTU: ib.MTU1024, Rate: 1e9, RTT: us * monotime.Microsecond,
		Buffer: 100_000, MarkAt: 30_000, Congestion: a,
		Warm: monotime.Second, Measured: monotime.Second}
	if us > 1000 {
		s.Warm = 2 * monotime.Second
	}
	return s
}

// linkMTU1024 bounds the payload of 1 Gb/s in packets of 1,024 bytes, in bytes a second.
const linkMTU1024 = 125e6 * 1024 / (1024 + 82)

func dropped(r *Result) float64 {
	return float64(r.Data.Dropped) / float64(r.Data.Passed+r.Data.Dropped)
}

// Flows through a switch that marks packets fill the link. They drop less than without marks, and
// the queue stays short. Drops are those of all the time, and nearly all of slow start.
func TestMarkedFlows(t *testing.T) {
	const shareOfDrops = 0.5 // with marks, of those without, at most
	for _, c := range []struct {
		flows   int
		us      monotime.Duration
		used    float64 // at least
		dropped float64 // at most
		jain    float64 // at least
	}{
		{1, 100, 0.99, 0.001, 1}, {8, 100, 0.99, 0.010, 0.98},
		{2, 1000, 0.99, 0.001, 0.98}, {8, 1000, 0.99, 0.010, 0.98},
		{1, 10_000, 0.92, 0.001, 1}, {8, 10_000, 0.95, 0.003, 0.98},
	} {
		if testing.Short() && (c.us != 1000 || c.flows != 2) {
			t.Logf("%d flows over %d µs are left out: run without -short", c.flows, c.us)
			continue
		}
		for _, kind := range []Kind{Write, Read} {
			s := markedScenario(kind, c.flows, c.us, congestion.DeliveryRate)
			r := Run(s)
			queue := r.Data.Queued / monotime.Duration(r.Data.Passed)
			t.Logf("%d %v: %.3g of the link, %.3g %% dropped, a queue of %v, fairness %.3g", c.flows,
				&s, r.Goodput/linkMTU1024, dropped(&r)*100, queue, Jain(r.Each))
			if r.Goodput < c.used*linkMTU1024 || dropped(&r) > c.dropped ||
				Jain(r.Each) < c.jain-1e-9 || queue > monotime.Millisecond || r.Dead > 0 {
				t.Errorf("%d %v: want %g of the link, %g %% dropped, fairness %g; %d dead", c.flows, &s,
					c.used, c.dropped*100, c.jain, r.Dead)
			}
			if c.flows < 8 || c.us > 1000 || kind == Read {
				continue
			}
			s.MarkAt = 0
			if plain := Run(s); dropped(&r) > shareOfDrops*dropped(&plain) {
				t.Errorf("%d %v: %.3g %% dropped without marks", c.flows, &s, dropped(&plain)*100)
			}
		}
	}
}

// DCQCN fills the link and shares it evenly.
func TestDCQCN(t *testing.T) {
	notShort(t)
	for _, c := range []struct {
		flows int
		us    monotime.Duration
		used  float64 // of the link, at least
	}{
		{1, 100, 0.95}, {8, 100, 0.9}, {2, 1000, 0.9},
	} {
		for _, kind := range []Kind{Write, Read} {
			s := markedScenario(kind, c.flows, c.us, congestion.DCQCN)
			r := Run(s)
			t.Logf("%d %v: %.3g of the link, %.3g %% dropped, fairness %.3g", c.flows, &s,
				r.Goodput/linkMTU1024, dropped(&r)*100, Jain(r.Each))
			if r.Goodput < c.used*linkMTU1024 || Jain(r.Each) < 0.98 || r.Dead > 0 {
				t.Errorf("%d %v: %d dead", c.flows, &s, r.Dead)
			}
		}
	}
}

// A rate that DCQCN has cut far below that of the link is not taken for loss: acknowledgements are
// asked for often enough. Nothing is dropped here.
func TestDCQCNAsksForAcknowledgements(t *testing.T) {
	notShort(t)
	link := simnet.Link{Rate: 1e10, Delay: 2 * monotime.Microsecond, Buffer: 4_000_000,
		Mark: simnet.Marking{From: 100_000, To: 400_000, Most: 100_000}}
	line := incast(Spec{Kind: Write, Congestion: congestion.DCQCN}, 8, link)
	if !strings.HasSuffix(line, " 0") {
		t.Errorf("%s: the last is time-outs, want none", line)
	}
}
