// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"fmt"
	"net/netip"

	"verbena/ib"
	"verbena/internal/monotime"
)

// drainTime is longer than the time after which the shortest round trip is measured anew.
const drainTime = 11 * monotime.Second

func longerTable() goldenTable {
	g := goldenTable{name: "longer", head: `A path that becomes longer for good after a second. A buffer of 1 MB, path MTU 4096, messages for
the longer path. Columns: the part of the payload rate that is used in the nine seconds after the
change, in two more, and in two more; packets dropped since the change.
Written by: go test ./internal/flows -run TestTables/longer -update

kind         rate     from       to   1-9 s  10-11 s  12-13 s  dropped`}
	for _, kind := range []Kind{Write, Read, Send, TRP} {
		for _, rate := range []int64{1e8, 1e9} {
			for _, to := range [][2]monotime.Duration{{ms, 2 * ms}, {10 * ms, 30 * ms}} {
				s := Scenario{Kind: kind, Rate: rate, RTT: to[1], MTU: ib.MTU4096}
				g.rows = append(g.rows, goldenRow{
					key:   fmt.Sprintf("%-5v %5d Mb/s %8v %8v", kind, rate/1e6, to[0], to[1]),
					quick: rate == 1e8 && to[1] == 30*ms && (kind == Write || kind == TRP),
					play:  func() string { return longer(s, to[0]) },
				})
			}
		}
	}
	return g
}

// longer plays a path whose round trip was another for a second.
func longer(s Scenario, before monotime.Duration) string {
	s.Fill()
	w := NewWorld(1)
	there, back := s.link(), s.link()
	there.Delay, back.Delay = before/2, before/2
	a, b := netip.AddrFrom4([4]byte{10, 1}), netip.AddrFrom4([4]byte{10, 2})
	w.Net.Route(a, b, there)
	w.Net.Route(b, a, back)
	f := w.Add(Spec{Kind: s.Kind, From: a, To: b, MTU: s.MTU, Message: s.Message, Depth: s.Depth,
		Reads: s.Reads})
	w.Run(monotime.Second)
	there.Set(s.Rate, s.RTT/2)
	back.Set(s.Rate, s.RTT/2)
	dropped, line := f.Drops, ""
	for _, seconds := range []monotime.Duration{9, 2, 2} {
		before := f.Received()
		w.Run(seconds * monotime.Second)
		line += fmt.Sprintf(" %7.1f%%", float64(f.Received()-before)/s.payload(seconds*monotime.Second)*100)
	}
	return line[1:] + fmt.Sprintf(" %8d", f.Drops-dropped)
}

// payload returns how many bytes of payload the link carries in such a time.
func (s *Scenario) payload(took monotime.Duration) float64 {
	mtu := float64(s.MTU.Bytes())
	return float64(s.Rate) / 8 * mtu / (mtu + rcHeaders) * took.Seconds()
}

func standingTable() goldenTable {
	g := goldenTable{name: "standing", head: `Flows that share a link of 100 Mb/s with a buffer of 1 MB, path MTU 1024, 64 KiB messages. They
start within a second. Columns: packets dropped, the mean queue, Jain's index of fairness, from 2 to
11 s and from 35 to 44 s.
Written by: go test ./internal/flows -run TestTables/standing -update

kind      RTT  flows    dropped   queue ms    Jain    dropped   queue ms    Jain`}
	for _, kind := range []Kind{Write, Read} {
		for _, rtt := range []monotime.Duration{2 * ms, 10 * ms} {
			for _, n := range []int{2, 8, 32} {
				s := Scenario{Kind: kind, Flows: n, MTU: ib.MTU1024, Rate: 1e8, RTT: rtt}
				g.rows = append(g.rows, goldenRow{
					key:   fmt.Sprintf("%-5v %7v %6d", kind, rtt, n),
					quick: kind == Write && n == 2 && rtt == 2*ms,
					play:  func() string { return standing(s) },
				})
			}
		}
	}
	return g
}

// standing plays flows that start at random times, until their queue has been drained three times.
func standing(s Scenario) (line string) {
	s.Fill()
	w := NewWorld(1)
	there, back := s.link(), s.link()
	data := there
	if s.Kind == Read {
		data = back
	}
	for i := range s.Flows {
		a := netip.AddrFrom4([4]byte{10, 1, 0, byte(i)})
		b := netip.AddrFrom4([4]byte{10, 2, 0, byte(i)})
		w.Net.Route(a, b, there)
		w.Net.Route(b, a, back)
		w.Add(Spec{Kind: s.Kind, From: a, To: b, MTU: s.MTU, Message: s.Message, Depth: s.Depth,
			Reads: s.Reads, Start: monotime.Time(w.Net.Rand.Int64N(int64(monotime.Second)))})
	}
	for range 2 {
		w.Run(2 * monotime.Second)
		before := data.Count
		var each []float64
		for _, f := range w.Flows {
			each = append(each, -float64(f.Received()))
		}
		w.Run(9 * monotime.Second)
		for i, f := range w.Flows {
			each[i] += float64(f.Received())
		}
		passed, dropped := data.Count.Passed-before.Passed, data.Count.Dropped-before.Dropped
		queued := data.Count.Queued - before.Queued
		line += fmt.Sprintf("   %7.2f%% %10.3f %7.3f", 100*float64(dropped)/float64(passed+dropped),
			1e3*queued.Seconds()/float64(passed), Jain(each))
		w.Run(2 * drainTime)
	}
	return line
}

func drainedTable() goldenTable {
	g := goldenTable{name: "drained", head: `A flow beside one of TCP, as in beside.txt, on a link of 100 Mb/s. After three drains, for two
seconds. Columns: the part of the link that each has.
Written by: go test ./internal/flows -run TestTables/drained -update

kind   beside   RTT   buffer      ours        TCP`}
	for _, kind := range []Kind{Write, Read} {
		for _, tcp := range []Kind{Cubic, BBR} {
			for _, rtt := range []monotime.Duration{2 * ms, 10 * ms} {
				for _, buffer := range []int{100_000, 1_000_000} {
					s := Scenario{Rate: 1e8, RTT: rtt, Buffer: buffer, MTU: ib.MTU1024}
					g.rows = append(g.rows, goldenRow{
						key:   fmt.Sprintf("%-5v  %-5v  %4v %5d KB", kind, tcp, rtt, buffer/1000),
						quick: kind == Write && tcp == Cubic && rtt == 10*ms && buffer == 1_000_000,
						play: func() string {
							part := shares(s, 3*drainTime+monotime.Second, kind, tcp)
							return fmt.Sprintf(" %8.1f%% %9.1f%%", part[0], part[1])
						},
					})
				}
			}
		}
	}
	return g
}
