// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"verbena/internal/tools/chart"
)

// figure is a chart of rows. The second group of a row's name is the place on the axis, the other
// two are the series.
type figure struct {
	file, title string // the file without its ending
	topic       string // of the rows; empty is any
	unit        string
	rows        *regexp.Regexp // with groups: before, x, behind
	x, y        chart.Axis
}

var (
	bytesAxis = chart.Axis{Label: "bytes of a message", Spacing: chart.Log,
		Text: func(v float64) string { return bytesText(int(v)) }}
	sizedRow = regexp.MustCompile(`^(.*?)(\d+ (?:B|KiB|MiB))\b(.*)$`)
)

// figures are the charts of the page.
var figures = []figure{
	{"size-bandwidth", "Bandwidth by message size", sizesTopic, "MB/s", sizedRow, bytesAxis,
		chart.Axis{Label: "payload a second", Spacing: chart.Log,
			Text: func(v float64) string { return quantity(v, "MB/s") }}},
	{"size-latency", "Latency by message size", sizesTopic, "µs", sizedRow, bytesAxis,
		chart.Axis{Label: "µs, one way", Spacing: chart.Log}},
	{"clients-requests", "Requests of 64 bytes to a server in C, by clients", "", "/s",
		regexp.MustCompile(`^C (.*), 64 B, (\d+) clients?(): requests$`),
		chart.Axis{Label: "clients", Spacing: chart.Log},
		chart.Axis{Label: "requests a second", Spacing: chart.Log}},
	{"ranks-time", "MPI_Allreduce of 8 bytes by ranks", "", "µs",
		regexp.MustCompile(`^(.*), (\d+) ranks(): allreduce 8 B$`),
		chart.Axis{Label: "ranks, on all cores", Spacing: chart.Log},
		chart.Axis{Label: "µs", Spacing: chart.Log}},
	{"loss-goodput", "Goodput by loss, 1 Gb/s and a round trip of 10 ms, in virtual time",
		lossTopic, "MB/s", regexp.MustCompile(`^(.*), 1 Gbit, 10 ms, ([\d.]+) % lost()$`),
		chart.Axis{Label: "% of packets lost, each way", Spacing: chart.Even},
		chart.Axis{Label: "MB/s"}},
}

// leastPoints is the number of points of a line.
const leastPoints = 2

var errNoRows = errors.New("no rows for it")

// of returns the parts of a row's name that say series and place, if the figure has the row.
func (f *figure) of(topic, name, unit string) (series, x string, ok bool) {
	m := f.rows.FindStringSubmatch(name)
	if m == nil || unit != f.unit || f.topic != "" && topic != f.topic {
		return "", "", false
	}
	return strings.Trim(strings.ReplaceAll(m[1]+m[3], " ,", ","), " ,"), m[2], true
}

// line is a series of a figure, and the peers beside it.
type line struct {
	chart.Series
	peers []*chart.Series // named by the peer
}

// chart returns the chart of the results, errNoRows if none has a line.
func (f *figure) chart(results []Result, note string) (*chart.Chart, error) {
	var lines []*line
	var text []string
	for _, r := range results {
		name, x, ok := f.of(r.Topic, r.Name, r.Unit)
		if !ok {
			continue
		}
		text = append(text, r.sentence())
		at := slices.IndexFunc(lines, func(l *line) bool { return l.Name == name })
		if at < 0 {
			at, lines = len(lines), append(lines, &line{Series: chart.Series{Name: name}})
		}
		lines[at].add(place(x), r)
	}
	lines = slices.DeleteFunc(lines, func(l *line) bool { return len(l.Points) < leastPoints })
	if len(lines) == 0 {
		return nil, errNoRows
	}
	return &chart.Chart{Title: f.title, Note: note, Text: strings.Join(text, "\n"), X: f.x, Y: f.y,
		Series: arrange(lines)}, nil
}

// add adds the points of a row.
func (l *line) add(x float64, r Result) {
	put(&l.Series, chart.Point{X: x, Y: r.Value})
	if r.Baseline == nil {
		return
	}
	at := slices.IndexFunc(l.peers, func(p *chart.Series) bool { return p.Name == r.Beside })
	if at < 0 {
		at, l.peers = len(l.peers), append(l.peers, &chart.Series{Name: r.Beside, Dashed: true})
	}
	put(l.peers[at], chart.Point{X: x, Y: *r.Baseline})
}

// put adds a point where the series has none.
func put(s *chart.Series, p chart.Point) {
	if !slices.ContainsFunc(s.Points, func(q chart.Point) bool { return q.X == p.X }) {
		s.Points = append(s.Points, p)
	}
}

// arrange gives lines their colours. Peers that were measured once for several lines are one line.
func arrange(lines []*line) (all []chart.Series) {
	var peers []chart.Series
	for i, l := range lines {
		l.Colour = i
		all = append(all, l.Series)
		for _, p := range l.peers {
			same := slices.IndexFunc(peers, func(q chart.Series) bool {
				return q.Name == p.Name && slices.Equal(q.Points, p.Points)
			})
			if same < 0 {
				p.Colour = i
				peers = append(peers, *p)
			}
		}
	}
	next := len(lines)
	named := slices.Clone(peers)
	for i, p := range peers {
		alike := func(q chart.Series) bool { return q.Name == p.Name }
		if i != slices.IndexFunc(peers, alike) || slices.ContainsFunc(peers[i+1:], alike) {
			named[i].Name += " beside " + lines[p.Colour].Name
		} else {
			named[i].Colour, next = next, next+1
		}
	}
	return append(all, named...)
}

// sentence is a row in words.
func (r *Result) sentence() string {
	cells := r.cells()
	s := cells[0] + ": " + cells[1]
	if cells[2] != "" {
		s += ", " + cells[2]
	}
	return s
}

// place returns the place of "64 KiB" or "20" on an axis.
func place(text string) float64 {
	number, unit, _ := strings.Cut(text, " ")
	v, _ := strconv.ParseFloat(number, 64) // the pattern has checked it
	return v * map[string]float64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20}[unit]
}

// alternative is the text in the place of a chart.
func alternative(c *chart.Chart) string {
	var names []string
	for _, s := range c.Series {
		names = append(names, s.Name)
	}
	return fmt.Sprintf("%s: %s", c.Title, strings.Join(names, "; "))
}
