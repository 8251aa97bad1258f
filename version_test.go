// SPDX-License-Identifier: BSD-2-Clause

package verbena

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// debianVersion is a version that dpkg takes, without an epoch or a revision.
var debianVersion = regexp.MustCompile(`^[0-9][0-9A-Za-z.+~]*$`)

// scripts/version in a repository without a tag, with one, behind it, changed,
// and in archives. Each version is later than the one before.
func TestVersions(t *testing.T) {
	for _, tool := range []string{"git", "bash", "tar"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("there is no", tool, "in $PATH: install it")
		}
	}
	root := t.TempDir()
	for _, p := range []string{"scripts/version", "internal/version/version.go", ".gitattributes"} {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(root, p), string(b))
	}
	in := func(dir string, command ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir = dir
		cmd.Env = append(cmd.Environ(), "SOURCE_DATE_EPOCH=1767323045", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull,
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
			"GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v", command, err)
		}
		return strings.TrimSpace(string(out))
	}
	git := func(args ...string) { t.Helper(); in(root, append([]string{"git"}, args...)...) }
	archive := func() string {
		t.Helper()
		to := t.TempDir()
		in(root, "git", "archive", "-o", filepath.Join(to, "a.tar"), "HEAD")
		in(to, "tar", "-xf", "a.tar")
		return in(to, "bash", "scripts/version")
	}
	last := ""
	want := func(when, got, pattern string) {
		t.Helper()
		if !regexp.MustCompile("^" + pattern + "$").MatchString(got) {
			t.Errorf("%s: %s; want %s", when, got, pattern)
		}
		if !debianVersion.MatchString(got) {
			t.Errorf("%s: %s is no version for a Debian package", when, got)
		}
		if _, err := exec.LookPath("dpkg"); err == nil && last != "" && exec.Command("dpkg", "--compare-versions", last, "le", got).Run() != nil {
			t.Errorf("%s: %s comes after %s, and dpkg sorts it before", when, got, last)
		}
		last = got
	}
	version := func() string { t.Helper(); return in(root, "bash", "scripts/version") }

	want("without git", version(), `0\.1\.0~20260102`)
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "first")
	want("without a tag", version(), `0\.1\.0~git202601020304\.[0-9a-f]{8}`)
	if got := archive(); got != "0.1.0~20260102" {
		t.Errorf("an archive without a tag: %s", got)
	}
	git("tag", "-a", "-m", "first release", "v0.1.0")
	want("at the tag", version(), `0\.1\.0`)
	want("archive of the tag", archive(), `0\.1\.0`)
	write(t, filepath.Join(root, ".gitattributes"), "scripts/version export-subst\n# changed\n")
	want("changed at the tag", version(), `0\.1\.0\+changed`)
	last = "0.1.0"
	git("commit", "-q", "-a", "-m", "second")
	want("a commit later", version(), `0\.1\.0\+1\.g[0-9a-f]{8}`)
	want("archive of that", archive(), `0\.1\.0\+1\.g[0-9a-f]{8}`)
	write(t, filepath.Join(root, ".gitattributes"), "scripts/version export-subst\n")
	want("changed", version(), `0\.1\.0\+1\.g[0-9a-f]{8}\.changed`)
	git("commit", "-q", "-a", "-m", "third")
	git("tag", "-a", "-m", "second release", "v0.2.0")
	want("the next tag", version(), `0\.2\.0`)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}
