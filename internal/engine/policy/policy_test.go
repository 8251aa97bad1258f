// SPDX-License-Identifier: BSD-2-Clause

package policy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"
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
