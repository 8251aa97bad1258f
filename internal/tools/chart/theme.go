// SPDX-License-Identifier: BSD-2-Clause

package chart

import (
	"bytes"
	"fmt"
	"html"
	"strings"

	"github.com/go-analyze/charts/chartdraw/drawing"
)

// Theme chooses the colours of a file.
type Theme int

const (
	Either Theme = iota // light or dark, as the reader prefers
	Light
	Dark
)

// role is a use of colours.
type role struct{ name, light, dark string }

// roles have the colours of both themes. The lines are behind the first three.
var roles = []role{
	{"paper", "#ffffff", "#0d1117"}, {"grid", "#e0e0e0", "#30363d"}, {"ink", "#1f2328", "#e6edf3"},
	{"line0", "#005fb8", "#58a6ff"}, {"line1", "#c2410c", "#ff9e64"},
	{"line2", "#0f766e", "#4fd1c5"}, {"line3", "#7e22ce", "#c792ea"},
	{"line4", "#a16207", "#e3c15a"}, {"line5", "#be185d", "#ff7eb6"},
	{"line6", "#3f6212", "#9ccc65"}, {"line7", "#475569", "#a9b4c2"},
}

// Placeholders of the roles.
var (
	paper, faint, ink = placeholder(0), placeholder(1), placeholder(2)
	inks              = linePlaceholders()
)

func linePlaceholders() (all []drawing.Color) {
	for i := range roles[3:] {
		all = append(all, placeholder(i+3))
	}
	return all
}

// finish puts the theme's colours into a drawing, and the words for readers who do not see it.
func (t Theme) finish(svg []byte, title, text string) []byte {
	var light, dark strings.Builder
	for i, r := range roles {
		colour := "var(--" + r.name + ")"
		switch t {
		case Light:
			colour = r.light
		case Dark:
			colour = r.dark
		}
		svg = bytes.ReplaceAll(svg, []byte(placeholder(i).String()), []byte(colour))
		fmt.Fprintf(&light, "--%s:%s;", r.name, r.light)
		fmt.Fprintf(&dark, "--%s:%s;", r.name, r.dark)
	}
	svg = bytes.ReplaceAll(svg, []byte("font-family:'Roboto Medium',sans-serif"),
		[]byte("font-family:Helvetica,Arial,sans-serif"))
	svg = bytes.ReplaceAll(svg, []byte("/><"), []byte("/>\n<"))
	svg = bytes.ReplaceAll(svg, []byte("</text><"), []byte("</text>\n<"))
	head := fmt.Sprintf("\n<title>%s</title>\n", html.EscapeString(title))
	if text != "" {
		head += fmt.Sprintf("<desc>%s</desc>\n", html.EscapeString(text))
	}
	if t == Either {
		head += fmt.Sprintf("<style>:root{%s}\n@media(prefers-color-scheme:dark){:root{%s}}"+
			"</style>\n", light.String(), dark.String())
	}
	end := bytes.IndexByte(svg, '>') + 1
	return append([]byte(string(svg[:end])+head), append(svg[end:], '\n')...)
}
