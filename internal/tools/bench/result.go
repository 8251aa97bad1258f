// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"verbena/internal/tools/chart"
)

// Report is bench.json: a run, and the machine that it ran on.
type Report struct {
	chart.Machine
	Results []Result `json:"results"`
}

// Result is one line of the table.
type Result struct {
	Topic    string   `json:"topic"` // the part of the table
	Name     string   `json:"name"`
	Value    float64  `json:"value"` // median of the rounds
	Unit     string   `json:"unit"`
	Beside   string   `json:"beside"`   // names the peer; empty where nothing compares
	Baseline *float64 `json:"baseline"` // the peer's median; null where nothing compares
	Ratio    *float64 `json:"ratio"`    // value / baseline; null for counts
	Goal     string   `json:"goal"`     // empty: there is none
	Met      bool     `json:"met"`      // or there is no goal
	Spread   float64  `json:"spread"`   // (largest - smallest) / median of the value
}

// goal is a bound of the value, of its ratio to the baseline, or of the difference.
// The zero goal is none: the figure is for comparison.
type goal struct {
	bound   float64
	atLeast bool // else at most
	ratio   bool
	more    bool // a bound of the difference
}

func (g goal) met(value, base float64) bool {
	if g == (goal{}) {
		return true
	}
	v := value
	switch {
	case g.ratio:
		v = value / base
	case g.more:
		v = value - base
	}
	if g.atLeast {
		return v >= g.bound
	}
	return v <= g.bound
}

func (g goal) describe(unit string) string {
	if g == (goal{}) {
		return ""
	}
	sign := "≤"
	if g.atLeast {
		sign = "≥"
	}
	switch {
	case g.ratio:
		return fmt.Sprintf("%s %g", sign, g.bound)
	case g.more:
		return fmt.Sprintf("%s beside + %g", sign, g.bound)
	}
	return sign + " " + quantity(g.bound, unit)
}

// summarize makes a result of the rounds; raw is empty where nothing compares.
func summarize(topic string, w row, ours, raw []float64) Result {
	r := Result{Topic: topic, Name: w.name, Value: median(ours), Unit: w.unit, Beside: w.beside,
		Goal: w.goal.describe(w.unit), Spread: spread(ours)}
	base := 0.0
	if len(raw) > 0 {
		base = median(raw)
		r.Baseline = &base
		if base != 0 && w.unit != "" { // counts of a request are near 0
			ratio := r.Value / base
			r.Ratio = &ratio
		}
	}
	r.Met = w.goal.met(r.Value, base)
	return r
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

func spread(v []float64) float64 {
	m := median(v)
	if m == 0 {
		return 0
	}
	return (slices.Max(v) - slices.Min(v)) / m
}

// printTable prints the results for people.
func printTable(w io.Writer, results []Result) {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"", "Verbena", "beside", "ratio", "goal", "spread"})
	var right []table.ColumnConfig
	for _, n := range []int{2, 4, 6} {
		right = append(right, table.ColumnConfig{Number: n, Align: text.AlignRight})
	}
	t.SetColumnConfigs(right)
	for i, r := range results {
		if i > 0 && r.Topic != results[i-1].Topic {
			t.AppendSeparator()
		}
		cells := table.Row{}
		for _, c := range r.cells() {
			cells = append(cells, c)
		}
		t.AppendRow(cells)
	}
	t.Render()
	fmt.Fprintln(w)
}

// cells are those of the result's line in a table.
func (r Result) cells() []string {
	beside, ratio, goal := "", "", r.Goal
	if r.Baseline != nil {
		beside = r.Beside + " " + quantity(*r.Baseline, r.Unit)
	}
	if r.Ratio != nil {
		ratio = fmt.Sprintf("%.2f", *r.Ratio)
	}
	if !r.Met {
		goal += ": not met"
	}
	return []string{r.Name, quantity(r.Value, r.Unit), beside, ratio, goal,
		fmt.Sprintf("%.0f %%", 100*r.Spread)}
}

// quantity shows three digits of a value, and its unit.
func quantity(v float64, unit string) string {
	if unit == "MB/s" && v >= 1000 {
		v, unit = v/1000, "GB/s"
	}
	digits := 0
	for scale := 100.0; v < scale && v > 0 && digits < 3; scale /= 10 {
		// of 0.0754 there are three behind the point
		digits++
	}
	if scale := math.Pow(10, math.Floor(math.Log10(v))-2); v >= 1000 {
		v = math.Round(v/scale) * scale
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if digits > 0 {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	for i := len(text) - 3; digits == 0 && i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return strings.TrimSpace(text + " " + unit)
}

// write writes bench.json.
func (r *Report) write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
