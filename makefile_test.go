// SPDX-License-Identifier: BSD-2-Clause

package verbena

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// needs is a line of a recipe that installs packages.
var needs = regexp.MustCompile(`scripts/need ([a-z0-9 .+\\-]+)`)

// works is a line after which minutes may have passed.
var works = regexp.MustCompile(`(?m)^.*(\bgo (vet|test|build|list)|kernel/build|packaging/|bin/verbena-bench).*$`)

// A package that is missing is found at once, and not after minutes of work.
func TestMakeChecksBeforeItWorks(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("there is no make in $PATH: apt-get install make")
	}
	for _, target := range []string{"build", "run", "test", "lint", "capi", "apps", "pyverbs", "interop", "deb", "bench"} {
		cmd := exec.CommandContext(t.Context(), "make", "-n", "GO=go", "VERSION=0.1", target)
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { // of a make around this
			return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=")
		})
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("make -n %s: %v\n%s", target, err, out)
		}
		text := strings.ReplaceAll(string(out), "\\\n", " ")
		work := works.FindStringIndex(text)
		if work == nil {
			t.Fatalf("make -n %s does nothing:\n%s", target, text)
		}
		first := packagesNeeded(text[:work[0]])
		for _, p := range packagesNeeded(text[work[0]:]) {
			if !slices.Contains(first, p) {
				t.Errorf("make %s looks for %s after %q", target, p, strings.TrimSpace(text[work[0]:work[1]]))
			}
		}
		if len(first) == 0 {
			t.Errorf("make %s looks for nothing before %q", target, strings.TrimSpace(text[work[0]:work[1]]))
		}
	}
}

func packagesNeeded(recipe string) (list []string) {
	for _, m := range needs.FindAllStringSubmatch(recipe, -1) {
		list = append(list, strings.Fields(m[1])...)
	}
	return list
}

// Without Go nothing else is looked for.
func TestMakeAsksForGo(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "bash", "scripts/need", "no-such-package")
	cmd.Env = append(cmd.Environ(), "GO=no-such-go")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "there is no no-such-go: install Go") {
		t.Errorf("%v: %s", err, out)
	}
}
