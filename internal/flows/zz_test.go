package flows

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"testing"

	"verbena/internal/monotime"
)

func TestZZ(t *testing.T) {
	var s Scenario
	if err := json.Unmarshal([]byte(os.Getenv("ZZ")), &s); err != nil {
		t.Fatal(err)
	}
	n := max(s.Flows, 1)
	trips := int(s.Warm)
	s.Warm = 0
	s.Fill()
	w := NewWorld(1)
	there, back := s.link(), s.link()
	fmt.Println(s.MarkAt)
	for i := range n {
		from, to := netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), netip.AddrFrom4([4]byte{10, 2, 0, byte(i)})
		w.Net.Route(from, to, there)
		w.Net.Route(to, from, back)
		k := s.Kind
		if i > 0 && s.Nap > 0 {
			k = Kind(s.Nap)
		}
		w.Add(Spec{Kind: k, From: from, To: to, MTU: s.MTU, Message: s.Message, Depth: s.Depth, Reads: s.Reads, Congestion: s.Congestion, Start: monotime.Time(i) * monotime.Time(137*monotime.Microsecond)})
	}
	last := make([]int64, n)
	d := 0
	for i := 1; i <= trips; i++ {
		w.Run(s.RTT)
		fmt.Printf("%3d drop %5d", i, there.Count.Dropped+back.Count.Dropped-d)
		d = there.Count.Dropped + back.Count.Dropped
		for k, f := range w.Flows {
			p := f.Path()
			got := f.Received() - last[k]
			last[k] = f.Received()
			if n > 2 {
				fmt.Printf(" | %5d %5d", got>>10, p.WindowBytes>>10)
				continue
			}
			fmt.Printf(" | got %8d win %8d fl %8d rtt %6d rate %6.1f lost %d mk %d", got, p.WindowBytes, p.InFlight, p.RTT/1000, float64(p.PaceRate)/1e6, p.Lost, p.Notified)
		}
		fmt.Println()
	}
}
