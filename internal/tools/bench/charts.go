// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"verbena/internal/tools/chart"
)

// figure is a chart of the rows whose names match: its first group without the second is the
// series, and the second is the place on the axis.
type figure struct {
	file, title string
	unit        string
	rows        *regexp.Regexp // with groups: before, x, behind
	not         *regexp.Regexp // rows that are left out
	x, y        chart.Axis
}

var (
	bytesAxis = chart.Axis{Label: "message size", Log: true,
		Text: func(v float64) string { return bytesText(int(v)) }}
	sized  = regexp.MustCompile(`^(.*?)(\d+ (?:B|KiB|MiB))\b(.*)$`)
	others = regexp.MustCompile(`lost|beside|ranks|loaded|CPU|clients?\b|99 %`)
)

// figures are the charts of the page.
var figures = []figure{
	{"size-bandwidth.svg", "Bandwidth by message size", "MB/s", sized, others, bytesAxis,
		chart.Axis{Label: "MB/s", Log: true}},
	{"size-latency.svg", "Latency by message size", "µs", sized, others, bytesAxis,
		chart.Axis{Label: "µs", Log: true}},
	{"clients-requests.svg", "Requests of 64 bytes by clients", "/s",
		regexp.MustCompile(`^(.*), 64 B, (\d+) clients?(): requests$`), nil,
		chart.Axis{Label: "clients", Log: true}, chart.Axis{Label: "requests a second", Log: true}},
	{"ranks-time.svg", "Allreduce of 8 bytes by ranks", "µs",
		regexp.MustCompile(`^(.*), (\d+) ranks(): allreduce 8 B$`), nil,
		chart.Axis{Label: "ranks", Log: true}, chart.Axis{Label: "µs", Log: true}},
	{"loss-goodput.svg", "Goodput by loss", "MB/s",
		regexp.MustCompile(`^(.*), ([\d.]+) % lost(.*)$`), nil, chart.Axis{Label: "% lost"},
		chart.Axis{Label: "MB/s"}},
}

// leastPoints is the number of points of a line.
const leastPoints = 2

var errNoRows = errors.New("no rows for it")

// draw returns the chart of the results, errNoRows if none has a line.
func (f figure) draw(results []Result, note string) ([]byte, error) {
	c := chart.Chart{Title: f.title, Note: note, X: f.x, Y: f.y}
	type line struct{ ours, beside chart.Series }
	var lines []*line
	byName := map[string]*line{}
	for _, r := range results {
		m := f.rows.FindStringSubmatch(r.Name)
		if m == nil || r.Unit != f.unit || f.not != nil && f.not.MatchString(r.Name) {
			continue
		}
		name := strings.Trim(strings.ReplaceAll(m[1]+m[3], " ,", ","), " ,")
		l := byName[name]
		if l == nil {
			l = &line{chart.Series{Name: name, Colour: len(lines)},
				chart.Series{Name: r.Beside + ", beside " + name, Colour: len(lines), Dashed: true}}
			lines, byName[name] = append(lines, l), l
		}
		x := place(m[2])
		l.ours.Points = append(l.ours.Points, chart.Point{X: x, Y: r.Value})
		if r.Baseline != nil && r.Beside == "none lost" {
			l.ours.Points = append(l.ours.Points, chart.Point{X: 0, Y: *r.Baseline})
		} else if r.Baseline != nil {
			l.beside.Points = append(l.beside.Points, chart.Point{X: x, Y: *r.Baseline})
		}
	}
	colour := 0
	for _, l := range lines {
		if len(l.ours.Points) < leastPoints {
			continue
		}
		for _, s := range []chart.Series{l.ours, l.beside} {
			if len(s.Points) > 0 {
				s.Colour = colour
				c.Series = append(c.Series, s)
			}
		}
		colour++
	}
	if len(c.Series) == 0 {
		return nil, errNoRows
	}
	return c.SVG()
}

// place returns the place of "64 KiB" or "20" on an axis.
func place(text string) float64 {
	number, unit, _ := strings.Cut(text, " ")
	v, _ := strconv.ParseFloat(number, 64) // the pattern has checked it
	return v * map[string]float64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20}[unit]
}
