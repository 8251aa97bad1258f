// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"verbena/internal/tools/chart"
)

func TestMedianAndSpread(t *testing.T) {
	for _, c := range []struct {
		in             []float64
		median, spread float64
	}{
		{nil, 0, 0},
		{[]float64{5}, 5, 0},
		{[]float64{3, 1, 2}, 2, 1},
		{[]float64{4, 1, 2, 3}, 2.5, 1.2},
	} {
		if m, s := median(c.in), spread(c.in); m != c.median || s != c.spread {
			t.Errorf("%v: median %v, spread %v", c.in, m, s)
		}
	}
}

func TestGoalsBoundTheValueOrItsRatio(t *testing.T) {
	for _, c := range []struct {
		g         goal
		ours, raw []float64
		met       bool
		text      string
	}{
		{goal{bound: 0.6, atLeast: true, ratio: true}, []float64{60}, []float64{100}, true, "≥ 0.6"},
		{goal{bound: 0.6, atLeast: true, ratio: true}, []float64{59}, []float64{100}, false, "≥ 0.6"},
		{goal{bound: 1.3, ratio: true}, []float64{2.5}, []float64{2}, true, "≤ 1.3"},
		{goal{bound: 1.3, ratio: true}, []float64{2.7}, []float64{2}, false, "≤ 1.3"},
		{goal{bound: 500e3, atLeast: true}, []float64{500e3}, nil, true, "≥ 500,000 /s"},
		{goal{bound: 16}, []float64{17}, nil, false, "≤ 16 /s"},
		{goal{}, []float64{17}, []float64{20}, true, ""},
	} {
		r := summarize("topic", row{"x", "/s", "sockets", c.g}, c.ours, c.raw)
		if r.Met != c.met || r.Goal != c.text || (r.Ratio != nil) != (c.raw != nil) {
			t.Errorf("%+v: %+v", c, r)
		}
	}
}

func TestJSONHasTheFieldsPromised(t *testing.T) {
	var b bytes.Buffer
	report := &Report{chart.Machine{Date: "2026-01-02", Cores: 3}, []Result{
		summarize("topic", row{"WRITE", "MB/s", "sockets", goal{bound: 0.6, atLeast: true, ratio: true}}, []float64{3, 4, 5}, []float64{8}),
		summarize("topic", row{"memory", "KiB", "sockets", goal{bound: 16}}, []float64{3}, nil),
	}}
	if err := report.write(&b); err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(b.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"date", "processor", "cores", "system", "verbena", "go"} {
		if _, ok := all[field]; !ok {
			t.Errorf("no %q in %v", field, all)
		}
	}
	var got []map[string]any
	for _, r := range all["results"].([]any) {
		got = append(got, r.(map[string]any))
	}
	for _, field := range []string{"name", "value", "unit", "baseline", "ratio", "goal", "met", "spread"} {
		for _, o := range got {
			if _, ok := o[field]; !ok {
				t.Errorf("no %q in %v", field, o)
			}
		}
	}
	if got[0]["ratio"] != 0.5 || got[0]["met"] != false || got[1]["baseline"] != nil {
		t.Errorf("%s", &b)
	}
}

func TestTableShowsRatiosAndWhatFallsShort(t *testing.T) {
	var b bytes.Buffer
	printTable(&b, []Result{summarize("topic", row{"WRITE 64 KiB bandwidth", "MB/s", "sockets", goal{bound: 0.6, atLeast: true, ratio: true}}, []float64{3000, 4000}, []float64{7000})})
	for _, want := range []string{"WRITE 64 KiB bandwidth", "3.5 GB/s", "sockets 7 GB/s", "0.50", "≥ 0.6: not met", "29 %"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}

func TestParsePerf(t *testing.T) {
	row, err := parsePerf([]byte(`{"test":"write bw","results":[{"bytes":8,"bw_average":3.5,"msg_rate_mpps":0.5}]}`))
	if err != nil || row.Average != 3.5 || row.MsgRate != 0.5 {
		t.Errorf("%+v, %v", row, err)
	}
	for _, bad := range []string{"", "x", `{"results":[]}`, `{"results":[{},{}]}`} {
		if _, err := parsePerf([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestGrowthComparesQuarters(t *testing.T) {
	var g growth
	if _, ok := g.bytes(); ok {
		t.Error("no samples gave a figure")
	}
	g.samples[0] = []int64{1, 9, 10, 12}
	if n, ok := g.bytes(); ok {
		t.Errorf("a run as short as its start gave %v", n)
	}
	start := slices.Repeat([]int64{1}, startSamples) // does not count
	g.samples[0] = append(start, 1, 9, 10, 10, 10, 10, 12, 12)
	g.samples[1] = append(slices.Clone(start), 1, 9, 10, 10, 10, 10, 10, 10)
	if n, ok := g.bytes(); !ok || n != 2 {
		t.Errorf("growth %v, %v", n, ok)
	}
}

func TestEveryMeasureSaysWhatItNeeds(t *testing.T) {
	seen := map[string]bool{}
	for _, topic := range topics {
		for _, g := range topic.groups {
			for _, w := range g.rows {
				key := w.name + " beside " + w.beside
				if w.name == "" || strings.Contains(w.name, "/") || g.ours == nil || w.goal.bound < 0 || seen[key] {
					t.Errorf("row %+v", w)
				}
				if (w.goal.ratio || w.goal.more) && g.peer == nil || (w.beside != "") != (g.peer != nil) {
					t.Errorf("%s: its peer is %q, its goal %+v", w.name, w.beside, w.goal)
				}
				seen[key] = true
			}
		}
	}
}

func TestQuantity(t *testing.T) {
	for want, c := range map[string]struct {
		value float64
		unit  string
	}{
		"0.075 µs": {0.0754, "µs"}, "1.5 µs": {1.5, "µs"}, "43.2 µs": {43.21, "µs"}, "432 µs": {432.1, "µs"}, "3,740,000 /s": {3741234, "/s"},
		"9.55 GB/s": {9551, "MB/s"}, "486 MB/s": {486.2, "MB/s"}, "0": {0, ""}, "2.1": {2.1, ""}, "12,300 /s": {12349, "/s"},
	} {
		if got := quantity(c.value, c.unit); got != want {
			t.Errorf("%v %s is %q, want %q", c.value, c.unit, got, want)
		}
	}
}

// A group that yields several figures shows the rows asked for, and leaves out those
// that it could not take.
func TestTakeShowsTheRowsAskedFor(t *testing.T) {
	figures := func(v ...float64) func(context.Context, *run) ([]float64, error) {
		return func(context.Context, *run) ([]float64, error) { return v, nil }
	}
	g := group{rows: []row{{name: "a"}, {name: "b"}, {name: "c"}}, ours: figures(1, 2, missing), peer: figures(4, 4, 4)}
	for only, want := range map[string]string{"": "a b", "a": "a", "c": "", "topic": "a b"} {
		r := &run{rounds: 2, only: only, log: io.Discard}
		results, err := r.take(t.Context(), topic{name: "topic"}, g)
		var got []string
		for _, res := range results {
			got = append(got, res.Name)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("--only %q takes %q, %v; want %q", only, got, err, want)
		}
	}
	g.peer = figures(1)
	if _, err := (&run{rounds: 1, log: io.Discard}).take(t.Context(), topic{}, g); err == nil {
		t.Error("one figure was enough for three rows")
	}
}
