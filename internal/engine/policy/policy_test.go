// SPDX-License-Identifier: BSD-2-Clause

package policy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// names returns the names that a file declares at package level, without its functions.
func names(t *testing.T, file string) (list []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok == token.IMPORT {
			continue
		}
		for _, s := range g.Specs {
			for _, n := range s.(*ast.ValueSpec).Names {
				list = append(list, n.Name)
			}
		}
	}
	return list
}

// The table is complete, and both builds have its numbers and no others.
func TestTableListsEveryNumber(t *testing.T) {
	var want []string
	for _, n := range Table {
		want = append(want, n.Name)
		if n.Unit == "" || n.Why == "" {
			t.Errorf("%s has no unit or no reason", n.Name)
		}
	}
	for _, file := range []string{"default.go", "experiment.go"} {
		if got := names(t, file); !slices.Equal(got, want) {
			t.Errorf("%s declares %v, the table lists %v", file, got, want)
		}
	}
}

// document returns the page that lists all constants.
func document(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../../docs/design/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// text returns a number's value with its unit.
func (n Number) text() string {
	switch {
	case n.Unit == "ns":
		return regexp.MustCompile("[0-9]+").ReplaceAllString(time.Duration(n.Default).String(), "$0 ")
	case n.Unit == "bytes" && n.Default%1024 == 0:
		return fmt.Sprintf("%d KiB", n.Default/1024)
	}
	return fmt.Sprintf("%d %s", n.Default, n.Unit)
}

// The page has the rows of the table.
func TestPageHasTheTable(t *testing.T) {
	var want strings.Builder
	want.WriteString("| Constant | Value | For | Shown by |\n|---|---|---|---|\n")
	for _, n := range Table {
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", n.Name, n.text(), n.Why, n.Shown)
	}
	_, rest, _ := strings.Cut(document(t), "<!-- policy -->\n")
	got, _, ok := strings.Cut(rest, "<!-- end of policy -->")
	if !ok || got != want.String() {
		t.Errorf("docs/design/policy.md differs from the table, which is:\n%s", &want)
	}
}
