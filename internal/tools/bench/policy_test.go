// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"verbena/internal/engine/policy"
)

// Each row that the policy names as showing a number exists.
func TestPolicyIsShown(t *testing.T) {
	var tests []byte
	files, err := filepath.Glob("../../engine/*_test.go")
	for _, f := range files {
		b, e := os.ReadFile(f)
		tests, err = append(tests, b...), errors.Join(err, e)
	}
	if err != nil {
		t.Fatal(err)
	}
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
		case strings.HasPrefix(n.Shown, "Test"):
			if !bytes.Contains(tests, []byte("\nfunc "+n.Shown+"(")) {
				t.Errorf("%s: no test of the engine is %s", n.Name, n.Shown)
			}
		case n.Shown != "" && !rows[n.Shown]:
			t.Errorf("%s: no row of make bench is %q", n.Name, n.Shown)
		case n.Shown == "" && n.Off != "":
			t.Errorf("%s: what shows nothing when switched off is deleted", n.Name)
		}
	}
}
