// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"fmt"
	"os"
	"strings"
)

// The table stands between these lines of a page.
const (
	tableBegins = "<!-- make bench -->\n"
	tableEnds   = "<!-- end of make bench -->\n"
)

// tableHeader are the columns of the table in a page.
const tableHeader = "| | Verbena | beside | ratio | goal | spread |\n|---|---|---|---|---|---|\n"

// aroundTable returns the parts of a page before and behind its table.
func aroundTable(path string) (head, tail string, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	head, rest, ok := strings.Cut(string(b), tableBegins)
	_, tail, ok2 := strings.Cut(rest, tableEnds)
	if !ok || !ok2 {
		return "", "", fmt.Errorf("%s has no lines %q and %q", path, tableBegins, tableEnds)
	}
	return head + tableBegins, tableEnds + tail, nil
}

// writePage replaces the table in a page.
func writePage(path string, results []Result) error {
	head, tail, err := aroundTable(path)
	if err != nil {
		return err
	}
	var t strings.Builder
	t.WriteString(tableHeader)
	for i, r := range results {
		if i == 0 || r.Topic != results[i-1].Topic {
			fmt.Fprintf(&t, "| **%s** | | | | | |\n", r.Topic)
		}
		fmt.Fprintf(&t, "| %s |\n", strings.Join(r.cells(), " | "))
	}
	return os.WriteFile(path, []byte(head+t.String()+tail), 0o644)
}
