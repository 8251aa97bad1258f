// SPDX-License-Identifier: BSD-2-Clause

package chart

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/go-analyze/charts/chartdraw"
	"github.com/go-analyze/charts/chartdraw/drawing"
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

// Chart is a title, two axes, and lines.
type Chart struct {
	Title  string
	Note   string // below: where it was measured
	Text   string // the figures, for readers who do not see the lines
	X, Y   Axis
	Series []Series
}

// Sizes in pixels.
const (
	width, height = 840, 440
	topEdge       = 48 // the title's
	bottomEdge    = 34 // the note's
	leftEdge      = 14
	axisEdge      = 36 // of the label of y
	legendGap     = 22
	legendMark    = 30 // length of the line before a name
	legendStep    = 19
	rightEdge     = 12
)

// Sizes of letters in points.
const (
	titleSize = 12
	axisSize  = 8.5
	smallSize = 7.5
)

// SVG returns the chart as a file.
func (c *Chart) SVG(theme Theme) ([]byte, error) {
	places := c.values(func(p Point) float64 { return p.X })
	if len(places) == 0 {
		return nil, errors.New("chart: there is nothing to draw")
	}
	x, err := c.X.scale(places, false)
	if err != nil {
		return nil, err
	}
	y, err := c.Y.scale(c.values(func(p Point) float64 { return p.Y }), true)
	if err != nil {
		return nil, err
	}
	names := chartdraw.Style{FontStyle: chartdraw.FontStyle{FontSize: smallSize, FontColor: ink,
		Font: chartdraw.GetDefaultFont()}}
	line := chartdraw.Style{StrokeColor: ink, StrokeWidth: 1, FontStyle: names.FontStyle}
	line.FontSize = axisSize
	grid := chartdraw.Style{StrokeColor: faint, StrokeWidth: 1}
	d := chartdraw.Chart{
		Width: width, Height: height,
		Background: chartdraw.Style{FillColor: paper, Padding: chartdraw.NewBox(topEdge, axisEdge,
			c.legendWidth(names), bottomEdge)},
		Canvas: chartdraw.Style{FillColor: paper},
		XAxis: chartdraw.XAxis{Name: c.X.Label, NameStyle: line, Style: line, Range: x.extent(),
			Ticks: x.marks, GridLines: x.grid(), GridMajorStyle: grid},
		YAxis: chartdraw.YAxis{Style: chartdraw.Hidden(), Range: y.extent()},
		// The secondary axis is the one on the left.
		YAxisSecondary: chartdraw.YAxis{Name: c.Y.Label, NameStyle: line, Style: line,
			Range: y.extent(), Ticks: y.marks, GridLines: y.grid(), GridMajorStyle: grid},
	}
	d.YAxisSecondary.NameStyle.TextRotationDegrees = 270
	for _, s := range c.Series {
		d.Series = append(d.Series, s.line(x, y))
	}
	d.Elements = []chartdraw.Renderable{c.words(names)}
	var b bytes.Buffer
	if err := d.Render(chartdraw.SVG, &b); err != nil {
		return nil, fmt.Errorf("chart: %w", err)
	}
	return theme.finish(b.Bytes(), c.Title, c.Text), nil
}

// values are the distinct values of all points on an axis, ascending.
func (c *Chart) values(of func(Point) float64) []float64 {
	var v []float64
	for _, s := range c.Series {
		for _, p := range s.Points {
			v = append(v, of(p))
		}
	}
	slices.Sort(v)
	return slices.Compact(v)
}

// line returns a series in the drawing's coordinates.
func (s *Series) line(x, y *scale) chartdraw.Series {
	points := slices.SortedFunc(slices.Values(s.Points), func(a, b Point) int {
		return cmp.Compare(a.X, b.X)
	})
	colour := inks[s.Colour%len(inks)]
	line := chartdraw.ContinuousSeries{Name: s.Name, YAxis: chartdraw.YAxisSecondary,
		Style: chartdraw.Style{StrokeColor: colour, StrokeWidth: 2, DotColor: colour, DotWidth: 3}}
	if s.Dashed {
		line.Style.StrokeDashArray, line.Style.StrokeWidth = []float64{5, 4}, 1.5
		line.Style.DotWidth = 2
	}
	for _, p := range points {
		line.XValues = append(line.XValues, x.place(p.X))
		line.YValues = append(line.YValues, y.place(p.Y))
	}
	return line
}

// legendWidth is the width of the legend with its margins.
func (c *Chart) legendWidth(style chartdraw.Style) int {
	r, widest := chartdraw.SVG(width, height), 0
	for _, s := range c.Series {
		widest = max(widest, chartdraw.Draw.MeasureText(r, s.Name, style).Width())
	}
	return legendGap + legendMark + widest*9/8 + rightEdge // letters of a reader may be wider
}

// words writes the title, the legend and the note.
func (c *Chart) words(small chartdraw.Style) chartdraw.Renderable {
	return func(r chartdraw.Renderer, canvas chartdraw.Box, _ chartdraw.Style) {
		title := small
		title.FontSize = titleSize
		chartdraw.Draw.Text(r, c.Title, leftEdge, topEdge/2+6, title)
		chartdraw.Draw.Text(r, c.Note, leftEdge, height-10, small)
		left, y := canvas.Right+legendGap, canvas.Top+6
		for _, s := range c.Series {
			line := s.line(&scale{}, &scale{}).GetStyle()
			line.GetStrokeOptions().WriteDrawingOptionsToRenderer(r)
			r.MoveTo(left, y)
			r.LineTo(left+legendMark-8, y)
			r.Stroke()
			chartdraw.Draw.Text(r, s.Name, left+legendMark, y+4, small)
			y += legendStep
		}
	}
}

// placeholder is a colour that a theme replaces.
func placeholder(role int) drawing.Color {
	return drawing.Color{R: 1, G: 2, B: uint8(role + 3), A: 255}
}
