// SPDX-License-Identifier: BSD-2-Clause

package view

import (
	"os"
	"slices"
	"testing"
	"time"

	"verbena/internal/congestion"
	"verbena/internal/testkit/talk"
	"verbena/internal/wire/roce"
)

// TestPageShowsThePath: the page draws all that a sender has put into its capture. The file is of
// verbena perf write bw over a link of verbena sim that lost and marked packets.
func TestPageShowsThePath(t *testing.T) {
	capture, err := os.ReadFile("testdata/path.pcapng")
	if err != nil {
		t.Fatal(err)
	}
	tl := read(t, "path.pcapng", capture)
	last := tl.Samples[len(tl.Samples)-1]
	if last.Lost != 4 || last.Repeated != 7 || last.Notices != 2 {
		t.Fatalf("%+v", last)
	}
	b := open(t, tl)
	s := stateOf(b)
	for name, n := range map[string]int{"pace": 1, "round trip": 1, "window": 1, "lost in view": 4, "repeated in view": 7, "marked in view": 0, "notified in view": 2} {
		if s.Drawn[name] != n {
			t.Errorf("%d of %q are drawn, want %d: %v", s.Drawn[name], name, n, s.Drawn)
		}
	}
	b.Eval("verbenaView.view(1e9, 3e9)", nil)
	if s := stateOf(b); s.Drawn["lost in view"] != 2 || s.Drawn["repeated in view"] != 4 || s.Drawn["notified in view"] != 1 {
		t.Errorf("the second half: %v", s.Drawn)
	}
}

// TestPageShowsSamples of both ends: counts grow from the first sample on, and the receiver's marks
// are the sender's trouble. Bytes in flight are an area below the window.
func TestPageShowsSamples(t *testing.T) {
	c := talk.New(t)
	sample := func(p congestion.Path) {
		text, err := p.AppendText(nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Comment = string(text)
	}
	for i, inFlight := range []int64{60000, 0, 60000} {
		c.At = time.Duration(i) * time.Millisecond
		n := uint64(i * i)
		sample(congestion.Path{RTT: 1000, WindowBytes: 65536, InFlight: inFlight, Lost: 7 + n, Notified: 3 * n})
		c.Send(roce.RCSendOnly, uint32(i), 100)
		sample(congestion.Path{WindowBytes: 16384, Marked: 5 + 2*n})
		c.Ack(uint32(i))
	}
	b := open(t, read(t, "samples.pcapng", c.Bytes()))
	s := stateOf(b)
	for name, n := range map[string]int{"window": 2, "lost in view": 4, "repeated in view": 0, "marked in view": 8, "notified in view": 12} {
		if s.Drawn[name] != n {
			t.Errorf("%d of %q are drawn, want %d: %v", s.Drawn[name], name, n, s.Drawn)
		}
	}
	if slices.Contains(s.Panels, "pace") {
		t.Errorf("there is a panel for the pace, which no sample has: %q", s.Panels)
	}
	var colours []string
	b.Eval("(verbenaView.view(-1e6, 3e6), verbenaView.colours('window', -5e5, 5e5, 15e5))", &colours)
	if colours[0] == colours[1] || colours[0] != colours[2] {
		t.Errorf("before, with bytes in flight, and without, the window is %q", colours)
	}
}
