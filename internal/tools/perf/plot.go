// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"fmt"
	"os"

	"verbena/internal/tools/chart"
)

// plotFile opens the file of --plot; nil is none. Its old content stays until draw.
func (o *options) plotFile() (*os.File, error) {
	if o.plot == "" {
		return nil, nil
	}
	f, err := os.OpenFile(o.plot, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("--plot: %w", err)
	}
	return f, nil
}

// closePlot closes the file of --plot, or nil. It removes one in which nothing was drawn.
func closePlot(f *os.File) {
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		os.Remove(f.Name())
	}
	f.Close()
}

// draw draws the results by message size.
func (r *reporter) draw(to *os.File) error {
	c := chart.Chart{Title: r.o.test.title(), X: chart.Axis{Label: "bytes of a message",
		Spacing: chart.Log, Text: sizeText}, Y: chart.Axis{Spacing: chart.Log}}
	c.Note = fmt.Sprintf("%s, %s, path MTU %d. %v", r.device, r.o.service, r.mtu,
		chart.ThisMachine())
	var usual, extreme chart.Series
	add := func(size int, v, most float64) {
		if v > 0 { // nothing arrived has no place
			usual.Points = append(usual.Points, chart.Point{X: float64(size), Y: v})
			extreme.Points = append(extreme.Points, chart.Point{X: float64(size), Y: most})
		}
	}
	extreme.Dashed = true
	for _, row := range r.rows {
		switch row := row.(type) {
		case BWRow:
			c.Y.Label, usual.Name, extreme.Name = row.Unit, "average", "best 10 ms"
			add(row.Size, row.Average, row.Peak)
		case LatResult:
			c.Y.Label, usual.Name, extreme.Name = "µs", "typical", "99 %"
			add(row.Size, row.Typical, row.P99)
		}
	}
	c.Series = []chart.Series{usual, extreme}
	svg, err := c.SVG(chart.Either)
	if err == nil {
		_ = to.Truncate(0) // it may be a pipe
		_, err = to.Write(svg)
	}
	if err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	return nil
}

// sizeText is a size in bytes, or with perftest's units.
func sizeText(v float64) string {
	switch {
	case v >= mebibyte:
		return fmt.Sprintf("%g Mi", v/mebibyte)
	case v >= 1024:
		return fmt.Sprintf("%g Ki", v/1024)
	}
	return fmt.Sprint(v)
}
