// SPDX-License-Identifier: BSD-2-Clause

package verbena

import (
	"bytes"
	"go/ast"
	"go/token"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxLines bounds a file: a longer one has more than one concept in it.
const maxLines = 600

func TestFilesAreShort(t *testing.T) {
	for _, s := range sources(t) {
		if n := fileSet.File(s.file.Pos()).LineCount(); n > maxLines {
			t.Errorf("%s: %d lines: split what is over %d, a concept a file", s.path, n, maxLines)
		}
	}
}

func TestUnsafeIsConfined(t *testing.T) {
	for _, s := range sources(t) {
		if s.importName("unsafe") != "" && !s.isTest() && !strings.HasSuffix(s.path, "_unsafe.go") && !within(s.dir, "cabi") {
			t.Errorf("%s: imports unsafe: move what needs it to a file named …_unsafe.go", s.path)
		}
	}
}

func TestNoCgo(t *testing.T) {
	for _, s := range sources(t) {
		if s.importName("C") != "" && !within(s.dir, "cabi") {
			t.Errorf("%s: imports C: all but the C ABI is pure Go", s.path)
		}
	}
}

// userPrograms run with their user's privileges only: commands and tests.
var userPrograms = []string{"internal/tools", "cmd", "internal/testkit", "interop", "apps"}

// The libraries may be in a program with privileges that its user lacks.
func TestEnvironmentIsReadSecurely(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || within(s.dir, userPrograms...) || s.dir == "internal/sys/secenv" {
			continue
		}
		for name, pos := range selections(s, "os") {
			if slices.Contains([]string{"Getenv", "LookupEnv", "Environ", "ExpandEnv"}, name) {
				t.Errorf("%s: os.%s: take secenv.Get, which reads nothing in a set-uid program", s.at(pos), name)
			}
		}
	}
	all, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	read := regexp.MustCompile(`(^|[^_a-z])getenv\(`)
	for name, text := range all.text {
		if (strings.HasSuffix(name, ".c") || strings.HasSuffix(name, ".h")) && within(name, "cabi") && !strings.Contains(name, "/test/") && read.Match(text) {
			t.Errorf("%s: getenv: take secure_getenv, which reads nothing in a set-uid program", name)
		}
	}
}

// Without the tag the tree builds where there is no C compiler.
func TestCgoHasATag(t *testing.T) {
	all, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all.sources {
		if s.importName("C") != "" && !bytes.Contains(all.text[s.path], []byte("\n//go:build cabi")) {
			t.Errorf("%s: imports C and has no //go:build cabi", s.path)
		}
	}
}

// Where systems differ, a file of each stands beside the other; code that asks
// which system it runs on is compiled, and never tested, everywhere.
func TestSystemsComeInPairs(t *testing.T) {
	all, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sources(t) {
		if s.isTest() || within(s.dir, "interop") {
			continue
		}
		name := path.Base(s.path)
		stem := strings.TrimSuffix(name, ".go")
		exists := func(suffix string) bool {
			_, ok := all.text[path.Join(s.dir, stem[:strings.LastIndexByte(stem, '_')]+suffix)]
			return ok
		}
		system := constrained(s.file)
		switch {
		case strings.HasSuffix(stem, "_other"):
			if !exists("_linux.go") && !exists("_unix.go") && !exists("_unsafe.go") && !hasSuffix(all, s.dir, "_linux.go") {
				t.Errorf("%s: what is the other system? there is no file for Linux or unix beside it", s.path)
			}
		case strings.HasSuffix(stem, "_linux"), strings.HasSuffix(stem, "_unix"):
			if !exists("_other.go") && !hasSuffix(all, s.dir, "_other.go") {
				t.Errorf("%s: there is no …_other.go for the other systems", s.path)
			}
		case system && strings.HasSuffix(stem, "_unsafe"):
			if !hasSuffix(all, s.dir, "_other.go") {
				t.Errorf("%s: there is no …_other.go for the other systems", s.path)
			}
		case system:
			t.Errorf("%s: is for some systems only: its name must end in _linux, _unix or _other", s.path)
		}
		for name, pos := range selections(s, "runtime") {
			if name == "GOOS" && s.dir != "internal/wire/pcap" { // there it is data: the capture's header
				t.Errorf("%s: runtime.GOOS: use a pair of files, x_linux.go and x_other.go", s.at(pos))
			}
		}
	}
}

