// SPDX-License-Identifier: BSD-2-Clause

package chart

import (
	"fmt"
	"math"
	"slices"

	"github.com/go-analyze/charts/chartdraw"
)

// Spacing is the rule by which values have their place on an axis.
type Spacing int

const (
	Linear Spacing = iota // from 0
	Log
	Even // each value is as far from the next
)

// Axis is one axis of a chart.
type Axis struct {
	Label   string
	Spacing Spacing
	// Text is the label of a value; nil is its number.
	Text func(float64) string
}

// maxMarks is the number of marks that an axis has room for.
const maxMarks = 12

// scale has the places of an axis's values.
type scale struct {
	axis   *Axis
	values []float64 // of an even axis
	low    float64   // places of the ends
	high   float64
	marks  []chartdraw.Tick
}

// scale places values, which ascend. The marks are at the values, or at round numbers.
func (a *Axis) scale(values []float64, round bool) (*scale, error) {
	s := &scale{axis: a, values: values}
	if a.Spacing == Log && values[0] <= 0 {
		return nil, fmt.Errorf("chart: %s: a logarithmic axis has no place for %g", a.Label,
			values[0])
	}
	at := values
	if round {
		at = a.round(values[0], values[len(values)-1])
	}
	every := (len(at) + maxMarks - 1) / maxMarks
	for i := 0; i < len(at); i += every {
		s.marks = append(s.marks, chartdraw.Tick{Value: s.place(at[i]), Label: a.text(at[i])})
	}
	s.low = min(s.place(values[0]), s.place(at[0]))
	s.high = max(s.place(values[len(values)-1]), s.place(at[len(at)-1]))
	margin := (s.high - s.low) / 40
	if s.high == s.low { // one point has no extent
		margin = 1
	}
	if !round {
		s.low, s.high = s.low-margin, s.high+margin
	} else if s.high == s.low {
		s.high += margin
	}
	return s, nil
}

// round returns round numbers from the last one below low, or 0, to the first one above high.
func (a *Axis) round(low, high float64) (marks []float64) {
	if a.Spacing == Log {
		steps := []float64{1}
		if high/low < 100 {
			steps = []float64{1, 2, 5}
		}
		for decade := math.Floor(math.Log10(low)); ; decade++ {
			for _, step := range steps {
				v := step * math.Pow(10, decade)
				if v <= low && len(marks) == 1 {
					marks = marks[:0] // it begins at the last one below
				}
				if marks = append(marks, v); v >= high {
					return marks
				}
			}
		}
	}
	const about = 6 // marks
	step := math.Pow(10, math.Floor(math.Log10(max(high, math.SmallestNonzeroFloat64)/about)))
	for _, more := range []float64{2, 2.5, 2} { // 2, 5, 10
		if high/step <= about {
			break
		}
		step *= more
	}
	for i := 0.0; ; i++ {
		if marks = append(marks, i*step); i*step >= high && i > 0 {
			return marks
		}
	}
}

// place returns the place of a value.
func (s *scale) place(v float64) float64 {
	switch {
	case s.axis == nil:
		return 0
	case s.axis.Spacing == Log:
		return math.Log10(v)
	case s.axis.Spacing == Even:
		return float64(slices.Index(s.values, v))
	}
	return v
}

func (s *scale) extent() chartdraw.Range {
	return &fixedRange{chartdraw.ContinuousRange{Min: s.low, Max: s.high}}
}

// fixedRange is a range whose ends are not those of its marks.
type fixedRange struct{ chartdraw.ContinuousRange }

// SetMin implements chartdraw.Range.
func (*fixedRange) SetMin(float64) {}

// SetMax implements chartdraw.Range.
func (*fixedRange) SetMax(float64) {}

// grid has a line at each mark.
func (s *scale) grid() (lines []chartdraw.GridLine) {
	for _, m := range s.marks {
		lines = append(lines, chartdraw.GridLine{Value: m.Value})
	}
	return lines
}

func (a *Axis) text(v float64) string {
	if a.Text != nil {
		return a.Text(v)
	}
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%g M", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%g k", v/1e3)
	}
	return fmt.Sprintf("%.6g", v)
}
