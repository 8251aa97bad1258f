// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/monotime"
	"verbena/internal/simnet"
	wiretrp "verbena/internal/wire/trp"
)

// goldenTable is a file of testdata with a line for each row.
type goldenTable struct {
	name string // testdata/NAME.txt
	head string
	rows []goldenRow
}

// goldenRow is a run, and whether every test plays it, not only -update.
type goldenRow struct {
	key   string
	quick bool
	play  func() string
}

const ms = monotime.Millisecond

// TestTables compares some rows of each table with testdata: a change of them is one to look at.
func TestTables(t *testing.T) {
	for _, table := range []goldenTable{fairnessTable(), incastTable(), changeTable(),
		besideTable(), startTable(), longerTable(), standingTable(), drainedTable(),
		bufferTable()} {
		t.Run(table.name, func(t *testing.T) { table.test(t) })
	}
}

func (g *goldenTable) test(t *testing.T) {
	file := "testdata/" + g.name + ".txt"
	old, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	var todo []goldenRow
	for _, r := range g.rows {
		picked := r.quick && !testing.Short()
		if *update || *only != "" {
			picked = strings.Contains(strings.Join(strings.Fields(r.key), " "), *only)
		}
		if picked {
			todo = append(todo, r)
		}
	}
	lines := make([]string, len(todo))
	var wg sync.WaitGroup
	next := make(chan int)
	for range 2 {
		wg.Go(func() {
			for i := range next {
				lines[i] = todo[i].key + todo[i].play()
			}
		})
	}
	for i := range todo {
		next <- i
	}
	close(next)
	wg.Wait()
	known := strings.Split(string(old), "\n")
	if *update {
		g.write(t, file, known, lines)
		return
	}
	for i, line := range lines {
		at := slices.IndexFunc(known, func(s string) bool { return strings.HasPrefix(s, todo[i].key) })
		switch {
		case at < 0:
			t.Errorf("%s has no row %q: -update plays all rows anew", file, todo[i].key)
		case known[at] != line:
			t.Errorf("%s\n%s\n%s has\n%s\n-update plays all rows anew", todo[i].key, line, file, known[at])
		}
	}
}

