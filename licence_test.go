// SPDX-License-Identifier: BSD-2-Clause

package verbena

import (
	"bytes"
	"io/fs"
	"os"
	"path"
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
