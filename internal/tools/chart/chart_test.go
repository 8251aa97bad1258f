// SPDX-License-Identifier: BSD-2-Clause

package chart

import (
	"bytes"
	"encoding/xml"
	"io"
	"strings"
	"testing"
)

func sample() *Chart {
	return &Chart{Title: "WRITE <beside> & TCP", Note: "a machine", X: Axis{Label: "bytes", Log: true}, Y: Axis{Label: "MB/s", Log: true},
		Series: []Series{{Name: "same host", Points: []Point{{65536, 3000}, {2, 10}}}, {Name: "<script>TCP</script>", Points: []Point{{2, 5}, {65536, 1500}}, Dashed: true}}}
}

// The file is XML, has all texts, and colours for both themes; nothing in it is markup of a name.
func TestSVG(t *testing.T) {
	svg, err := sample().SVG()
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
	for _, want := range []string{"WRITE <beside> & TCP", "bytes", "MB/s", "same host", "<script>TCP</script>", "a machine", "65536", "prefers-color-scheme:dark"} {
		if !strings.Contains(texts, want) {
			t.Errorf("no %q in\n%s", want, texts)
		}
	}
	if body := svg[bytes.Index(svg, []byte("</style>")):]; bytes.Contains(body, []byte(":#")) {
		t.Errorf("a colour has no name: %s", body)
	}
}

func TestChartsThatCannotBeDrawn(t *testing.T) {
	c := sample()
	c.Series[0].Points[0].Y = 0
	if _, err := c.SVG(); err == nil || !strings.Contains(err.Error(), "logarithmic") {
		t.Errorf("%v", err)
	}
	if _, err := (&Chart{}).SVG(); err == nil {
		t.Error("an empty chart is drawn")
	}
	one := &Chart{Series: []Series{{Name: "one", Points: []Point{{1, 1}}}}}
	if _, err := one.SVG(); err != nil {
		t.Error(err)
	}
}
