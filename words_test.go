// SPDX-License-Identifier: BSD-2-Clause

package verbena

import (
	"bytes"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// tabColumns is the width of a tab.
const tabColumns = 4

// unclear lists words and phrases that prose does without, and what to write.
var unclear = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)\bwhoever\b`), "name the subject: the peer, the process, the polling thread"},
	{regexp.MustCompile(`(?i)\b(who|what) polls\b`), "the polling thread"},
	{regexp.MustCompile(`(?i)\b(who|what) (asks|reads|writes|listens|calls|waits|sleeps) (is|are|has|gets|must|may)\b`), "name the subject: the peer, the process, the polling thread"},
	{regexp.MustCompile(`(?i)\bof which\b`), "a sentence of its own"},
	{regexp.MustCompile(`(?i)\bto and fro\b`), "in both directions"},
	{regexp.MustCompile(`(?i)\bkin\b`), "name them"},
	{regexp.MustCompile(`(?i)\bin place of\b`), "instead of"},
	{regexp.MustCompile(`(?i)\blinks? of windows\b`), "NTB link"},
	{regexp.MustCompile(`(?i)\bmeeting places?\b`), "shared-memory hub"},
	{regexp.MustCompile(`(?i)\bthat (is|are) none\b`), "say what it is"},
	{regexp.MustCompile(`(?:^|[.:;!] )(?:What|Who|Whom) [a-z][^?]*$`), "name the subject"},
	{regexp.MustCompile(`(?i)\b(` +
		`returns?|has|have|takes?|sends?|reads?|writes?|keeps?|removes?|forgets?|drops?|` +
		`prints?|counts?|bounds?|carries|of|from|for|with|but|than|as) what\b`), "name the subject"},
	{regexp.MustCompile(`(?i)\btells? that\b`), "say, show, report, handle or notify"},
	{regexp.MustCompile(`(?i)\bwhat (is|was|are|were) (\w+ )?(` +
		`posted|sent|left|lost|missing|new|there|asked|received|written|queued|acknowledged)\b`),
		"name the subject"},
}

// riddle is a doc comment that says what a name is by a question: "X is what …".
// The name may have "of …" behind it, and the question may be "X is how many …".
var riddle = regexp.MustCompile(`^(?:An? |The )?[\w.]+(?: of [\w ]+)? (?:` +
	`(?:is|are) (?:(?:that |those )?(?:by|in|to|for|from|with) which|(?:for |to |of )?whom?|` +
	`(?:for )?what|whatever|whoever|how|where|when|whether)|(?:says|tells) (?:what|whom?))\b`)

// comment is a line of prose and where it stands.
type comment struct {
	line int
	text string // without the comment's marks
	full string // the line
}

// TestCommentsArePlain checks comments as TestProse checks documents.
func TestCommentsArePlain(t *testing.T) {
	all, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(all.text)) {
		if ext := path.Ext(name); ext != ".go" && ext != ".c" && ext != ".h" {
			continue
		}
		for _, c := range commentsOf(string(all.text[name])) {
			if n := columns(c.full); n > maxColumns && !unbreakable(c.text) {
				t.Errorf("%s:%d: %d columns: prose wraps at %d", name, c.line, n, maxColumns)
			}
			for _, u := range unclear {
				if m := u.pattern.FindString(c.text); m != "" && !quoted(c.text, m) {
					t.Errorf("%s:%d: %q: %s", name, c.line, m, u.instead)
				}
			}
		}
		for _, p := range paragraphs(commentsOf(string(all.text[name]))) {
			for _, s := range sentences(p.text) {
				if n := len(strings.Fields(s)); n > maxWords {
					t.Errorf("%s:%d: %d words in one sentence: %s", name, p.line, n, s)
				}
			}
		}
	}
	for _, s := range all.sources {
		for _, g := range s.file.Comments {
			if text := g.Text(); riddle.MatchString(text) {
				first, _, _ := strings.Cut(text, "\n")
				t.Errorf("%s: %q: begin with what it does or represents", s.at(g.Pos()), first)
			}
		}
	}
}

// TestMessagesArePlain checks errors and help texts as TestCommentsArePlain checks comments.
func TestMessagesArePlain(t *testing.T) {
	all, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all.sources {
		if s.isTest() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range unclear {
				if m := u.pattern.FindString(text); m != "" {
					t.Errorf("%s: %q: %s", s.at(lit.Pos()), m, u.instead)
				}
			}
			return true
		})
	}
}

// TestLinesWrap: lines of code wrap, too. Tables of tests may be wider: one row per line makes
// them readable. So may a picture in a comment, and generated code, which is not read.
func TestLinesWrap(t *testing.T) {
	all, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range all.text {
		ext := path.Ext(name)
		if ext != ".go" && ext != ".c" && ext != ".h" || strings.HasSuffix(name, "_test.go") || generated(text) {
			continue
		}
		for i, line := range strings.Split(string(text), "\n") {
			wraps := columns(line) <= maxColumns
			if !wraps && !unbreakable(line) && !indented(strings.TrimSpace(line)) {
				t.Errorf("%s:%d: %d columns: lines wrap at %d", name, i+1, columns(line), maxColumns)
			}
		}
	}
}

// generated reports whether a file begins by saying that it is generated.
func generated(text []byte) bool {
	return bytes.Contains(text[:min(len(text), 200)], []byte(" Code generated by "))
}

func columns(line string) int {
	return utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
}

// indented reports whether a line of a comment is indented: of a picture, or of code.
func indented(line string) bool {
	return strings.HasPrefix(line, "//\t") || strings.HasPrefix(line, "//  ")
}

// unbreakable reports whether a text is one word, such as an address.
func unbreakable(text string) bool { return !strings.Contains(strings.TrimSpace(text), " ") }

// quoted reports whether a phrase stands in quotes: the text is about the phrase then.
func quoted(text, phrase string) bool {
	return strings.Contains(text, `"`+phrase) || strings.Contains(text, phrase+`"`) || strings.Contains(text, "`"+phrase)
}

