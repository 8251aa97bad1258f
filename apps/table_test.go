// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && apps

package apps

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// row is the result of one program.
type row struct {
	debian, program string
	labels          []string
	ran, passed     map[string]int // by column
	failed          []string
	cannot          []impossible
	partly          string
}

// impossible lists programs that no device of this kind can run, for one reason.
type impossible struct {
	reason string
	labels []string
}

// summary collects the rows in the order in which programs ran first.
type summary struct{ rows []*row }

var results summary

func (s *summary) empty() bool { return len(s.rows) == 0 }

func (s *summary) add(debian string, x exchange, d device, ok bool) {
	i := slices.IndexFunc(s.rows, func(r *row) bool { return r.program == x.program })
	if i < 0 {
		i = len(s.rows)
		s.rows = append(s.rows, &row{debian: debian, program: x.program, ran: map[string]int{}, passed: map[string]int{}})
	}
	r := s.rows[i]
	if x.label != "" && !slices.Contains(r.labels, x.label) {
		r.labels = append(r.labels, x.label)
	}
	if x.partly != "" {
		r.partly = x.partly
	}
	if x.cannot != "" {
		r.cannotDo(strings.TrimSpace(x.label), x.cannot)
	}
	r.ran[d.what]++
	if ok {
		r.passed[d.what]++
	} else {
		r.failed = append(r.failed, strings.TrimSpace(x.label+" ("+d.what+")"))
	}
}

func (r *row) cannotDo(label, reason string) {
	i := slices.IndexFunc(r.cannot, func(c impossible) bool { return c.reason == reason })
	if i < 0 {
		i = len(r.cannot)
		r.cannot = append(r.cannot, impossible{reason: reason})
	}
	if c := &r.cannot[i]; !slices.Contains(c.labels, label) {
		c.labels = append(c.labels, label)
	}
}

// result is the number of exchanges that passed over a column's device.
func (r *row) result(column string) string {
	switch ran, passed := r.ran[column], r.passed[column]; {
	case ran == 0:
		return "–"
	case ran == passed:
		return fmt.Sprintf("%d ok", passed)
	default:
		return fmt.Sprintf("%d of %d", passed, ran)
	}
}

func (s *summary) table() table.Writer {
	w := table.NewWriter()
	header := table.Row{"application", "with"}
	for _, column := range columns {
		header = append(header, column)
	}
	w.AppendHeader(append(header, ""))
	for _, r := range s.rows {
		var notes []string
		if len(r.failed) > 0 {
			notes = append(notes, "FAILED: "+strings.Join(r.failed, ", "))
		}
		for _, c := range r.cannot {
			notes = append(notes, strings.Join(c.labels, ", ")+": "+c.reason)
		}
		if r.partly != "" {
			notes = append(notes, r.partly)
		}
		notes = append(notes, r.gaps()...)
		line := table.Row{r.program, strings.Join(r.labels, ", ")}
		for _, column := range columns {
			line = append(line, r.result(column))
		}
		w.AppendRow(append(line, strings.Join(notes, "; ")))
	}
	return w
}

func (s *summary) print(out io.Writer) {
	w := s.table()
	w.SetStyle(table.StyleLight)
	w.SetColumnConfigs([]table.ColumnConfig{{Number: 2, WidthMax: 60, WidthMaxEnforcer: text.WrapSoft}, {Number: 8, WidthMax: 70, WidthMaxEnforcer: text.WrapSoft}})
	fmt.Fprintf(out, "\n%s\n", w.Render())
}

// The table stands between these lines of docs/applications.md.
const (
	tableBegins = "<!-- make apps -->\n"
	tableEnds   = "<!-- end of make apps -->\n"
)

// writeTo replaces the table in a file.
func (s *summary) writeTo(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(b), tableBegins)
	_, tail, ok2 := strings.Cut(rest, tableEnds)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no lines %q and %q", path, tableBegins, tableEnds)
	}
	return os.WriteFile(path, []byte(head+tableBegins+s.table().RenderMarkdown()+"\n"+tableEnds+tail), 0o644)
}
