// SPDX-License-Identifier: BSD-2-Clause

package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"testing"
)

func sample() *Chart {
	return &Chart{Title: "WRITE <beside> & TCP", Note: "a machine", Text: "2 & 3", X: Axis{Label: "bytes", Spacing: Log}, Y: Axis{Label: "MB/s", Spacing: Log},
		Series: []Series{{Name: "same host", Points: []Point{{65536, 3000}, {2, 10}}}, {Name: "<script>TCP</script>", Points: []Point{{2, 5}, {65536, 1500}}, Dashed: true}}}
}

// Each theme's file is XML and has all texts; nothing in it is markup of a name. It has colours of
// its theme alone, or of both.
func TestSVG(t *testing.T) {
	for theme, colours := range map[Theme][]bool{Either: {true, true}, Light: {true, false}, Dark: {false, true}} {
		svg, err := sample().SVG(theme)
		if err != nil {
			t.Fatal(err)
		}
		texts := ""
		d := xml.NewDecoder(bytes.NewReader(svg))
		for {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%v in\n%s", err, svg)
			}
			switch x := token.(type) {
			case xml.CharData:
				texts += string(x) + "\n"
			case xml.StartElement:
				if x.Name.Local == "script" {
					t.Error("a name became markup")
				}
			}
		}
		for _, want := range []string{"WRITE <beside> & TCP", "2 & 3", "bytes", "MB/s", "same host", "<script>TCP</script>", "a machine", "65.536 k", "\n1000\n"} {
			if !strings.Contains(texts, want) {
				t.Errorf("no %q in\n%s", want, texts)
			}
		}
		for i, of := range []func(role) string{func(r role) string { return r.light }, func(r role) string { return r.dark }} {
			for _, r := range roles[:4] {
				if bytes.Contains(svg, []byte(of(r))) != colours[i] {
					t.Errorf("theme %d, %s: %q", theme, r.name, of(r))
				}
			}
		}
		if bytes.Contains(svg, []byte("rgb(1,2,")) {
			t.Errorf("a colour has no name: %s", svg)
		}
	}
}

func TestChartsThatCannotBeDrawn(t *testing.T) {
	c := sample()
	c.Series[0].Points[0].Y = 0
	if _, err := c.SVG(Light); err == nil || !strings.Contains(err.Error(), "logarithmic") {
		t.Errorf("%v", err)
	}
	if _, err := (&Chart{}).SVG(Light); err == nil {
		t.Error("an empty chart is drawn")
	}
	for _, y := range []Spacing{Linear, Log} {
		for _, x := range []Spacing{Linear, Log, Even} {
			one := &Chart{X: Axis{Spacing: x}, Y: Axis{Spacing: y}, Series: []Series{{Name: "one", Points: []Point{{1, 1}}}}}
			if _, err := one.SVG(Light); err != nil {
				t.Error(x, y, err)
			}
		}
	}
}

// Marks are round numbers around the values.
func TestRoundMarks(t *testing.T) {
	for _, c := range []struct {
		spacing   Spacing
		low, high float64
		want      string
	}{
		{Linear, 0, 126, "[0 50 100 150]"}, {Linear, 3, 9, "[0 2 4 6 8 10]"}, {Linear, 0, 0.9, "[0 0.2 0.4 0.6 0.8 1]"}, {Linear, 0, 6e6, "[0 1e+06 2e+06 3e+06 4e+06 5e+06 6e+06]"},
		{Log, 1.8, 8300, "[1 10 100 1000 10000]"}, {Log, 30, 900, "[20 50 100 200 500 1000]"}, {Log, 1, 1, "[1]"}, {Log, 0.3, 0.7, "[0.2 0.5 1]"},
	} {
		a := Axis{Spacing: c.spacing}
		if got := fmt.Sprintf("%.5g", a.round(c.low, c.high)); got != c.want {
			t.Errorf("%d, %g to %g: %s, want %s", c.spacing, c.low, c.high, got, c.want)
		}
	}
	if _, err := (&Chart{Series: []Series{{Points: []Point{{0, 0}, {1, 0}}}}}).SVG(Light); err != nil {
		t.Error(err)
	}
}
