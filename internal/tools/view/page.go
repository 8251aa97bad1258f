// SPDX-License-Identifier: BSD-2-Clause

package view

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	"verbena/internal/timeline"
)

// The parts of the page.
var (
	//go:embed page/index.html
	index string
	//go:embed page/view.css
	style string
	//go:embed page/data.js
	dataScript string
	//go:embed page/filter.js
	filterScript string
	//go:embed page/draw.js
	drawScript string
	//go:embed page/series.js
	seriesScript string
	//go:embed page/ui.js
	uiScript string
)

// script returns the scripts as one, whose names are its own.
func script() string {
	all := dataScript + filterScript + drawScript + seriesScript + uiScript
	return "(() => {\n'use strict';\n" + all + "})();\n"
}

// hash returns the source of a Content-Security-Policy that allows exactly this text.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// policy forbids all but the page's own script and style.
func policy() string {
	return fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; base-uri 'none'; "+
		"form-action 'none'", hash(script()), hash(style))
}

// WritePage writes the page of a timeline.
func WritePage(w io.Writer, t *timeline.Timeline) error {
	e, err := encode(t)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 1<<16)
	rest := index
	for _, part := range []struct {
		name string
		put  func()
	}{
		{"Policy", func() { out.WriteString(policy()) }},
		{"Style", func() { out.WriteString(style) }},
		{"Meta", func() { writeBase64(out, e.meta) }},
		{"Rows", func() { writeBase64(out, e.rows) }},
		{"Details", func() { writeBase64(out, e.details) }},
		{"Script", func() { out.WriteString(script()) }},
	} {
		before, after, ok := strings.Cut(rest, "{{."+part.name+"}}")
		if !ok {
			panic("the page has no place for " + part.name)
		}
		out.WriteString(before)
		part.put()
		rest = after
	}
	out.WriteString(rest)
	return out.Flush()
}

func writeBase64(w io.Writer, b []byte) {
	e := base64.NewEncoder(base64.StdEncoding, w)
	e.Write(b)
	e.Close()
}
