// SPDX-License-Identifier: BSD-2-Clause

package verbena

import (
	"go/ast"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// section returns the part of ARCHITECTURE.md below a heading.
func section(t *testing.T, heading string) string {
	t.Helper()
	_, text, ok := strings.Cut(read(t, "ARCHITECTURE.md"), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("ARCHITECTURE.md has no section %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// picture returns the lines of the first block in a section.
func picture(t *testing.T, heading string) []string {
	t.Helper()
	_, block, ok := strings.Cut(section(t, heading), "```text\n")
	if !ok {
		t.Fatalf("section %q has no picture", heading)
	}
	block, _, _ = strings.Cut(block, "```")
	return strings.Split(block, "\n")
}

var packageName = regexp.MustCompile(`^(ib|verbs|rdmacm|rsocket|(cmd|internal|cabi|examples)/\S+)$`)

// drawn returns the rows of the picture of layers, top first: the packages of each.
func drawn(t *testing.T) (rows [][]string) {
	for _, line := range picture(t, "Layers") {
		var names []string
		for _, word := range strings.Split(strings.TrimSpace(line), "  ") {
			if word = strings.TrimSpace(word); packageName.MatchString(word) {
				names = append(names, word)
			} else if word != "" {
				break // the row is about it
			}
		}
		if names != nil {
			rows = append(rows, names)
		}
	}
	return rows
}

// rowOf returns the row of a package; exact names come before stars.
func rowOf(rows [][]string, dir string) int {
	if i := slices.IndexFunc(rows, func(names []string) bool { return slices.Contains(names, dir) }); i >= 0 {
		return i
	}
	return slices.IndexFunc(rows, func(names []string) bool {
		return slices.ContainsFunc(names, func(n string) bool {
			ok, _ := path.Match(n, dir)
			return ok || strings.HasSuffix(n, "/*") && within(dir, strings.TrimSuffix(n, "/*"))
		})
	})
}

func TestLayersAreAsDrawn(t *testing.T) {
	rows := drawn(t)
	for dir, files := range packages(t) {
		if dir == "." || within(dir, testOnly...) || within(dir, "examples") {
			continue
		}
		mine := rowOf(rows, dir)
		if mine < 0 {
			t.Errorf("ARCHITECTURE.md's layers do not show %s", dir)
			continue
		}
		for _, s := range files {
			for _, imp := range s.imports {
				other, ok := local(imp)
				if !ok || within(other, testOnly...) {
					continue
				}
				if theirs := rowOf(rows, other); theirs < mine {
					t.Errorf("ARCHITECTURE.md draws %s below %s, which %s imports", dir, other, s.path)
				}
			}
		}
	}
	for _, names := range rows {
		for _, n := range names {
			if !strings.HasSuffix(n, "/*") && packages(t)[n] == nil {
				t.Errorf("ARCHITECTURE.md's layers show %s, which is no package", n)
			}
		}
	}
}

// ARCHITECTURE.md names every package that starts goroutines, and no other.
func TestGoroutinesAreAsDocumented(t *testing.T) {
	_, list, ok := strings.Cut(section(t, "Threads"), "Only these packages start goroutines")
	if !ok {
		t.Fatal("ARCHITECTURE.md does not say which packages start goroutines")
	}
	var documented []string
	for _, m := range regexp.MustCompile("`([a-z/]+)`").FindAllStringSubmatch(list, -1) {
		documented = append(documented, m[1])
	}
	used := map[string]bool{}
	for _, s := range sources(t) {
		if s.isTest() || within(s.dir, testOnly...) {
			continue
		}
		for n := range ast.Preorder(s.file) {
			if !startsGoroutine(n) {
				continue
			}
			i := slices.IndexFunc(documented, func(d string) bool { return within(s.dir, d) })
			if i < 0 {
				t.Errorf("%s: starts a goroutine, which ARCHITECTURE.md does not say of %s", s.at(n.Pos()), s.dir)
				continue
			}
			used[documented[i]] = true
		}
	}
	for _, d := range documented {
		if !used[d] {
			t.Errorf("ARCHITECTURE.md says that %s starts goroutines, and it does not", d)
		}
	}
}

// startsGoroutine reports whether a node is a go statement, or a call of a method Go: of a
// sync.WaitGroup.
func startsGoroutine(n ast.Node) bool {
	if _, ok := n.(*ast.GoStmt); ok {
		return true
	}
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	return ok && f.Sel.Name == "Go"
}

// File names, folders and Go names in code spans of ARCHITECTURE.md and docs/design exist.
func TestDesignNamesWhatIsThere(t *testing.T) {
	tree, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, s := range tree.sources {
		names[s.file.Name.Name] = true
		for n := range ast.Preorder(s.file) {
			if id, ok := n.(*ast.Ident); ok {
				names[id.Name] = true
			}
		}
	}
	pages, err := filepath.Glob("docs/design/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages of design: %v", len(pages), err)
	}
	for _, page := range append(pages, "ARCHITECTURE.md") {
		for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(read(t, page), -1) {
			switch span := m[1]; {
			case fileName.MatchString(span):
				if !hasFile(tree, span) {
					t.Errorf("%s: there is no file %s", page, span)
				}
			case folderName.MatchString(span):
				if !hasFolder(tree, span) {
					t.Errorf("%s: there is no folder %s", page, span)
				}
			case goName.MatchString(span):
				for _, part := range strings.Split(span, ".") {
					if !names[part] {
						t.Errorf("%s: no source names %s, of %s", page, part, span)
					}
				}
			}
		}
	}
}

var (
	fileName   = regexp.MustCompile(`^[\w/]+\.(go|c|h|mod|sum|md)$`)
	folderName = regexp.MustCompile(`^(internal|cabi|cmd|docs|interop|apps|sys|testkit)/[\w/]+$`)
	goName     = regexp.MustCompile(`^[A-Za-z]+(\.[A-Za-z]+)+$`)
)

// hasFile reports whether a file's path ends so.
func hasFile(t *tree, name string) bool {
	for p := range t.text {
		if p == name || strings.HasSuffix(p, "/"+name) {
			return true
		}
	}
	return false
}

// hasFolder reports whether there is such a folder; names of sys and testkit are internal's.
func hasFolder(t *tree, name string) bool {
	for p := range t.text {
		if strings.HasPrefix(p, name+"/") || strings.HasPrefix(p, "internal/"+name+"/") {
			return true
		}
	}
	return false
}

// The glossary of ARCHITECTURE.md explains words that comments use.
func TestGlossaryIsUsed(t *testing.T) {
	tree, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	var text []string // the comments of each file
	for name, b := range tree.text {
		if ext := path.Ext(name); ext != ".go" && ext != ".c" && ext != ".h" {
			continue
		}
		var all strings.Builder
		for _, c := range commentsOf(string(b)) {
			all.WriteString(c.text + " ")
		}
		text = append(text, all.String())
	}
	for _, m := range regexp.MustCompile(`(?m)^\| ([a-z ]+) \|`).FindAllStringSubmatch(section(t, "Glossary"), -1) {
		term, files := regexp.MustCompile(`(?i)\b`+strings.ReplaceAll(m[1], " ", `[ -]?`)+`s?\b`), 0
		for _, c := range text {
			if term.MatchString(c) {
				files++
			}
		}
		if files == 0 {
			t.Errorf("the glossary explains %q, which stands in no comment", m[1])
		}
	}
}