// write writes the lines of the rows that were played, and those that are known of all others.
func (g *goldenTable) write(t *testing.T, file string, known, lines []string) {
	text := g.head + "\n"
	for _, r := range g.rows {
		has := func(s string) bool { return strings.HasPrefix(s, r.key) }
		if i := slices.IndexFunc(lines, has); i >= 0 {
			text += lines[i] + "\n"
		} else if i := slices.IndexFunc(known, has); i >= 0 {
			text += known[i] + "\n"
		}
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// ecnModes are without marks, with marks, and with marks and DCQCN.
var ecnModes = []string{"-", "yes", "DCQCN"}

// rcHeaders are the headers of a packet of RC on the line: BTH, ICRC, and simnet's own.
const rcHeaders = 12 + 4 + simnet.FrameBytes

func fairnessTable() goldenTable {
	g := goldenTable{name: "fairness", head: `Flows that share a link with a buffer of 100 KB, 64 KiB messages. ECN: the link marks from 30 KB on.
DCQCN: it marks, and the senders have that algorithm. Columns: packets dropped in the first half of
a second; then from 0.5 to 1 s, and from 1.5 to 2 s, the part of the link's payload rate that is
used, packets dropped, the mean queue in ms, Jain's index.
Written by: go test ./internal/flows -run TestTables/fairness -update

kind      rate  MTU    RTT  flows  ECN    start     used dropped    queue   Jain     used dropped    queue   Jain`}
	for _, path := range []struct {
		rate int64
		mtu  ib.MTU
	}{{1e9, ib.MTU1024}, {1e9, ib.MTU4096}, {1e10, ib.MTU4096}} {
		for _, kind := range []Kind{Write, Read, Send, TRP} {
			for _, rtt := range []monotime.Duration{ms / 10, ms, 10 * ms} {
				for _, n := range []int{1, 2, 8} {
					for _, ecn := range ecnModes {
						usual := path.mtu == ib.MTU1024
						if kind == TRP && ecn != "-" || kind == Send && (n < 8 || !usual) ||
							!usual && rtt != ms {
							continue
						}
						s := Scenario{Kind: kind, Flows: n, MTU: path.mtu, Rate: path.rate, RTT: rtt,
							Buffer: 100_000}
						if ecn != "-" {
							s.MarkAt = 30_000
						}
						if ecn == "DCQCN" {
							s.Congestion = congestion.DCQCN
						}
						g.rows = append(g.rows, goldenRow{
							key: fmt.Sprintf("%-5v %3d Gb/s %4d %6v %6d  %-5s", kind, path.rate/1e9,
								path.mtu.Bytes(), rtt, n, ecn),
							quick: usual && n == 8 && (rtt == ms || rtt < ms && ecn == "-"),
							play:  func() string { return fairness(s) },
						})
					}
				}
			}
		}
	}
	return g
}

func fairness(s Scenario) string {
	w, data := s.world()
	const half = monotime.Second / 2
	headers := float64(rcHeaders)
	if s.Kind == TRP {
		headers = wiretrp.HeaderBytes + simnet.FrameBytes
	}
	measure := func() string {
		before, count := make([]int64, s.Flows), data.Count
		for i, f := range w.Flows {
			before[i] = f.Carried()
		}
		w.Run(half)
		var each []float64
		sum := 0.0
		for i, f := range w.Flows {
			each = append(each, float64(f.Carried()-before[i])/half.Seconds())
			sum += each[i]
		}
		payload := float64(s.MTU.Bytes())
		link := float64(s.Rate) / 8 * payload / (payload + headers)
		passed, dropped := data.Count.Passed-count.Passed, data.Count.Dropped-count.Dropped
		return fmt.Sprintf(" %7.1f%% %6.2f%% %8.3f %6.3f", sum/link*100,
			100*float64(dropped)/float64(passed+dropped),
			1e3*(data.Count.Queued-count.Queued).Seconds()/float64(passed), Jain(each))
	}
	w.Run(half)
	line := fmt.Sprintf(" %6d", data.Count.Dropped)
	line += measure()
	w.Run(half)
	return line + measure()
}

func incastTable() goldenTable {
	g := goldenTable{name: "incast", head: `Incast: hosts at one switch send 256 KiB each to one host at the same moment; it READs them, or they
WRITE or SEND. Links of 10 Gb/s and 2 us, path MTU 4096. ECN: the switch marks from 100 KB, all
from 400 KB on. DCQCN: it marks, and the senders have that algorithm. Columns: when the first, the
middle and the last flow ends, the last as a multiple of the ideal, packets dropped and repeated,
time-outs.
Written by: go test ./internal/flows -run TestTables/incast -update

kind   hosts   buffer  ECN     first ms  median ms   last ms   ideal  dropped  repeated  time-outs`}
	for _, kind := range []Kind{Write, Read, Send} {
		for _, n := range []int{8, 64, 256} {
			for _, buffer := range []int{500_000, 4_000_000} {
				for _, ecn := range ecnModes {
					link := simnet.Link{Rate: 1e10, Delay: 2 * monotime.Microsecond, Buffer: buffer}
					spec := Spec{Kind: kind}
					if ecn != "-" {
						link.Mark = simnet.Marking{From: 100_000, To: 400_000, Most: 100_000}
					}
					if ecn == "DCQCN" {
						spec.Congestion = congestion.DCQCN
					}
					g.rows = append(g.rows, goldenRow{
						key:   fmt.Sprintf("%-5v %6d %5d KB  %-5s", kind, n, buffer/1000, ecn),
						quick: kind == Write && n == 64,
						play:  func() string { return incast(spec, n, link) },
					})
				}
			}
		}
	}
	return g
}

func incast(spec Spec, n int, link simnet.Link) string {
	const bytes = 256 << 10
	w := NewWorld(1)
	s := w.Net.Switch("switch")
	host := func(i int) netip.Addr {
		a := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		there, back := link, link
		w.Net.Connect(w.Net.Host("", a), s, &there, &back)
		return a
	}
	to := host(0)
	for i := range n {
		spec.From, spec.To, spec.Bytes, spec.MTU = host(i+1), to, bytes, ib.MTU4096
		if spec.Kind == Read {
			spec.From, spec.To = spec.To, spec.From
		}
		spec.Message, spec.Depth, spec.Reads = 64<<10, 128, 16
		spec.Fit()
		w.Add(spec)
	}
	for !w.Done() && w.Net.Now() < monotime.Time(60*monotime.Second) {
		w.Run(ms)
	}
	var ends []monotime.Time
	var c Counts
	dropped := 0
	for _, f := range w.Flows {
		ends = append(ends, f.Ended)
		f.count(&c)
		dropped += f.Drops
	}
	slices.Sort(ends)
	if ends[n-1] == monotime.Never {
		return " does not end"
	}
	packets := float64(bytes) / 4096
	ideal := float64(n) * packets * (4096 + rcHeaders) * 8 / float64(link.Rate)
	in := func(t monotime.Time) float64 { return 1e3 * monotime.Duration(t).Seconds() }
	return fmt.Sprintf(" %10.3f %10.3f %9.3f %7.2f %8d %9d %10d", in(ends[0]), in(ends[n/2]),
		in(ends[n-1]), in(ends[n-1])/1e3/ideal, dropped, c.Repeated, c.Timeouts)
}

func changeTable() goldenTable {
	g := goldenTable{name: "change", head: `A path whose rate falls by ten, and rises again after 40 round trips or 300 ms, the longer. A
buffer of 1 MB, path MTU 1024. Columns: the part of the payload rate that is used, in the first
ten round trips after the change, and in the next ten; packets dropped from the fall to the rise.
Written by: go test ./internal/flows -run TestTables/change -update

kind         rate      RTT   fall 1-10  fall 11-20   rise 1-10  rise 11-20   dropped`}
	for _, kind := range []Kind{Write, Read, Send, TRP} {
		for _, rate := range []int64{1e9, 1e10} {
			for _, rtt := range []monotime.Duration{ms, 10 * ms, 50 * ms} {
				if rate == 1e10 && (rtt == 50*ms || kind == Send || kind == TRP) {
					continue // millions of packets
				}
				s := Scenario{Kind: kind, Rate: rate, RTT: rtt, MTU: ib.MTU1024}
				g.rows = append(g.rows, goldenRow{
					key:   fmt.Sprintf("%-5v %6d Gb/s %8v", kind, rate/1e9, rtt),
					quick: rate == 1e9 && rtt == 10*ms,
					play:  func() string { return changing(s) },
				})
			}
		}
	}
	return g
}

func changing(s Scenario) string {
	s.Fill()
	w := NewWorld(1)
	there, back := s.link(), s.link()
	a, b := netip.AddrFrom4([4]byte{10, 1}), netip.AddrFrom4([4]byte{10, 2})
	w.Net.Route(a, b, there)
	w.Net.Route(b, a, back)
	f := w.Add(Spec{Kind: s.Kind, From: a, To: b, MTU: s.MTU, Message: s.Message, Depth: s.Depth,
		Reads: s.Reads})
	used := func(rate int64) string {
		before := f.Received()
		w.Run(10 * s.RTT)
		full := float64(rate) / 8 * 1024 / (1024 + rcHeaders) * (10 * s.RTT).Seconds()
		return fmt.Sprintf(" %10.1f%%", float64(f.Received()-before)/full*100)
	}
	set := func(rate int64) {
		there.Set(rate, there.Delay)
		back.Set(rate, back.Delay)
	}
	w.Run(max(30*s.RTT, 300*ms))
	dropped := -f.Drops
	set(s.Rate / 10)
	line := used(s.Rate/10) + used(s.Rate/10)
	w.Run(max(20*s.RTT, 300*ms))
	dropped += f.Drops
	set(s.Rate)
	return line + used(s.Rate) + used(s.Rate) + fmt.Sprintf(" %9d", dropped)
}

func besideTable() goldenTable {
	g := goldenTable{name: "beside", head: `A flow beside one of TCP, modelled as RFC 9438 (CUBIC) and the BBR draft have it, on a link of
1 Gb/s with tail drop, path MTU 1024. TCP starts half a second later. After two seconds, for two.
Columns: the part of the link that each has alone, and that each has beside the other.
Written by: go test ./internal/flows -run TestTables/beside -update

kind   beside   RTT   buffer     alone  TCP alone    beside  TCP beside`}
	for _, kind := range []Kind{Write, Read, Send, TRP} {
		for _, tcp := range []Kind{Cubic, BBR} {
			for _, rtt := range []monotime.Duration{ms, 10 * ms} {
				for _, buffer := range []int{100_000, 1_000_000} {
					s := Scenario{Rate: 1e9, RTT: rtt, Buffer: buffer, MTU: ib.MTU1024}
					g.rows = append(g.rows, goldenRow{
						key:   fmt.Sprintf("%-5v  %-5v  %4v %5d KB", kind, tcp, rtt, buffer/1000),
						quick: kind == Write && rtt == ms && buffer == 100_000,
						play:  func() string { return beside(s, kind, tcp) },
					})
				}
			}
		}
	}
	return g
}

func beside(s Scenario, kind, tcp Kind) string {
	const time = 2 * monotime.Second
	ours, theirs := shares(s, time, kind), shares(s, time, tcp)
	both := shares(s, time, kind, tcp)
	return fmt.Sprintf(" %8.1f%% %9.1f%% %8.1f%% %10.1f%%", ours[0], theirs[0], both[0], both[1])
}

// shares returns the parts of the link's payload rate that flows between pairs of hosts have in two
// seconds, from a time on.
func shares(s Scenario, from monotime.Duration, kinds ...Kind) (percent []float64) {
	s.Fill()
	w := NewWorld(1)
	there, back := s.link(), s.link()
	for i, kind := range kinds {
		a := netip.AddrFrom4([4]byte{10, 1, 0, byte(i)})
		b := netip.AddrFrom4([4]byte{10, 2, 0, byte(i)})
		spec := Spec{Kind: kind, From: a, To: b, MTU: s.MTU, Message: s.Message, Depth: s.Depth,
			Reads: s.Reads, Start: monotime.Time(i) * monotime.Time(monotime.Second/2)}
		w.Net.Route(a, b, there)
		w.Net.Route(b, a, back)
		if kind == Read { // its data goes the way of the others'
			spec.From, spec.To = b, a
		}
		w.Add(spec)
	}
	w.Run(from)
	var before []int64
	for _, f := range w.Flows {
		before = append(before, f.Carried())
	}
	w.Run(2 * monotime.Second)
	link := float64(s.Rate) / 8 * 1024 / (1024 + rcHeaders) * 2
	for i, f := range w.Flows {
		percent = append(percent, 100*float64(f.Carried()-before[i])/link)
	}
	return percent
}