// hasSuffix reports whether a folder has a file whose name ends so: one
// _other.go may stand for several files of Linux.
func hasSuffix(t *tree, dir, suffix string) bool {
	for p := range t.text {
		if path.Dir(p) == dir && strings.HasSuffix(p, suffix) {
			return true
		}
	}
	return false
}

var systems = regexp.MustCompile(`\b(linux|unix|windows|darwin|freebsd)\b`)

// constrained reports whether a build constraint names a system.
func constrained(f *ast.File) bool {
	for _, g := range f.Comments {
		for _, c := range g.List {
			if rule, ok := strings.CutPrefix(c.Text, "//go:build "); ok && systems.MatchString(rule) {
				return true
			}
		}
	}
	return false
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for dir, files := range packages(t) {
		documented := 0
		for _, s := range files {
			if s.file.Doc.Text() != "" {
				documented++
			}
		}
		switch documented {
		case 0:
			t.Errorf("package %s has no doc comment: say in doc.go what it is and what it must not do", dir)
		case 1:
		default:
			t.Errorf("package %s has %d doc comments: godoc joins them in no order", dir, documented)
		}
	}
}

// Left-over marks; spelt so that this file has none.
var marks = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`)

// Places that exist on one machine only.
var places = regexp.MustCompile(`(^|[^\w.-])/(wo` + `rk|home)/|\bsha` + `red/(lab|reference|design|style)|https?://[\w.-]+\.(internal|local|lan|corp)\b`)

func TestNothingIsLeftOver(t *testing.T) {
	all, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	proxies := privateProxies()
	for p, b := range all.text {
		for i, line := range bytes.Split(b, []byte("\n")) {
			if m := marks.Find(line); m != nil {
				t.Errorf("%s:%d: %s: do it, or write down as a limit what is not there", p, i+1, m)
			}
			if m := places.Find(line); m != nil {
				t.Errorf("%s:%d: %q is a place that others do not have", p, i+1, m)
			}
			for _, h := range proxies {
				if bytes.Contains(line, []byte(h)) {
					t.Errorf("%s:%d: names the module proxy of this machine", p, i+1)
				}
			}
		}
	}
}

// privateProxies returns the hosts that this machine gets modules from, where
// they are not the public ones.
func privateProxies() (hosts []string) {
	out, err := exec.Command("go", "env", "GOPROXY").Output()
	if err != nil {
		return nil // no go command beside a test binary: nothing to know
	}
	for _, u := range strings.FieldsFunc(string(out), func(r rune) bool { return strings.ContainsRune(",|\n", r) }) {
		_, host, ok := strings.Cut(u, "://")
		if host, _, _ = strings.Cut(host, "/"); ok && host != "" && !strings.HasSuffix(host, "golang.org") {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// public are the packages that applications import.
var public = []string{"ib", "verbs", "rdmacm", "rsocket"}

func TestPublicNamesAreDocumented(t *testing.T) {
	for dir, files := range packages(t) {
		if !within(dir, public...) {
			continue
		}
		for _, s := range files {
			for _, d := range s.file.Decls {
				for name, pos := range undocumented(d) {
					t.Errorf("%s: %s has no doc comment", s.at(pos), name)
				}
			}
		}
	}
}

// selfEvident are methods whose interface documents them: fmt.Stringer, error.
var selfEvident = []string{"String", "Error", "Unwrap"}

// undocumented returns the exported names of a declaration without a comment.
// The comment of a group serves all in it.
func undocumented(d ast.Decl) map[string]token.Pos {
	names := map[string]token.Pos{}
	add := func(n *ast.Ident) {
		if n.IsExported() {
			names[n.Name] = n.Pos()
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && exportedReceiver(d) && !(d.Recv != nil && slices.Contains(selfEvident, d.Name.Name)) {
			add(d.Name)
		}
	case *ast.GenDecl:
		if d.Doc != nil {
			return nil
		}
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Doc == nil && s.Comment == nil {
					add(s.Name)
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if s.Doc == nil && s.Comment == nil {
						add(n)
					}
				}
			}
		}
	}
	return names
}

// exportedReceiver reports whether a function is seen from outside: it is no
// method, or one of an exported type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}
