// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
)

// mostStart bounds the round trips that a test waits for a flow to fill its path.
const mostStart = 100

func startTable() goldenTable {
	g := goldenTable{name: "start", head: `How long a flow takes to fill a path without loss: a buffer of 1 MB with tail drop. Hosts
answer up to the jitter late. Columns: the first round trip that brings 90 % of the link's
payload rate, packets dropped until the round trip 100, or 20 at 10 Gb/s from 50 ms on.
Written by: go test ./internal/flows -run TestTables/start -update

kind        rate  MTU      RTT   jitter   trips  dropped`}
	for _, s := range startPaths() {
		g.rows = append(g.rows, goldenRow{key: startKey(&s), quick: startsSoon(&s),
			play: func() string { return start(s) }})
	}
	return g
}

func startPaths() (list []Scenario) {
	for _, kind := range []Kind{Write, Read, Send, TRP} {
		for _, gbits := range []int64{1, 10} {
			for _, rtt := range []monotime.Duration{ms, 10 * ms, 50 * ms, 100 * ms, 200 * ms} {
				list = append(list,
					Scenario{Kind: kind, MTU: ib.MTU4096, Rate: gbits * 1e9, RTT: rtt})
			}
		}
	}
	for _, kind := range []Kind{Write, Read, Send, TRP} {
		for _, rtt := range []monotime.Duration{10 * ms, 100 * ms} {
			list = append(list, Scenario{Kind: kind, MTU: ib.MTU1024, Rate: 1e9, RTT: rtt})
		}
	}
	// The first packets say little where a host sleeps now and then.
	for _, kind := range []Kind{Write, Read, Send, TRP} {
		for _, rtt := range []monotime.Duration{10 * ms, 50 * ms} {
			list = append(list, Scenario{Kind: kind, MTU: ib.MTU4096, Rate: 1e9, RTT: rtt,
				Jitter: 7 * ms / 10})
		}
	}
	return list
}

func startKey(s *Scenario) string {
	return fmt.Sprintf("%-5v %5d Gb/s %4d %8v %8v", s.Kind, s.Rate/1e9, s.MTU.Bytes(), s.RTT, s.Jitter)
}

// startsSoon reports whether a path holds little more than the buffer of 1 MB does.
func startsSoon(s *Scenario) bool {
	return s.Jitter == 0 && float64(s.Rate)/8*s.RTT.Seconds() < 1.3e6
}

// start plays the first round trips of a flow.
func start(s Scenario) string {
	s.Fill()
	trips, dropped := startTrips(&s)
	if most := startLimit(&s); trips > most {
		return fmt.Sprintf("   >%3d %8d", most, dropped)
	}
	return fmt.Sprintf("%7d %8d", trips, dropped)
}

// startLimit returns how many round trips are played. At 10 Gb/s and 50 ms one has 15,000 packets.
func startLimit(s *Scenario) int {
	if s.Rate == 10e9 && s.RTT >= 50*ms {
		return 20
	}
	return mostStart
}

func startTrips(s *Scenario) (trips, dropped int) {
	w := NewWorld(s.Seed)
	from, to := netip.AddrFrom4([4]byte{10, 1}), netip.AddrFrom4([4]byte{10, 2})
	there, back := s.link(), s.link()
	w.Net.Route(from, to, there)
	w.Net.Route(to, from, back)
	f := w.Add(Spec{Kind: s.Kind, From: from, To: to, MTU: s.MTU, Message: s.Message,
		Depth: s.Depth, Reads: s.Reads})
	full := 0.9 * float64(s.Rate) / 8 * s.RTT.Seconds() * float64(s.MTU.Bytes()) /
		float64(s.MTU.Bytes()+rcHeaders)
	most := startLimit(s)
	trips = most + 1
	for i := 1; i <= most; i++ {
		before := f.Received()
		w.Run(s.RTT)
		if float64(f.Received()-before) >= full && trips > i {
			trips = i
		}
	}
	return trips, there.Count.Dropped + back.Count.Dropped
}

// A flow fills a path that holds little more than the buffer does within ten round trips. The file
// has longer ones, too.
func TestSlowStart(t *testing.T) {
	const most = 10
	text, err := os.ReadFile("testdata/start.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range startPaths() {
		if !startsSoon(&s) {
			continue
		}
		_, after, found := strings.Cut(string(text), "\n"+startKey(&s))
		var trips int
		if _, err := fmt.Sscan(after, &trips); !found || err != nil {
			t.Fatalf("%s: %v", startKey(&s), err)
		}
		if trips > most {
			t.Errorf("%s: %d round trips", startKey(&s), trips)
		}
	}
}
