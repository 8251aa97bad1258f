package flows

import (
	"fmt"
	"testing"

	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/monotime"
)

func TestZY(t *testing.T) {
	for _, k := range []Kind{Write, Read} {
		for _, nap := range []monotime.Duration{ms / 3, ms, 5 * ms} {
			s := Scenario{Kind: k, Rate: 1e8, MTU: ib.MTU1024, RTT: ms / 10, Nap: nap, Loss: 50_000, Measured: 2 * monotime.Second}
			r := Run(s)
			fmt.Printf(" nap%v:%.1f", k, r.Goodput/1e6)
		}
	}
	fmt.Println(" (10.42)")
	for _, k := range []Kind{Write, Read} {
		for _, n := range []int{1, 8} {
			s := markedScenario(k, n, 10000, congestion.DeliveryRate)
			s.Warm = 1500 * ms
			r := Run(s)
			fmt.Printf(" mark%v%d:%.3f/%.3f/%.3f", k, n, r.Goodput/linkMTU1024, dropped(&r)*100, Jain(r.Each))
		}
	}
	for _, k := range []Kind{Write} {
		for _, us := range []monotime.Duration{100, 1000} {
			s := markedScenario(k, 8, us, congestion.DeliveryRate)
			s.Warm, s.Measured = 500*ms, 500*ms
			r := Run(s)
			s.MarkAt = 0
			p := Run(s)
			fmt.Printf(" mark%v8@%d:%.3f/%.3f/%.3f plain %.3f/%.3f/%.3f", k, us, r.Goodput/linkMTU1024, dropped(&r)*100, Jain(r.Each), p.Goodput/linkMTU1024, dropped(&p)*100, Jain(p.Each))
		}
	}
	fmt.Println()
	for _, k := range []Kind{Write, Read} {
		for _, m := range []ib.MTU{ib.MTU1024, ib.MTU4096} {
			s := Scenario{Kind: k, Rate: 1e9, MTU: m, RTT: ms, Jitter: ms / 4, Loss: 10_000, GoBackN: true, Measured: monotime.Second}
			r := Run(s)
			s.Seed = 2
			q := Run(s)
			fmt.Printf(" gbn%v%d:%.3f,%.3f", k, m.Bytes(), r.Goodput*8/1e9, q.Goodput*8/1e9)
		}
	}
	for _, k := range []Kind{Write, Read} {
		s := Scenario{Kind: k, MTU: ib.MTU4096, Rate: 1e9, RTT: 50 * ms}
		fmt.Print(" start50 ", start(s))
		s.Rate, s.RTT = 1e10, ms
		fmt.Print(" start10G ", start(s))
	}
	fmt.Println()
}
