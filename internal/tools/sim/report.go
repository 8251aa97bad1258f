// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/guptarohit/asciigraph"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"verbena/internal/monotime"
)

// maxLinks bounds the links of a table: those that drop most, and then wait longest, are shown.
const maxLinks = 8

// printTables prints a row for each group of flows, or for each flow, and the busiest links.
func (r *result) printTables(w io.Writer, each bool) {
	t := newTable(w, "flows", "n", "ended", "MB/s", "Jain", "first end", "median", "last end",
		"dropped", "repeated", "time-outs")
	for _, g := range r.groups {
		t.AppendRow(table.Row{g.Flows, g.Count, g.Ended, megabytes(g.Rate),
			fmt.Sprintf("%.3f", g.Jain), end(g.First), end(g.Median), end(g.Last),
			g.Dropped, g.Repeated, g.Timeouts})
	}
	t.Render()
	for _, g := range r.groups {
		if g.Failed > 0 {
			fmt.Fprintf(w, "%s: %d failed: %s\n", g.Flows, g.Failed, g.Failure)
		}
	}
	if each {
		t := newTable(w, "flow", "MB/s", "end", "dropped", "repeated", "time-outs", "failure")
		for _, g := range r.groups {
			for _, f := range g.Each {
				t.AppendRow(table.Row{f.From + " " + f.To, megabytes(f.Rate), end(f.End), f.Dropped,
					f.Repeated, f.Timeouts, f.Failure})
			}
		}
		fmt.Fprintln(w)
		t.Render()
	}
	fmt.Fprintln(w)
	r.printLinks(w)
}

// printLinks prints a row for each of the busiest links.
func (r *result) printLinks(w io.Writer) {
	t := newTable(w, "link", "used", "packets", "dropped", "lost", "marked", "mean queue",
		"longest")
	links := slices.Clone(r.links)
	slices.SortStableFunc(links, func(a, b linkResult) int {
		return cmp.Or(b.Dropped-a.Dropped, cmp.Compare(b.Queue, a.Queue))
	})
	for _, l := range links[:min(maxLinks, len(links))] {
		t.AppendRow(table.Row{l.Name, fmt.Sprintf("%.1f %%", l.Used*100), l.Passed, l.Dropped,
			l.Lost, l.Marked, end(l.Queue), end(l.MostQueue)})
	}
	t.Render()
	if left := len(links) - maxLinks; left > 0 {
		fmt.Fprintf(w, "and %d other links\n", left)
	}
}

