// SPDX-License-Identifier: BSD-2-Clause

package verbena

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// module is the module path; an import of the tree starts with it.
var module = modulePath()

// modulePath reads go.mod: scripts/module-path may have changed it.
func modulePath() string {
	b, _ := os.ReadFile("go.mod")
	_, rest, _ := strings.Cut("\n"+string(b), "\nmodule ")
	path, _, _ := strings.Cut(rest, "\n")
	return path
}

// A source is one Go file of the tree, for whatever system it is.
type source struct {
	path    string // from the root, with slashes
	dir     string // its package's folder; "." is the root
	file    *ast.File
	imports []string
}

func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }
func (s *source) at(p token.Pos) string {
	return s.path + ":" + strconv.Itoa(fileSet.Position(p).Line)
}

// tree is every source and every text file.
type tree struct {
	sources []*source
	text    map[string][]byte
}

var fileSet = token.NewFileSet()

// readTree reads the checkout once. It parses files of all systems, which
// `go list` would not show.
var readTree = sync.OnceValues(func() (*tree, error) {
	t := &tree{text: map[string][]byte{}}
	return t, fs.WalkDir(os.DirFS("."), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			hidden := strings.HasPrefix(name, ".") && name != "." && name != ".ci"
			if hidden || name == "bin" || p == "lib" || name == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		// In a worktree .git is a file.
		if !d.Type().IsRegular() || name == ".git" || strings.HasSuffix(name, ".test") || strings.HasSuffix(name, ".prof") {
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if bytes.IndexByte(b, 0) >= 0 {
			return nil
		}
		t.text[p] = b
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fileSet, p, b, parser.ParseComments)
		if err != nil {
			return err
		}
		s := &source{path: p, dir: path.Dir(p), file: f}
		for _, i := range f.Imports {
			v, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			s.imports = append(s.imports, v)
		}
		t.sources = append(t.sources, s)
		return nil
	})
})

func sources(t *testing.T) []*source {
	t.Helper()
	all, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	if len(all.sources) < 100 {
		t.Fatalf("only %d Go files found: the tests must run in the root of the tree", len(all.sources))
	}
	return all.sources
}

// packages groups the sources that are no tests by folder.
func packages(t *testing.T) map[string][]*source {
	m := map[string][]*source{}
	for _, s := range sources(t) {
		if !s.isTest() {
			m[s.dir] = append(m[s.dir], s)
		}
	}
	return m
}

// local returns the folder of an import of the tree.
func local(imp string) (dir string, ok bool) { return strings.CutPrefix(imp, module+"/") }

// importName returns the name by which a file calls a package, "" if it does
// not import it.
func (s *source) importName(imp string) string {
	for i, v := range s.imports {
		if v != imp {
			continue
		}
		if n := s.file.Imports[i].Name; n != nil {
			return n.Name
		}
		return path.Base(imp)
	}
	return ""
}

// selections yields every selector of package imp in the file, such as Now of
// time.Now, and where it stands.
func selections(s *source, imp string) iter.Seq2[string, token.Pos] {
	pkg := s.importName(imp)
	return func(yield func(string, token.Pos) bool) {
		for n := range ast.Preorder(s.file) {
			e, ok := n.(*ast.SelectorExpr)
			if !ok {
				continue
			}
			if x, ok := e.X.(*ast.Ident); ok && x.Name == pkg && !yield(e.Sel.Name, e.Pos()) {
				return
			}
		}
	}
}

// within reports whether dir is one of these folders or below one.
func within(dir string, folders ...string) bool {
	for _, f := range folders {
		if dir == f || strings.HasPrefix(dir, f+"/") {
			return true
		}
	}
	return false
}
