// SPDX-License-Identifier: BSD-2-Clause

package verbena

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// tabColumns is the width of a tab.
const tabColumns = 4

// unclear are words and phrases that prose does without, and what to write.
var unclear = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)\bwhoever\b`), "name the subject: the peer, the process, the polling thread"},
	{regexp.MustCompile(`(?i)\b(who|what) polls\b`), "the polling thread"},
	{regexp.MustCompile(`(?i)\b(who|what) (asks|reads|writes|listens|calls|waits|sleeps) (is|are|has|gets|must|may)\b`), "name the subject: the peer, the process, the polling thread"},
	{regexp.MustCompile(`(?i)\bof which\b`), "a sentence of its own"},
	{regexp.MustCompile(`(?i)\bto and fro\b`), "in both directions"},
	{regexp.MustCompile(`(?i)\band its kin\b`), "name them"},
	{regexp.MustCompile(`(?i)\bin place of\b`), "instead of"},
	{regexp.MustCompile(`(?i)\blinks? of windows\b`), "NTB link"},
	{regexp.MustCompile(`(?i)\bmeeting places?\b`), "shared-memory hub"},
	{regexp.MustCompile(`(?i)\bthat (is|are) none\b`), "say what it is"},
}

// riddle is a doc comment that says what a name is by a question: "X is what …".
var riddle = regexp.MustCompile(`^(?:An? |The )?\w+ (?:is|are) (?:what|who|how|where|when|whether|whoever|whatever)\b`)

// A finding is a place where the rules for words do not hold.
type finding struct{ at, what string }

// comment is a line of prose and where it stands.
type comment struct {
	line int
	text string // without the comment's marks
	full string // the line
}

// TestCommentsArePlain holds for comments what TestProse holds for documents,
// everywhere but in the folders of wordy.
func TestCommentsArePlain(t *testing.T) {
	ratchet(t, wordy, func(name string, b []byte) (list []finding) {
		if ext := path.Ext(name); ext != ".go" && ext != ".c" && ext != ".h" {
			return nil
		}
		for _, c := range commentsOf(string(b)) {
			at := fmt.Sprintf("%s:%d", name, c.line)
			if n := columns(c.full); n > maxColumns && !unbreakable(c.text) {
				list = append(list, finding{at, fmt.Sprintf("%d columns: prose wraps at %d", n, maxColumns)})
			}
			for _, u := range unclear {
				if m := u.pattern.FindString(c.text); m != "" && !quoted(c.text, m) {
					list = append(list, finding{at, fmt.Sprintf("%q: %s", m, u.instead)})
				}
			}
		}
		return list
	}, func(s *source) (list []finding) {
		for _, g := range s.file.Comments {
			if text := g.Text(); riddle.MatchString(text) {
				first, _, _ := strings.Cut(text, "\n")
				list = append(list, finding{s.at(g.Pos()), fmt.Sprintf("%q: begin with what it does or represents", first)})
			}
		}
		return list
	})
}

// TestLinesWrap: lines of code wrap, too, in the folders of narrow. Tables of tests
// may be wider: a row a line is what makes them readable.
func TestLinesWrap(t *testing.T) {
	all, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range all.text {
		ext := path.Ext(name)
		if ext != ".go" && ext != ".c" && ext != ".h" || strings.HasSuffix(name, "_test.go") || !slices.Contains(narrow, path.Dir(name)) {
			continue
		}
		for i, line := range strings.Split(string(text), "\n") {
			if n := columns(line); n > maxColumns && !unbreakable(line) {
				t.Errorf("%s:%d: %d columns: lines wrap at %d", name, i+1, n, maxColumns)
			}
		}
	}
}

// ratchet checks every file. Findings in the folders that are excused pass; a
// folder that is excused without a finding does not, so that the list shrinks.
func ratchet(t *testing.T, excused []string, text func(string, []byte) []finding, code func(*source) []finding) {
	all, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	dirty := map[string]bool{}
	take := func(name string, found []finding) {
		dir := path.Dir(name)
		i := slices.Index(excused, dir)
		for _, f := range found {
			if i < 0 {
				t.Errorf("%s: %s (a folder that has moved takes its row in wordy along)", f.at, f.what)
			} else {
				dirty[excused[i]] = true
			}
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(all.text), cmp.Compare) {
		take(name, text(name, all.text[name]))
	}
	for _, s := range all.sources {
		take(s.path, code(s))
	}
	for _, f := range excused {
		if !dirty[f] {
			t.Errorf("%s is clean: take it out of wordy in words_test.go", f)
		}
	}
}

func columns(line string) int {
	return utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
}

// unbreakable reports whether a text is one word, such as an address.
func unbreakable(text string) bool { return !strings.Contains(strings.TrimSpace(text), " ") }

// quoted reports whether a phrase stands in quotes: what is said of it is not
// said with it.
func quoted(text, phrase string) bool {
	return strings.Contains(text, `"`+phrase) || strings.Contains(text, phrase+`"`) || strings.Contains(text, "`"+phrase)
}

// commentsOf returns the lines of Go or C that are comments only.
func commentsOf(text string) (list []comment) {
	inside := false
	for i, line := range strings.Split(text, "\n") {
		code := strings.TrimSpace(line)
		if strings.HasPrefix(code, "//go:") || strings.HasPrefix(code, "//\t") || strings.HasPrefix(code, "//  ") {
			continue // a directive, or a picture
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

// wordy are the folders whose prose does not yet follow the rules. The list
// only shrinks; a folder that moves takes its row along.
var wordy = []string{
	"apps",
	"cabi/cabitest",
	"cabi/devshim/test",
	"cabi/engine",
	"cabi/include",
	"cabi/libibverbs",
	"cabi/librdmacm",
	"cabi/librspreload",
	"cabi/rsocket",
	"internal/cm/ibcm",
	"internal/cm/iwcm",
	"internal/core",
	"internal/engine",
	"internal/transport/iwarp",
	"internal/transport/ntb",
	"internal/transport/roce",
	"internal/transport/shm",
	"internal/transport/trp",
	"internal/iwarp/mpa",
	"internal/iwarp/rdmap",
	"internal/iwarp/trp",
	"internal/ntb/backend",
	"internal/ntb/channel",
	"internal/ntb/rdma",
	"internal/qp",
	"internal/queue",
	"internal/roce",
	"internal/roce/rc",
	"internal/roce/ud",
	"internal/sys/faultcap",
	"internal/sys/portshare",
	"internal/sys/shmring",
	"internal/tools/perf",
	"internal/tools/pingpong",
	"interop",
	"interop/guest",
	"interop/ivshmem",
	"interop/peer",
	"interop/peer/rdmacore",
	"rdmacm",
	"verbs",
}

// narrow are the folders whose lines of code wrap. The list only grows.
var narrow = []string{
	".",
	"apps",
	"cabi/cabitest",
	"cabi/enginetest",
	"cmd/verbena",
	"cmd/verbena-bench",
	"examples",
	"examples/tour",
	"internal/fsm",
	"internal/monotime",
	"internal/roce/uc",
	"internal/sys/entropy",
	"internal/sys/futex",
	"internal/sys/secenv",
	"internal/testkit/loopback",
	"internal/testkit/stream",
	"internal/version",
	"interop",
	"interop/ivshmem",
}
