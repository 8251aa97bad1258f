// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"verbena/internal/engine/policy"
)

// Each row of `make bench` and each test that the policy names as showing a number exists.
func TestPolicyIsShown(t *testing.T) {
	tests := testNames(t, "../../")
	rows := map[string]bool{}
	for _, topic := range topics {
		for _, g := range topic.groups {
			for _, r := range g.rows {
				rows[r.name] = true
			}
		}
	}
	for _, n := range policy.Table {
		switch {
		case n.Shown == "":
			t.Errorf("%s: what shows nothing when switched off is deleted", n.Name)
		case strings.HasPrefix(n.Shown, "Test"):
			if !tests[n.Shown] {
				t.Errorf("%s: no package of internal has the test %s", n.Name, n.Shown)
			}
		case !rows[n.Shown]:
			t.Errorf("%s: no row of make bench is %q", n.Name, n.Shown)
		}
	}
}

// testNames returns the tests of all packages below a folder.
func testNames(t *testing.T, folder string) map[string]bool {
	names := map[string]bool{}
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for line := range strings.Lines(string(b)) {
			if rest, ok := strings.CutPrefix(line, "func Test"); ok {
				name, _, _ := strings.Cut(rest, "(")
				names["Test"+name] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
