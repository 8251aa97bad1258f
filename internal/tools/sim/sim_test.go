// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"verbena/internal/monotime"
	"verbena/internal/tools/cli"
)

// sim runs the command on a scenario.
func sim(t *testing.T, scenario string, args ...string) (out, errOut string, status int) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "net.sim")
	if err := os.WriteFile(name, []byte(scenario), 0o600); err != nil {
		t.Fatal(err)
	}
	return command(t, "", append(args, name)...)
}

func command(t *testing.T, stdin string, args ...string) (out, errOut string, status int) {
	t.Helper()
	var o, e bytes.Buffer
	cmd := Command()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	status = cli.Execute(t.Context(), cmd, &e)
	return o.String(), e.String(), status
}

// report is the output of --json.
type report struct {
	Seconds float64
	Groups  []groupResult
	Links   []linkResult
	Samples []sampleJSON
}

func played(t *testing.T, scenario string, args ...string) (r report) {
	t.Helper()
	out, errOut, status := sim(t, scenario, append(args, "--json")...)
	if status != cli.ExitOK {
		t.Fatalf("status %d: %s", status, errOut)
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	return r
}

const pair = "host a b\nlink a b rate 1Gb/s delay 1ms\n"

// A message names the file, the line, the word, and what to do.
func TestErrorsSayWhatToDo(t *testing.T) {
	for scenario, want := range map[string]string{
		"":                                     ": flow: say at least one",
		"hots a":                               ":1: hots: a line begins with one of at, fattree, flow, host",
		"# none\n\nhost":                       ":3: host: name a host",
		"host a!":                              ":1: a!: a name has letters and digits",
		"host h8..h1":                          ":1: h8..h1: a range has one name",
		"host h1..g4":                          ":1: h1..g4: a range has one name",
		"host h1..h99999":                      ":1: h1..h99999: at most 20000",
		"host a a":                             ":1: a: the name is taken",
		"host a\nlink a":                       ":2: a: name two ends",
		"host a b\nlink a c":                   ":2: c: no host or switch has this name",
		"host a b\nlink a b":                   ":2: b: say the rate of the link",
		"host a b\nlink a b rate":              ":2: rate: say a rate, as in 10Gb/s",
		"host a b\nlink a b rate 10":           ":2: 10: say a rate",
		"host a b\nlink a b rate 0Gb/s":        ":2: 0Gb/s: say a rate",
		"host a b\nlink a b rat 1Gb/s":         ":2: rat: a link has the options buffer, bursts",
		"host a b\nlink a b rate 1Gb/s down":   ":2: down: only a line such as",
		"host a\nlink a a rate 1Gb/s":          ":2: a: a link joins two different ends",
		pair + "link a b rate 1Gb/s loss 101%": ":3: 101%: at most 100%",
		pair + "link a b rate 1Gb/s loss 1":    ":3: 1: say a part of the packets",
		pair + "link a b rate 1Gb/s mark 9KB..1KB 1%": ":3: 9KB..1KB: say from how many bytes",
		pair + "link a b rate 1Gb/s mark 1KB..9KB":    ":3: 1KB..9KB: say a part of the packets",
		pair + "flow":                                           ":3: flow: say its kind: bbr, cubic, read, send, trp, write",
		pair + "flow writes a b":                                ":3: writes: a flow is one of bbr, cubic, read, send",
		pair + "flow write a":                                   ":3: a: name both ends",
		pair + "flow write a a":                                 ":3: a: a flow joins two different hosts",
		pair + "flow write a b":                                 ":3: write a b: give the flow a size, or add",
		pair + "flow write a b sise 1MB":                        ":3: sise: a flow has the options dcqcn",
		pair + "flow write a b size":                            ":3: size: say a size, as in",
		pair + "flow write a b size 1 MB":                       ":3: 1: say a size, as in",
		pair + "flow write a b mtu 1500":                        ":3: 1500: a path MTU is",
		pair + "flow write a b depth 0":                         ":3: 0: say a number from 1 to 16384",
		pair + "flow write a b size 2GB message 2GB":            ":3: 2GB: a message has at most 1GiB",
		pair + "host c\nflow write a..b b":                      ":4: a..b: a range has one name",
		pair + "host c1..c2\nflow write c1..c2 a pairs":         ":4: pairs: there are 2 hosts on one side and 1",
		pair + "host c\nflow write a c size 1MB":                ":4: write a c: no path joins its hosts",
		"switch s\nhost a\nlink a s rate 1Gb/s\nflow write a s": ":4: s: a flow joins hosts, and this is a switch",
		pair + "at":                             ":3: at: say a time",
		pair + "at 1ms":                         ":3: 1ms: say the link that changes",
		pair + "at 1ms link a b":                ":3: b: say what changes: buffer",
		pair + "at 1ms link a a up":             ":3: a: no link joins these two",
		pair + "run 0s":                         ":3: 0s: say a time above 0",
		pair + "run 1s warm 2s\nflow write a b": ": warm: it must be shorter than run",
		pair + "run 1s for ever":                ":3: for: run has the option warm TIME",
		pair + "seed 1 2":                       ":3: 2: the line is complete before this word",
		"fattree 3 rate 1Gb/s":                  ":1: 3: switches of a fat tree have an even number",
		pair + "fattree 4 rate 1Gb/s":           ":3: fattree: it must come before other hosts",
		"host h1..h200\nswitch s\nlink h1..h200 s rate 1Gb/s\nflow write h1..h200 h1..h200 size 1KB": ": at most 16384 flows, here are 39800",
		"host a\n# no flow":                                         ":2: flow: say at least one",
		pair + "run 1s warm 1s\nflow write a b\n#":                  ":3: warm: it must be shorter than run",
		"host a b\nlink a b rate 1001Gb/s":                          ":2: 1001Gb/s: at most 1000Gb/s",
		pair + "at 1ms link a b rate 10000Gb/s":                     ":3: 10000Gb/s: at most 1000Gb/s",
		"host a1..a300 b1..b300\nlink a1..a300 b1..b300 rate 1Gb/s": ":2: 1Gb/s: at most 65536 links, here are 90000",
		"host a1..a250 b1..b250\nlink a1..a250 b1..b250 rate 1Gb/s\nlink a1..a50 b1..b250 rate 1Gb/s": ":3: 1Gb/s: at most 65536 links, here are 75000",
		"host a1..a300\nat 1ms link a1..a300 a1..a300 up":                                             ":2: a1..a300: at most 65536 links",
		"host h1..h65 g\nflow write h1..h65 g depth 16384":                                            ":2: write h1..h65 g: the depths of all flows are at most 1000000, here 1064960",
		"host h1..h9999 g1..g9999\nflow write h1..h9999 g1..g9999":                                    ": at most 16384 flows, here are 99980001",
		pair + "flow trp a b dcqcn":                                                                   ":3: dcqcn: trp has no such option",
		pair + "flow trp a b message 1KB":                                                             ":3: message: trp has no such option",
		pair + "flow cubic a b depth 1":                                                               ":3: depth: cubic has no such option",
		pair + "flow bbr a b reads 1":                                                                 ":3: reads: bbr has no such option",
		pair + "flow bbr a b go-back-n":                                                               ":3: go-back-n: bbr has no such option",
	} {
		out, errOut, status := sim(t, scenario)
		if status != cli.ExitFailure || out != "" || !strings.Contains(errOut, want) ||
			strings.Count(errOut, "\n") != 1 {
			t.Errorf("%q: status %d, %q, want %q", scenario, status, errOut, want)
		}
	}
	if _, errOut, status := command(t, "", "/no/such/file"); status != cli.ExitFailure ||
		errOut != "verbena: there is no file /no/such/file\n" {
		t.Errorf("status %d, %q", status, errOut)
	}
	if _, errOut, status := sim(t, pair, "--csv", "--json"); status != cli.ExitUsage {
		t.Errorf("status %d, %q", status, errOut)
	}
}

// stopping is a context that ends after some looks at it.
type stopping struct {
	context.Context
	looks int
}

func (c *stopping) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// A run looks at its context within a sample, too, which may take long.
func TestRunsCanBeStopped(t *testing.T) {
	o := options{seed: 1}
	s, err := o.read("net", strings.NewReader("host a1..a64 b1..b64\nswitch s\n"+
		"link a1..a64 s rate 1000Gb/s delay 0s\nlink b1..b64 s rate 1000Gb/s delay 0s\n"+
		"flow write a1..a64 b1..b64 pairs size 1MB\n"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := &stopping{t.Context(), 2}
	_, err = s.play(ctx, func(monotime.Duration) { ctx.looks = 2 })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// The scenarios of docs/networks play to the end.
func TestExamples(t *testing.T) {
	names, err := filepath.Glob("../../../docs/networks/*.sim")
	if err != nil || len(names) < 4 {
		t.Fatalf("%d scenarios, %v", len(names), err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			out, errOut, status := command(t, "", "--json", name)
			var r report
			if err := json.Unmarshal([]byte(out), &r); status != cli.ExitOK || err != nil {
				t.Fatalf("status %d, %s, %v", status, errOut, err)
			}
			for _, g := range r.Groups {
				unbounded := strings.Contains(name, "change") || strings.Contains(name, "beside")
				if g.Failed > 0 || g.Rate <= 0 || (g.Ended != g.Count) != unbounded {
					t.Errorf("%s: %d of %d ended, %d failed: %s", g.Flows, g.Ended, g.Count,
						g.Failed, g.Failure)
				}
			}
			t.Logf("%g s of virtual time, %d links, %d samples", r.Seconds, len(r.Links), len(r.Samples))
		})
	}
}

// One flow has the rate of its link, and the time series says so, too.
func TestFlowFillsItsLink(t *testing.T) {
	for _, kind := range []string{"write", "read", "send", "trp", "bbr"} {
		r := played(t, "host a b\nlink a b rate 1Gb/s delay 10us\nflow "+kind+" a b size 20MB mtu 4096")
		g := r.Groups[0]
		if g.Count != 1 || g.Ended != 1 || g.Rate < 0.9*125e6 || g.Rate > 125e6 || g.Last < 0.16 ||
			g.Last > 0.18 || g.Each[0].From != "a" || g.Each[0].To != "b" || g.Each[0].Bytes != 20e6 {
			t.Errorf("%s: %+v", kind, g)
		}
		sum, before := 0.0, 0.0
		for _, s := range r.Samples {
			sum += s.Groups[0].Rate * (s.At - before)
			before = s.At
		}
		if sum < 19.99e6 || sum > 20.1e6 {
			t.Errorf("%s: the samples have %g bytes", kind, sum)
		}
		if used := max(r.Links[0].Used, r.Links[1].Used); used < 0.9 || used > 1 {
			t.Errorf("%s: %g of the link is used", kind, used)
		}
	}
}

// A link's changes come when the file says so.
func TestLinkChanges(t *testing.T) {
	r := played(t, `
		host a b
		switch s
		link a s rate 10Gb/s
		link s b rate 1Gb/s buffer 100KB
		flow write a b mtu 4096
		at 100ms link s b rate 100Mb/s
		at 200ms link s b down
		at 300ms link s b up rate 1Gb/s loss 5%
		run 400ms warm 300ms`)
	rate := func(from, to float64) (mean float64) {
		n := 0
		for _, s := range r.Samples {
			if s.At > from && s.At <= to {
				mean, n = mean+s.Groups[0].Rate, n+1
			}
		}
		return mean / float64(n) * 8
	}
	if got := rate(0.02, 0.095); got < 0.9e9 {
		t.Errorf("%g b/s before the change", got)
	}
	if got := rate(0.11, 0.195); got < 0.08e9 || got > 0.1e9 {
		t.Errorf("%g b/s after it", got)
	}
	if got := rate(0.21, 0.295); got != 0 {
		t.Errorf("%g b/s while the link is down", got)
	}
	lost := 0
	for _, l := range r.Links {
		lost += l.Lost
	}
	if got := rate(0.35, 0.4); got == 0 || lost == 0 || r.Groups[0].Rate == 0 || r.Seconds != 0.4 {
		t.Errorf("%g b/s in the end, %d lost: %+v", got, lost, r.Groups[0])
	}
}

const lossy = `
	host h1..h4 server
	switch s
	link h1..h4 s rate 10Gb/s
	link server s rate 1Gb/s delay 100us buffer 20KB loss 0.5% jitter 1us
	flow write h1..h4 server size 2MB every 1ms
	flow read h1 server size 1MB start 3ms
	`

// The same file and seed give the same output to the last byte, another seed another.
func TestSeed(t *testing.T) {
	first, _, _ := sim(t, lossy, "--each")
	again, _, _ := sim(t, lossy, "--each")
	other, _, _ := sim(t, lossy, "--each", "--seed", "2")
	named, _, _ := sim(t, lossy+"\nseed 2", "--each")
	if first != again || first == other || other != named {
		t.Errorf("again the same: %v; another seed the same: %v; that of the file: %v",
			first == again, first == other, other == named)
	}
}

// The counts of samples, links and flows agree, also where samples were joined.
func TestCountsAgree(t *testing.T) {
	r := played(t, lossy)
	var links, samples, flows int
	for _, l := range r.Links {
		links += l.Dropped + l.Lost
	}
	for _, s := range r.Samples {
		samples += s.Dropped
	}
	for _, g := range r.Groups {
		flows += g.Dropped
		if g.Ended != g.Count || g.First > g.Median || g.Median > g.Last || g.Jain <= 0 || g.Jain > 1.0001 {
			t.Errorf("%+v", g)
		}
	}
	if links == 0 || links != samples || links != flows {
		t.Errorf("dropped: %d by links, %d in samples, %d of flows", links, samples, flows)
	}
	if len(r.Samples) < maxSamples/2-1 || len(r.Samples) > maxSamples {
		t.Errorf("%d samples", len(r.Samples))
	}
	if start := r.Groups[1].First; start < 0.003 {
		t.Errorf("a flow that starts after 3 ms ends after %g s", start)
	}
}

func TestCSV(t *testing.T) {
	out, _, status := sim(t, lossy, "--csv")
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || status != cli.ExitOK || len(rows) < maxSamples/2 || len(rows[0]) != 8 || len(rows)%2 != 1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	before := 0.0
	for i, row := range rows[1:] {
		at, err := strconv.ParseFloat(row[0], 64)
		if err != nil || at < before || row[1] != []string{"write h1..h4 server", "read h1 server"}[i%2] {
			t.Fatalf("row %d: %q", i+1, row)
		}
		before = at
	}
}

func TestTablesAndGraphs(t *testing.T) {
	out, _, status := command(t, lossy, "-", "--each")
	for _, want := range []string{"5 hosts, 5 flows, ", "write h1..h4 server  4      4", "read h1 server       1      1",
		"h3 server", "s-server", "and 2 other links", "rate, Gb/s of payload, from 0 to", " ┤",
		"longest queue, KB", "packets marked, from 0 to"} {
		if !strings.Contains(out, want) {
			t.Errorf("status %d, no %q in\n%s", status, want, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("colours, and no terminal")
	}
	for _, line := range strings.Split(out, "\n") {
		if strings.Contains(line, "┤") && len([]rune(line)) > graphWidth+12 {
			t.Errorf("%d columns: %s", len([]rune(line)), line)
		}
	}
	if short, _, _ := command(t, lossy, "-", "--no-graphs"); strings.Contains(short, "┤") || !strings.HasPrefix(out, short[:200]) {
		t.Errorf("--no-graphs:\n%s", short)
	}
}

func TestCountOfOne(t *testing.T) {
	for n, want := range []string{"0 flows", "1 flow", "2 flows"} {
		if got := count(n, "flow"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// A flow that ends with an error is reported, and the run ends.
func TestFailure(t *testing.T) {
	out, errOut, status := sim(t, pair+"flow write a b size 1GB\nflow read b a size 1KB\nat 1ms link a b down")
	if status != cli.ExitOK || !strings.Contains(out, "write a b: 1 failed: transport retry counter exceeded") {
		t.Errorf("status %d, %s\n%s", status, errOut, out)
	}
}

func TestUnits(t *testing.T) {
	for word, want := range map[string]int64{"1KB": 1000, "1KiB": 1024, "1.5MB": 1_500_000, "0B": 0, "2GiB": 2 << 30} {
		if n, ok := quantity(word, sizeUnits); !ok || n != want {
			t.Errorf("%s: %d, %v", word, n, ok)
		}
	}
	for _, word := range []string{"", "KB", "1", "1kb", "1 KB", "-1KB", "1.2.3KB", "1Gb/s", "1e3KB", "99999999999999999999GB"} {
		if n, ok := quantity(word, sizeUnits); ok {
			t.Errorf("%q is %d", word, n)
		}
	}
	for n, want := range map[float64]string{0: "0.00 ns", 999: "999 ns", 1000: "1.00 us", 12_345: "12.3 us", 2.5e9: "2.50 s", 7.2e12: "7200 s"} {
		if got := written(n, timeUnits); got != want {
			t.Errorf("%g: %q, want %q", n, got, want)
		}
	}
}

// Bytes count from the end of the warm-up on, however late that is.
func TestLateWarmUp(t *testing.T) {
	for _, warm := range []string{"100ms", "1998ms"} {
		r := played(t, `
			host a b
			link a b rate 1Gb/s
			flow write a b mtu 4096 message 4KiB
			run 2s warm `+warm)
		if got := r.Groups[0].Rate * 8; got < 0.9e9 || got > 1e9 {
			t.Errorf("from %s on: %g b/s", warm, got)
		}
	}
}
