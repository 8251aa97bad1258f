// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"verbena/internal/tools/chart"
)

const emptyPage = "before\n<!-- charts of make bench -->\nold\n<!-- end of charts -->\nbetween\n<!-- make bench -->\nold\n<!-- end of make bench -->\nbehind\n"

func TestWritePage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte(emptyPage), 0o600); err != nil {
		t.Fatal(err)
	}
	report := &Report{chart.Machine{Date: "2026-01-02", Processor: "P", Cores: 2, System: "S", Verbena: "V", Go: "G"}, []Result{
		summarize("topic", row{"one", "µs", "sockets", goal{bound: 1.5, ratio: true}}, []float64{2, 2, 2}, []float64{1}),
		summarize("topic", row{"two", "KiB", "sockets", goal{bound: 16}}, []float64{3}, nil),
		summarize(sizesTopic, row{"WRITE 8 B", "MB/s", "TCP", goal{}}, []float64{3}, nil),
		summarize(sizesTopic, row{"WRITE 64 B", "MB/s", "TCP", goal{}}, []float64{4}, nil),
	}}
	if err := writePage(page, report); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := "before\n<!-- charts of make bench -->\nMeasured on 2026-01-02: P, 2 cores, S, Verbena V, G.\n\n" +
		"<picture>\n<source media=\"(prefers-color-scheme: dark)\"\nsrcset=\"charts/size-bandwidth-dark.svg\">\n" +
		"<img src=\"charts/size-bandwidth.svg\"\nalt=\"Bandwidth by message size: WRITE\">\n</picture>\n<!-- end of charts -->\nbetween\n" +
		"<!-- make bench -->\n" + tableHeader +
		"| **topic** | | | | | |\n" +
		"| one | 2 µs | sockets 1 µs | 2.00 | ≤ 1.5: not met | 0 % |\n" +
		"| two | 3 KiB |  |  | ≤ 16 KiB | 0 % |\n" +
		"| **By message size** | | | | | |\n" +
		"| WRITE 8 B | 3 MB/s |  |  |  | 0 % |\n" +
		"| WRITE 64 B | 4 MB/s |  |  |  | 0 % |\n" +
		"<!-- end of make bench -->\nbehind\n"
	if string(got) != want {
		t.Errorf("the page is\n%s\nnot\n%s", got, want)
	}
}

// The page of figures has the table that a run writes, and the charts beside it are of its rows and
// of its day.
func TestPerformancePageIsOfOneRun(t *testing.T) {
	const page = "../../../docs/performance.md"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _, err := tableMarks.cut(string(b))
	if err != nil {
		t.Fatal(err)
	}
	table, ok := strings.CutPrefix(table, tableHeader)
	if !ok {
		t.Errorf("its table does not begin with %q", tableHeader)
	}
	_, pictures, _, err := chartMarks.cut(string(b))
	if err != nil {
		t.Fatal(err)
	}
	note, _, _ := strings.Cut(strings.TrimPrefix(pictures, "Measured on "), ".\n\n")
	note = strings.ReplaceAll(note, "\n", " ")
	want := map[string][]string{} // sentences of the rows, by chart
	topic := ""
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if name, ok := strings.CutPrefix(cells[0], "**"); ok {
			topic, _, _ = strings.Cut(name, "**")
			continue
		}
		for _, f := range figures {
			unit := strings.ReplaceAll(cells[1][strings.LastIndexByte(cells[1], ' ')+1:], "GB/s", "MB/s")
			if _, _, ok := f.of(topic, cells[0], unit); ok {
				want[f.file] = append(want[f.file], strings.TrimSuffix(cells[0]+": "+cells[1]+", "+cells[2], ", "))
			}
		}
	}
	if len(want) == 0 {
		t.Error("the table has no rows for charts")
	}
	for _, f := range figures {
		for _, name := range []string{f.file + ".svg", f.file + "-dark.svg"} {
			svg, err := os.ReadFile(filepath.Join(filepath.Dir(page), chartsFolder, name))
			if os.IsNotExist(err) && want[f.file] == nil && !strings.Contains(pictures, name) {
				continue
			}
			if err != nil {
				t.Error(err)
				continue
			}
			if !strings.Contains(pictures, chartsFolder+"/"+name) {
				t.Errorf("the page does not show %s", name)
			}
			text := regexp.MustCompile(`(?s)<desc>(.*)</desc>`).FindSubmatch(svg)
			if text == nil {
				t.Errorf("%s does not say its figures", name)
			} else if got := strings.Split(html.UnescapeString(string(text[1])), "\n"); !slices.Equal(got, want[f.file]) {
				t.Errorf("%s is of other rows than the table: %q, want %q", name, got, want[f.file])
			}
			if !strings.Contains(html.UnescapeString(string(svg)), note) {
				t.Errorf("%s is not of %q", name, note)
			}
		}
	}
}

func TestPageWithoutMarks(t *testing.T) {
	for _, mark := range []string{"<!-- make bench -->\n", "<!-- end of make bench -->\n", "<!-- charts of make bench -->\n", "<!-- end of charts -->\n"} {
		page := filepath.Join(t.TempDir(), "page.md")
		if err := os.WriteFile(page, []byte(strings.Replace(emptyPage, mark, "", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := writePage(page, &Report{}); err == nil {
			t.Errorf("a page without %q is written", mark)
		}
	}
}