// paragraphs joins the lines of each paragraph of comments. Pictures end one, and are left out.
func paragraphs(lines []comment) (list []comment) {
	last := -1 // the last line of a paragraph that may go on
	for _, c := range lines {
		switch {
		case c.text == "" || notProse.MatchString(c.full):
			last = -1
		case last+1 == c.line && !item.MatchString(c.text) && !strings.HasPrefix(c.text, "- "):
			list[len(list)-1].text += " " + c.text
			last = c.line
		default:
			list = append(list, c)
			last = c.line
		}
	}
	return list
}

// notProse is a line of a comment that is indented, or drawn.
var notProse = regexp.MustCompile(`^\s*(//|\*)(\t|  )|[│├└─┌┐┘┴┬▼▲►◄→]`)

// commentsOf returns the lines of Go or C that are comments only.
func commentsOf(text string) (list []comment) {
	inside := false
	for i, line := range strings.Split(text, "\n") {
		code := strings.TrimSpace(line)
		if strings.HasPrefix(code, "//go:") || indented(code) {
			continue
		}
		starts := strings.HasPrefix(code, "/*")
		if inside || starts || strings.HasPrefix(code, "//") {
			list = append(list, comment{i + 1, strings.TrimLeft(code, "/* \t"), line})
		}
		if starts || inside {
			inside = !strings.Contains(code, "*/")
		}
	}
	return list
}

func TestRiddles(t *testing.T) {
	for _, text := range []string{
		"firstSpan is how many slots are given out.",
		"arrival is how a thread that sleeps learns of packets.",
		"A Plug is what a transport keeps.",
		"arrivalID is that by which the poller reports arrivals.",
		"The limit of a ring is where it ends.",
		"Route tells whom a datagram is for.",
	} {
		if !riddle.MatchString(text) {
			t.Errorf("%q passes", text)
		}
	}
	for _, text := range []string{
		"Open reports whether the link is up.",
		"pollers decides whether threads poll.",
		"Limit is the number of slots, which is what the file has.",
		"Options of a socket. The zero value is what a receiver needs.",
	} {
		if riddle.MatchString(text) {
			t.Errorf("%q is found", text)
		}
	}
}

func TestParagraphs(t *testing.T) {
	lines := commentsOf("// One sentence\n// on two lines.\n//\n//\ta ─► picture\n// Two.\nx()\n// Three.\n")
	var got []string
	for _, p := range paragraphs(lines) {
		got = append(got, p.text)
	}
	want := []string{"One sentence on two lines.", "Two.", "Three."}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
