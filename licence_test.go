// SPDX-License-Identifier: BSD-2-Clause

package verbena

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// licence is the line that every source file has: as its first line, or as its
// second one below the name of its interpreter.
const licence = "SPDX-License-" + "Identifier: BSD-2-Clause"

// licensed are the file names and endings of sources; a file with an
// interpreter is one, too.
var licensed = []string{".go", ".s", ".c", ".h", ".map", ".sh", ".supp", ".recipe", ".1", "Makefile", "lintian-overrides"}

func TestSourcesNameTheirLicence(t *testing.T) {
	files := 0
	err := fs.WalkDir(os.DirFS("."), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (p == ".git" || p == "bin" || p == "lib"):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		script := bytes.HasPrefix(b, []byte("#!"))
		if !script && !slices.Contains(licensed, path.Ext(p)) && !slices.Contains(licensed, path.Base(p)) {
			return nil
		}
		files++
		lines := strings.SplitN(string(b), "\n", 3)
		if script && len(lines) > 1 {
			lines = lines[1:]
		}
		if strings.Trim(lines[0], "/*#.\\\" ") != licence {
			t.Errorf("%s: does not start with a comment of one line, %s", p, licence)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 1000 {
		t.Errorf("only %d sources found: the test must run in the root of the tree", files)
	}
}

// The text of the licence stands in two files: LICENSE, and the copyright file
// of the Debian package, whose format indents it.
func TestThePackageHasTheLicence(t *testing.T) {
	text := func(p, from string) string {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		_, after, ok := strings.Cut(string(b), from)
		if !ok {
			t.Fatalf("%s: has no %q", p, from)
		}
		return strings.Join(strings.FieldsFunc(after, func(r rune) bool { return strings.ContainsRune(" \n", r) }), " ")
	}
	ours := text("LICENSE", "The Verbena authors\n")
	theirs := strings.ReplaceAll(text("packaging/copyright", "License: BSD-2-Clause\n"), " . ", " ")
	if theirs != ours {
		t.Errorf("packaging/copyright and LICENSE have different texts:\n%s\n%s", theirs, ours)
	}
}

// packaging/licences has a paragraph for every module that is linked into an installed command or
// into the C engine, and for nothing else.
func TestPackagedLicencesAreComplete(t *testing.T) {
	const header = "/usr/include/infiniband/verbs.h"
	if _, err := os.Stat(header); err != nil {
		t.Skipf("libibverbs-dev is not installed: apt-get install libibverbs-dev: %v", err)
	}
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash in $PATH: install it")
	}
	want := []string{"go", "rdma-core-headers"}
	for _, args := range [][]string{{"./cmd/verbena", "./cabi/keeper"}, {"-tags=cabi", "./cabi/engine"}} {
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}"}, args...)...)
		cmd.Env = append(cmd.Environ(), "CGO_ENABLED=1")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v", cmd.Args, err)
		}
		for _, m := range strings.Fields(string(out)) {
			if m != module && !slices.Contains(want, m) {
				want = append(want, m)
			}
		}
	}
	want = append(want, "github.com/go-analyze/charts/chartdraw/drawing/fonts") // have a licence of their own
	out, err := exec.CommandContext(t.Context(), "bash", "packaging/licences").Output()
	if err != nil {
		t.Fatalf("packaging/licences: %v", err)
	}
	var got []string
	for _, paragraph := range strings.Split(strings.TrimSpace(string(out)), "\n\n") {
		m := regexp.MustCompile(`(?s)^Files: (\S+)/\*\nCopyright: \S.*\nLicense: \S+~\S+\n .{40}`).FindStringSubmatch(paragraph)
		if m == nil {
			t.Errorf("packaging/licences: no paragraph of a copyright file: %.100q", paragraph)
			continue
		}
		got = append(got, m[1])
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("packaging/licences has %q; linked are %q", got, want)
	}
}