func newTable(w io.Writer, head ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Options.DrawBorder = false
	t.Style().Options.SeparateColumns = false
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(head)
	var right []table.ColumnConfig
	for i := range head[1:] {
		right = append(right, table.ColumnConfig{Number: i + 2, Align: text.AlignRight,
			AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(right)
	return t
}

func megabytes(rate float64) string { return fmt.Sprintf("%.1f", rate/1e6) }

// end writes a time in seconds, or nothing for 0.
func end(seconds float64) string {
	if seconds == 0 {
		return "–"
	}
	return written(seconds*1e9, timeUnits)
}

// Height of graphs in lines, and how many groups have a curve of their own.
const (
	graphHeight = 8
	maxCurves   = 4
)

// printGraphs draws the time series.
func (r *result) printGraphs(w io.Writer, width int) {
	list, groups := r.samples.list, min(len(r.groups), maxCurves)
	if len(list) < 2 {
		return
	}
	perGroup := func(value func(int, *groupSample) float64) (curves [][]float64) {
		for k := range groups {
			var curve []float64
			for i := range list {
				curve = append(curve, value(i, &list[i].groups[k]))
			}
			curves = append(curves, curve)
		}
		return curves
	}
	one := func(value func(*sample) float64) [][]float64 {
		var curve []float64
		for i := range list {
			curve = append(curve, value(&list[i]))
		}
		return [][]float64{curve}
	}
	for _, g := range []struct {
		title  string
		curves [][]float64
	}{
		{"rate, Gb/s of payload", perGroup(func(i int, g *groupSample) float64 {
			_, length := r.interval(i)
			return float64(g.bytes) * 8 / 1e9 / length.Seconds()
		})},
		{"window, KB, mean of the flows", perGroup(func(_ int, g *groupSample) float64 {
			return float64(g.window) / 1e3
		})},
		{"round trip, us, mean of the flows", perGroup(func(_ int, g *groupSample) float64 {
			return float64(g.trip) / 1e3
		})},
		{"longest queue, KB", one(func(s *sample) float64 { return float64(s.queue) / 1e3 })},
		{"packets dropped or lost", one(func(s *sample) float64 { return float64(s.dropped) })},
		{"packets marked", one(func(s *sample) float64 { return float64(s.marked) })},
	} {
		fmt.Fprintf(w, "\n%s, from 0 to %s\n", g.title, writtenTime(r.took))
		if flat(g.curves) {
			fmt.Fprintf(w, "always %g\n", g.curves[0][0])
			continue
		}
		options := []asciigraph.Option{asciigraph.Height(graphHeight), asciigraph.Width(width),
			asciigraph.LowerBound(0), asciigraph.Precision(precision(g.curves))}
		if len(g.curves) > 1 {
			var digits []asciigraph.CharSet
			for k := range g.curves {
				digits = append(digits, asciigraph.CreateCharSet(strconv.Itoa(k+1)))
				fmt.Fprintf(w, "%d: %s\n", k+1, r.groups[k].Flows)
			}
			options = append(options, asciigraph.SeriesChars(digits...))
		}
		fmt.Fprintln(w, asciigraph.PlotMany(g.curves, options...))
	}
	if len(r.groups) > maxCurves {
		fmt.Fprintf(w, "\nthe first %d of %d groups of flows are drawn\n", maxCurves, len(r.groups))
	}
}

// flat reports whether all curves have one value.
func flat(curves [][]float64) bool {
	for _, c := range curves {
		for _, v := range c {
			if v != curves[0][0] {
				return false
			}
		}
	}
	return true
}

// precision returns how many digits follow the point of the values beside a graph.
func precision(curves [][]float64) uint {
	most := 0.0
	for _, c := range curves {
		most = max(most, slices.Max(c))
	}
	switch {
	case most < 10:
		return 2
	case most < 100:
		return 1
	}
	return 0
}

// printCSV prints the time series, a row for each sample and group of flows.
func (r *result) printCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"seconds", "flows", "bytes_per_second", "window_bytes",
		"round_trip_seconds", "longest_queue_bytes", "dropped", "marked"}}
	for i, s := range r.samples.list {
		at, since := r.interval(i)
		for k, g := range s.groups {
			rows = append(rows, []string{number(at.Seconds()), r.groups[k].Flows,
				number(float64(g.bytes) / since.Seconds()), strconv.Itoa(g.window),
				number(g.trip.Seconds()), strconv.Itoa(s.queue), strconv.Itoa(s.dropped),
				strconv.Itoa(s.marked)})
		}
	}
	return out.WriteAll(rows)
}

// interval returns the end of a sample and its length. The last one may be shorter.
func (r *result) interval(i int) (end, length monotime.Duration) {
	start := monotime.Duration(i) * r.samples.interval
	end = min(start+r.samples.interval, r.took)
	return end, end - start
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// groupJSON is a group's part of a sample.
type groupJSON struct {
	Flows     string  `json:"flows"`
	Rate      float64 `json:"bytes_per_second"`
	Window    int     `json:"window_bytes"`
	RoundTrip float64 `json:"round_trip_seconds"`
}

type sampleJSON struct {
	At      float64     `json:"seconds"`
	Groups  []groupJSON `json:"groups"`
	Queue   int         `json:"longest_queue_bytes"`
	Dropped int         `json:"dropped"`
	Marked  int         `json:"marked"`
}

// printJSON prints all there is.
func (r *result) printJSON(w io.Writer) error {
	var all struct {
		Seconds float64       `json:"seconds"`
		Groups  []groupResult `json:"groups"`
		Links   []linkResult  `json:"links"`
		Samples []sampleJSON  `json:"samples"`
	}
	all.Seconds, all.Groups, all.Links = r.took.Seconds(), r.groups, r.links
	for i, s := range r.samples.list {
		at, since := r.interval(i)
		one := sampleJSON{At: at.Seconds(), Queue: s.queue, Dropped: s.dropped, Marked: s.marked}
		for k, g := range s.groups {
			one.Groups = append(one.Groups, groupJSON{r.groups[k].Flows,
				float64(g.bytes) / since.Seconds(), g.window, g.trip.Seconds()})
		}
		all.Samples = append(all.Samples, one)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(all)
}
