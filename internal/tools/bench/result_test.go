// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
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
		{goal{bound: 0.6, atLeast: true, ratio: true}, []float64{60}, []float64{100}, true, "≥ 0.6 × baseline"},
		{goal{bound: 0.6, atLeast: true, ratio: true}, []float64{59}, []float64{100}, false, "≥ 0.6 × baseline"},
		{goal{bound: 1.3, ratio: true}, []float64{2.5}, []float64{2}, true, "≤ 1.3 × baseline"},
		{goal{bound: 1.3, ratio: true}, []float64{2.7}, []float64{2}, false, "≤ 1.3 × baseline"},
		{goal{bound: 500e3, atLeast: true}, []float64{500e3}, nil, true, "≥ 500000 op/s"},
		{goal{bound: 16}, []float64{17}, nil, false, "≤ 16 op/s"},
		{goal{}, []float64{17}, []float64{20}, true, ""},
	} {
		r := summarize("x", "op/s", c.ours, c.raw, c.g)
		if r.Met != c.met || r.Goal != c.text || (r.Ratio != nil) != (c.raw != nil) {
			t.Errorf("%+v: %+v", c, r)
		}
	}
}

func TestJSONHasTheFieldsPromised(t *testing.T) {
	var b bytes.Buffer
	err := writeJSON(&b, []Result{
		summarize("WRITE", "MB/s", []float64{3, 4, 5}, []float64{8}, goal{bound: 0.6, atLeast: true, ratio: true}),
		summarize("memory", "KiB", []float64{3}, nil, goal{bound: 16}),
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
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
	printTable(&b, []Result{summarize("WRITE 64 KiB bandwidth", "MB/s", []float64{3000, 4000}, []float64{7000}, goal{bound: 0.6, atLeast: true, ratio: true})})
	for _, want := range []string{"WRITE 64 KiB bandwidth", "3500", "7000", "0.50", "≥ 0.6 × baseline", "no", "29%"} {
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
	g.samples[0] = []int64{1, 9, 10, 10, 10, 10, 12, 12}
	g.samples[1] = []int64{1, 9, 10, 10, 10, 10, 10, 10}
	if n, ok := g.bytes(); !ok || n != 2 {
		t.Errorf("growth %v, %v", n, ok)
	}
}

func TestEveryMeasureSaysWhatItNeeds(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range measures {
		if m.name == "" || m.unit == "" || m.ours == nil || m.goal.bound < 0 || m.goal.bound == 0 && m.raw == nil || seen[m.name] {
			t.Errorf("measure %+v", m)
		}
		if m.goal.ratio && m.raw == nil {
			t.Errorf("%s has a goal of its ratio and nothing to compare with", m.name)
		}
		seen[m.name] = true
	}
}
