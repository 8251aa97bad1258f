// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// marks are the lines of a page around what make bench writes.
type marks struct{ begin, end string }

var (
	tableMarks = marks{"<!-- make bench -->\n", "<!-- end of make bench -->\n"}
	chartMarks = marks{"<!-- charts of make bench -->\n", "<!-- end of charts -->\n"}
)

// tableHeader are the columns of the table in a page.
const tableHeader = "| | Verbena | beside | ratio | goal | spread |\n|---|---|---|---|---|---|\n"

// chartsFolder is beside a page.
const chartsFolder = "charts"

// cut returns the text before, between and behind the marks.
func (m marks) cut(text string) (head, between, tail string, err error) {
	head, rest, ok := strings.Cut(text, m.begin)
	between, tail, ok2 := strings.Cut(rest, m.end)
	if !ok || !ok2 {
		return "", "", "", fmt.Errorf("it has no lines %q and %q", m.begin, m.end)
	}
	return head + m.begin, between, m.end + tail, nil
}

// checkPage reports whether a page has the marks.
func checkPage(path string) error {
	b, err := os.ReadFile(path)
	for _, m := range []marks{tableMarks, chartMarks} {
		if err == nil {
			_, _, _, err = m.cut(string(b))
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// writePage replaces the table and the charts of a page.
func writePage(path string, r *Report) error {
	if err := checkPage(path); err != nil {
		return err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	all, err := r.drawAll(filepath.Join(filepath.Dir(path), chartsFolder))
	if err != nil {
		return err
	}
	text := string(b)
	for _, part := range []struct {
		marks
		text string
	}{{chartMarks, r.charts(all)}, {tableMarks, r.table()}} {
		head, _, tail, err := part.cut(text)
		if err != nil {
			return err
		}
		text = head + part.text + tail
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// charts are the pictures of a page, and the machine in words.
func (r *Report) charts(all []drawn) string {
	var t strings.Builder
	t.WriteString(wrap(fmt.Sprintf("Measured on %v.", r.Machine)))
	for _, d := range all {
		fmt.Fprintf(&t, "\n<picture>\n<source media=\"(prefers-color-scheme: dark)\"\n"+
			"srcset=\"%s/%s\">\n<img src=\"%s/%s\"\n%s</picture>\n",
			chartsFolder, filepath.Base(d.dark), chartsFolder, filepath.Base(d.light),
			wrap(fmt.Sprintf("alt=\"%s\">", html.EscapeString(d.alternative))))
	}
	return t.String()
}

// wrap breaks a paragraph into lines as long as those of pages.
func wrap(text string) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case column == 0:
		case column+1+n > pageColumns:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	b.WriteByte('\n')
	return b.String()
}

const pageColumns = 100

// table is the table of a page.
func (r *Report) table() string {
	var t strings.Builder
	t.WriteString(tableHeader)
	for i, row := range r.Results {
		if i == 0 || row.Topic != r.Results[i-1].Topic {
			fmt.Fprintf(&t, "| **%s** | | | | | |\n", row.Topic)
		}
		fmt.Fprintf(&t, "| %s |\n", strings.Join(row.cells(), " | "))
	}
	return t.String()
}
