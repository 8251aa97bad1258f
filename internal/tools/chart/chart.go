// SPDX-License-Identifier: BSD-2-Clause

package chart

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Point is a place in a chart.
type Point struct{ X, Y float64 }

// Series is a line through points with a name.
type Series struct {
	Name   string
	Points []Point
	Colour int  // two series of one colour belong together
	Dashed bool // as those of peers are
}

// Axis is one axis of a chart.
type Axis struct {
	Label string
	Log   bool
	// Text is the label of a value; nil is its number.
	Text func(float64) string
}

// Chart is a title, two axes, and lines.
type Chart struct {
	Title  string
	Note   string // below: where it was measured
	X, Y   Axis
	Series []Series
}

const (
	width       = 8 * vg.Inch
	height      = 4.5 * vg.Inch
	legendWidth = 2.6 * vg.Inch
	noteHeight  = 0.3 * vg.Inch
)

// SVG returns the chart as a file.
func (c *Chart) SVG() ([]byte, error) {
	if len(c.Series) == 0 {
		return nil, errors.New("chart: there is nothing to draw")
	}
	p := plot.New()
	p.BackgroundColor = paper
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X.Label, c.Y.Label
	for _, f := range []*font.Font{&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font,
		&p.Y.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font,
		&p.Legend.TextStyle.Font} {
		f.Variant = "Sans"
	}
	p.Title.TextStyle.Font.Size, p.Legend.TextStyle.Font.Size = 13, 8
	p.Title.Padding = vg.Points(8)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = faint, faint
	p.Add(grid)
	legend := plot.NewLegend()
	legend.TextStyle = p.Legend.TextStyle
	legend.Top, legend.Left, legend.Padding = true, true, vg.Points(2)
	for _, s := range c.Series {
		if err := add(p, &legend, s, c.X.Log || c.Y.Log); err != nil {
			return nil, fmt.Errorf("chart: %s: %w", s.Name, err)
		}
	}
	c.scale(p)
	canvas := vgsvg.New(width, height)
	all := draw.New(canvas)
	all.FillPolygon(paper, []vg.Point{{}, {X: width}, {X: width, Y: height}, {Y: height}})
	p.Draw(draw.Crop(all, vg.Points(8), -legendWidth, noteHeight, -vg.Points(8)))
	legend.Draw(draw.Crop(all, width-legendWidth+vg.Points(10), 0, noteHeight, -vg.Points(30)))
	note := p.Legend.TextStyle
	all.FillText(note, vg.Point{X: vg.Points(10), Y: vg.Points(8)}, c.Note)
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, err
	}
	return themed(b.Bytes(), c.Title), nil
}

// add draws one series and its entry in the legend.
func add(p *plot.Plot, legend *plot.Legend, s Series, log bool) error {
	points := make(plotter.XYs, 0, len(s.Points))
	for _, at := range s.Points {
		if log && (at.X <= 0 || at.Y <= 0) {
			return fmt.Errorf("a logarithmic axis has no place for (%g, %g)", at.X, at.Y)
		}
		points = append(points, plotter.XY{X: at.X, Y: at.Y})
	}
	slices.SortFunc(points, func(a, b plotter.XY) int {
		return cmp.Compare(a.X, b.X)
	})
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	c := inks[s.Colour%len(inks)]
	line.Color, line.Width = c, vg.Points(1.6)
	dots.Color, dots.Shape, dots.Radius = c, draw.CircleGlyph{}, vg.Points(2.2)
	if s.Dashed {
		line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		dots.Shape = draw.RingGlyph{}
	}
	p.Add(line, dots)
	legend.Add(s.Name, line, dots)
	return nil
}

// scale sets the axes. Those of x have a mark at each value.
func (c *Chart) scale(p *plot.Plot) {
	marks := map[float64]bool{}
	for _, s := range c.Series {
		for _, at := range s.Points {
			marks[at.X] = true
		}
	}
	var ticks plot.ConstantTicks
	for x := range marks {
		ticks = append(ticks, plot.Tick{Value: x, Label: c.X.text(x)})
	}
	slices.SortFunc(ticks, func(a, b plot.Tick) int { return cmp.Compare(a.Value, b.Value) })
	if len(ticks) <= maxMarks {
		p.X.Tick.Marker = ticks
	} else {
		p.X.Tick.Marker = labelled{marker(c.X.Log), &c.X}
	}
	p.Y.Tick.Marker = labelled{marker(c.Y.Log), &c.Y}
	if c.X.Log {
		p.X.Scale = plot.LogScale{}
	}
	if c.Y.Log {
		p.Y.Scale = plot.LogScale{}
		p.Y.Min = math.Pow(10, math.Floor(math.Log10(p.Y.Min)))
		p.Y.Max = math.Pow(10, math.Ceil(math.Log10(p.Y.Max)))
	} else {
		p.Y.Min = 0
	}
	if p.X.Min == p.X.Max { // one point has no extent
		p.X.Min, p.X.Max = p.X.Min/2, p.X.Max*2+1
	}
	if p.Y.Min == p.Y.Max {
		p.Y.Max = p.Y.Min*10 + 1
	}
}

// maxMarks is the number of marks that an axis has room for.
const maxMarks = 12

func marker(log bool) plot.Ticker {
	if log {
		return plot.LogTicks{}
	}
	return plot.DefaultTicks{}
}

// labelled gives marks the texts of an axis.
type labelled struct {
	plot.Ticker
	axis *Axis
}

// Ticks implements plot.Ticker.
func (l labelled) Ticks(least, most float64) []plot.Tick {
	ticks := l.Ticker.Ticks(least, most)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = l.axis.text(ticks[i].Value)
		}
	}
	return ticks
}

func (a *Axis) text(v float64) string {
	if a.Text != nil {
		return a.Text(v)
	}
	return fmt.Sprintf("%.6g", v)
}

// Colours that themed replaces.
var (
	paper = color.RGBA{0xfe, 0xfe, 0xfe, 0xff}
	faint = color.RGBA{0xe0, 0xe0, 0xe1, 0xff}
)
