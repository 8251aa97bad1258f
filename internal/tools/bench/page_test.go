// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWritePage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n"+tableBegins+"old\n"+tableEnds+"behind\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	results := []Result{
		summarize("topic", row{"one", "µs", "sockets", goal{bound: 1.5, ratio: true}}, []float64{2, 2, 2}, []float64{1}),
		summarize("topic", row{"two", "KiB", "sockets", goal{bound: 16}}, []float64{3}, nil),
	}
	if err := writePage(page, results); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := "before\n" + tableBegins + tableHeader +
		"| **topic** | | | | | |\n" +
		"| one | 2 µs | sockets 1 µs | 2.00 | ≤ 1.5: not met | 0 % |\n" +
		"| two | 3 KiB |  |  | ≤ 16 KiB | 0 % |\n" + tableEnds + "behind\n"
	if string(got) != want {
		t.Errorf("the page is\n%s\nnot\n%s", got, want)
	}
}

// The table of the documentation has the form that a run writes.
func TestPerformancePageHasTheTable(t *testing.T) {
	const page = "../../../docs/performance.md"
	head, tail, err := aroundTable(page)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	table := strings.TrimSuffix(strings.TrimPrefix(string(b), head), tail)
	if !strings.HasPrefix(table, tableHeader) {
		t.Errorf("its table does not begin with %q", tableHeader)
	}
}

func TestPageWithoutMarks(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("no table\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writePage(page, nil); err == nil {
		t.Error("a page without marks is written")
	}
}
