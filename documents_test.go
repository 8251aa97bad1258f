// SPDX-License-Identifier: BSD-2-Clause

package verbena

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"verbena/internal/testkit/commands"
)

// documents returns the pages of the documentation.
func documents(t *testing.T) []string {
	t.Helper()
	pages := []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}
	for _, glob := range []string{"docs/*.md", "docs/*/*.md"} {
		more, err := filepath.Glob(glob)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, more...)
	}
	if len(pages) < 10 {
		t.Fatalf("only %d pages: the tests must run in the root of the tree", len(pages))
	}
	return pages
}

// maxReadme is two screens.
const maxReadme = 120

func TestReadmeIsShort(t *testing.T) {
	if n := strings.Count(read(t, "README.md"), "\n"); n > maxReadme {
		t.Errorf("README.md has %d lines, more than %d: move what is not needed first to docs/", n, maxReadme)
	}
}

// maxArchitecture keeps the page to the basics; docs/design has the rest.
const maxArchitecture = 230

// maxTerms bounds the words that only this project has.
const maxTerms = 30

func TestArchitectureIsShort(t *testing.T) {
	if n := strings.Count(read(t, "ARCHITECTURE.md"), "\n"); n > maxArchitecture {
		t.Errorf("ARCHITECTURE.md has %d lines, more than %d: move what is of one transport to docs/design/", n, maxArchitecture)
	}
	_, glossary, _ := strings.Cut(read(t, "ARCHITECTURE.md"), "\n## Glossary\n")
	if n := strings.Count(glossary, "\n| ") - 1; n < 1 || n > maxTerms {
		t.Errorf("the glossary has %d terms, at most %d are wanted: use a word of the field", n, maxTerms)
	}
}

// A block without a language would keep its commands from being run.
func TestBlocksSayWhatTheyAre(t *testing.T) {
	languages := []string{"sh", "console", "go", "c", "text", "yaml", "dockerfile", "json"}
	for _, page := range documents(t) {
		blocks, err := commands.Blocks(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			if !slices.Contains(languages, b.Language) {
				t.Errorf("%s:%d: the block's language is %q, and none of %v", page, b.Line, b.Language, languages)
			}
		}
		marks := 0
		for _, b := range blocks {
			if b.ByApps || b.NotRun != "" {
				marks++
			}
		}
		if n := len(commandMark.FindAllString(read(t, page), -1)); n != marks {
			t.Errorf("%s: %d of %d comments about running are misspelt, or not on the line before a block", page, n-marks, n)
		}
	}
}

var commandMark = regexp.MustCompile(`(?m)^<!-- (not run|run by)`)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, m[1])
			} else if anchor != "" && !slices.Contains(anchors(read(t, target)), anchor) {
				t.Errorf("%s: %s has no heading for #%s", page, target, anchor)
			}
		}
	}
}

// anchors are the names by which a page's headings are found.
func anchors(page string) (all []string) {
	for line := range strings.Lines(page) {
		if heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && line[0] == '#' {
			name := strings.ToLower(strings.TrimSpace(heading))
			name = regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(name, "")
			all = append(all, strings.ReplaceAll(name, " ", "-"))
		}
	}
	return all
}

// The first column of docs/troubleshooting.md quotes messages as the code has them; numbers stand
// for any, and … for parts that differ.
func TestMessagesAreTheCodes(t *testing.T) {
	said := strings.Join(literals(t), "\n")
	quoted := 0
	for line := range strings.Lines(read(t, "docs/troubleshooting.md")) {
		cells := strings.Split(line, " | ")
		if len(cells) < 3 {
			continue
		}
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[0], -1) {
			if strings.HasPrefix(m[1], "verbena ") {
				continue // a command
			}
			quoted++
			form := regexp.QuoteMeta(regexp.MustCompile(`[0-9][0-9.]*`).ReplaceAllString(m[1], "#"))
			form = strings.ReplaceAll(form, "#", `(?:[0-9][0-9.]*|%[a-z])`)
			if !regexp.MustCompile(form).MatchString(said) {
				t.Errorf("docs/troubleshooting.md quotes %q, which no message of the code is", m[1])
			}
		}
	}
	if quoted < 20 {
		t.Errorf("only %d messages are quoted", quoted)
	}
}

// literals returns the strings in the sources of Go that are no tests, and in C.
func literals(t *testing.T) (all []string) {
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		for n := range ast.Preorder(s.file) {
			if e, ok := n.(ast.Expr); ok {
				if v, ok := constant(e); ok {
					all = append(all, v)
				}
			}
		}
	}
	tree, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range tree.text {
		if strings.HasSuffix(name, ".c") {
			all = append(all, string(text))
		}
	}
	return all
}

// constant returns the value of string literals, joined by +.
func constant(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		v, err := strconv.Unquote(e.Value)
		return v, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		x, ok := constant(e.X)
		y, ok2 := constant(e.Y)
		return x + y, ok && ok2 && e.Op == token.ADD
	}
	return "", false
}

// Plain English, as far as a machine can tell.
const (
	maxColumns = 100
	maxWords   = 25
)

func TestProse(t *testing.T) {
	for _, page := range documents(t) {
		for _, f := range prose(read(t, page)) {
			t.Errorf("%s:%s", page, f)
		}
	}
}

// prose returns the mistakes in the text of a page. It passes over blocks, and the columns of
// tables.
func prose(page string) (wrong []string) {
	fence, first := false, 0
	var paragraph strings.Builder
	check := func() {
		for _, s := range sentences(paragraph.String()) {
			if n := len(strings.Fields(s)); n > maxWords {
				wrong = append(wrong, fmt.Sprintf("%d: %d words in one sentence: %s", first, n, s))
			}
			for _, u := range unclear {
				if m := u.pattern.FindString(s); m != "" && !quoted(s, m) {
					wrong = append(wrong, fmt.Sprintf("%d: %q: %s: %s", first, m, u.instead, s))
				}
			}
		}
		paragraph.Reset()
	}
	for i, line := range strings.Split(page, "\n") {
		switch trimmed := strings.TrimSpace(line); {
		case strings.HasPrefix(trimmed, "```"):
			check()
			fence = !fence
			continue
		case fence, strings.HasPrefix(trimmed, "<!--"):
			continue
		case trimmed == "", strings.HasPrefix(trimmed, "#"), strings.HasPrefix(trimmed, "|"):
			check()
			continue
		case strings.HasPrefix(trimmed, "- "), item.MatchString(trimmed):
			check()
		}
		if len([]rune(line)) > maxColumns {
			wrong = append(wrong, fmt.Sprintf("%d: %d columns: wrap at %d", i+1, len([]rune(line)), maxColumns))
		}
		if paragraph.Len() == 0 {
			first = i + 1
		}
		paragraph.WriteString(strings.TrimSpace(line) + " ")
	}
	check()
	return wrong
}

var (
	item      = regexp.MustCompile(`^\d+\. `)
	code      = regexp.MustCompile("`[^`]*`")
	target    = regexp.MustCompile(`\]\([^)]*\)`)
	endsAfter = regexp.MustCompile(`[.:;?!]["')*]*(\s|$)| · `)
)

// sentences are the parts of a paragraph between full stops, colons and semicolons.
func sentences(paragraph string) []string {
	text := target.ReplaceAllString(code.ReplaceAllString(paragraph, "code"), "]")
	text = strings.NewReplacer("e.g. ", "for instance ", "i.e. ", "that is ").Replace(text)
	return endsAfter.Split(text, -1)
}
