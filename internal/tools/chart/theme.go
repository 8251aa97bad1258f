// SPDX-License-Identifier: BSD-2-Clause

package chart

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"strings"
)

// inks are the colours of series on light paper.
var inks = []color.RGBA{{0x00, 0x5f, 0xb8, 0xff}, {0xc2, 0x41, 0x0c, 0xff},
	{0x0f, 0x76, 0x6e, 0xff}, {0x7e, 0x22, 0xce, 0xff}, {0xa1, 0x62, 0x07, 0xff},
	{0xbe, 0x18, 0x5d, 0xff}, {0x3f, 0x62, 0x12, 0xff}, {0x47, 0x55, 0x69, 0xff}}

// darkInks are the same on dark paper.
var darkInks = []string{"#58a6ff", "#ff9e64", "#4fd1c5", "#c792ea", "#e3c15a", "#ff7eb6", "#9ccc65",
	"#a9b4c2"}

// themed replaces the colours of a drawing by names, which have colours for light and dark.
func themed(svg []byte, title string) []byte {
	var light, dark strings.Builder
	name := func(old, name, onLight, onDark string) {
		svg = bytes.ReplaceAll(svg, []byte(old), []byte("var(--"+name+")"))
		fmt.Fprintf(&light, "--%s:%s;", name, onLight)
		fmt.Fprintf(&dark, "--%s:%s;", name, onDark)
	}
	hex := func(c color.RGBA) string { return fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B) }
	name(hex(paper), "paper", "#ffffff", "#0d1117")
	name(hex(faint), "grid", "#e0e0e0", "#30363d")
	name("#000000", "ink", "#1f2328", "#e6edf3")
	for i, c := range inks {
		name(hex(c), fmt.Sprintf("line%d", i), hex(c), darkInks[i])
	}
	svg = bytes.ReplaceAll(svg, []byte("font-family:Liberation Sans"),
		[]byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif"))
	end := bytes.IndexByte(svg[bytes.Index(svg, []byte("<svg")):], '>') +
		bytes.Index(svg, []byte("<svg")) + 1
	style := fmt.Sprintf("\n<title>%s</title>\n<style>:root{%s}text{fill:var(--ink)}\n"+
		"@media(prefers-color-scheme:dark){:root{%s}}</style>", html.EscapeString(title),
		light.String(), dark.String())
	return append(append(append([]byte{}, svg[:end]...), style...), svg[end:]...)
}
