// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Result is one line of bench.json.
type Result struct {
	Name     string   `json:"name"`
	Value    float64  `json:"value"` // median of the rounds
	Unit     string   `json:"unit"`
	Baseline *float64 `json:"baseline"` // what is beside it (sockets, where the name does not say), median; null where nothing compares
	Ratio    *float64 `json:"ratio"`    // value / baseline
	Goal     string   `json:"goal"`     // empty: there is none
	Met      bool     `json:"met"`      // or there is no goal
	Spread   float64  `json:"spread"`   // (largest - smallest) / median of the value
}

// goal is a bound of the value, or of its ratio to the baseline.
// The zero goal is none: the figure is for comparison.
type goal struct {
	bound   float64
	atLeast bool // else at most
	ratio   bool
}

func (g goal) met(value, ratio float64) bool {
	if g == (goal{}) {
		return true
	}
	v := value
	if g.ratio {
		v = ratio
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
	if g.ratio {
		return fmt.Sprintf("%s %g × baseline", sign, g.bound)
	}
	return fmt.Sprintf("%s %g %s", sign, g.bound, unit)
}

// summarize makes a result of the rounds; raw is empty where nothing compares.
func summarize(name, unit string, ours, raw []float64, g goal) Result {
	r := Result{Name: name, Value: median(ours), Unit: unit, Goal: g.describe(unit), Spread: spread(ours)}
	ratio := 0.0
	if len(raw) > 0 {
		base := median(raw)
		ratio = r.Value / base
		r.Baseline, r.Ratio = &base, &ratio
	}
	r.Met = g.met(r.Value, ratio)
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
	t.AppendHeader(table.Row{"measure", "ours", "beside", "unit", "ratio", "goal", "met", "spread"})
	var right []table.ColumnConfig
	for _, n := range []int{2, 3, 5, 8} {
		right = append(right, table.ColumnConfig{Number: n, Align: text.AlignRight})
	}
	t.SetColumnConfigs(right)
	for _, r := range results {
		base, ratio, met := "", "", "no"
		if r.Baseline != nil {
			base, ratio = number(*r.Baseline), fmt.Sprintf("%.2f", *r.Ratio)
		}
		switch {
		case r.Goal == "":
			met = ""
		case r.Met:
			met = "yes"
		}
		t.AppendRow(table.Row{r.Name, number(r.Value), base, r.Unit, ratio, r.Goal, met, fmt.Sprintf("%.0f%%", 100*r.Spread)})
	}
	t.Render()
}

// number shows what matters of a figure.
func number(v float64) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// writeJSON writes bench.json.
func writeJSON(w io.Writer, results []Result) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(results)
}
