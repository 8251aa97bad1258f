// SPDX-License-Identifier: BSD-2-Clause

package verbena

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// newPath is the path that the test gives the module.
const newPath = "example.org/x/verb" + "ena"

// scripts/module-path in a copy of the tree.
func TestModulePath(t *testing.T) {
	for _, tool := range []string{"git", "bash", "sed", "xargs", "gofmt"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("there is no", tool, "in $PATH: install it")
		}
	}
	root := t.TempDir()
	all, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range all.text {
		write(t, filepath.Join(root, name), string(text))
	}
	in := func(command ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir = root
		cmd.Env = append(cmd.Environ(), "CGO_ENABLED=1", "GOFLAGS=-trimpath", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	must := func(command ...string) string {
		t.Helper()
		out, err := in(command...)
		if err != nil {
			t.Fatalf("%q: %v\n%s", command, err, out)
		}
		return out
	}
	git := func(args ...string) string {
		return must(append([]string{"git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "core.autocrlf=false"}, args...)...)
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "tree")

	for path, want := range map[string]string{
		"":                        "no module path",
		"verbena":                 "no module path",
		"/x/verbena":              "no module path",
		"example.org":             "no module path",
		"example.org/":            "no module path",
		"example.org/x//verbena":  "no module path",
		"example.org/x/verb ena":  "no module path",
		"https://example.org/x/v": "no module path",
		"example.org/x/v.git":     "leave out .git",
		"example.org/x/v/v0":      "from v2 on",
	} {
		if out, err := in("bash", "scripts/module-path", path); err == nil || !strings.Contains(out, want) {
			t.Errorf("module-path %q: %v, %s; want %q", path, err, out, want)
		}
	}
	write(t, filepath.Join(root, "changed.go"), "package verbena\n")
	if out, err := in("bash", "scripts/module-path", newPath); err == nil || !strings.Contains(out, "the tree has changes") {
		t.Errorf("with a change: %v, %s", err, out)
	}
	if err := os.Remove(filepath.Join(root, "changed.go")); err != nil {
		t.Fatal(err)
	}
	if out := git("status", "--porcelain"); out != "" {
		t.Fatalf("what was refused changed the tree: %s", out)
	}

	must("bash", "scripts/module-path", newPath)
	there := map[string]bool{}
	imports := map[string]string{}
	for _, line := range strings.Split(must("go", "list", "-tags=cabi,interop,apps", "-f",
		`{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}`, "./..."), "\n") {
		list := strings.Fields(line)
		there[list[0]] = true
		for _, p := range list {
			imports[p] = list[0]
		}
	}
	for p, by := range imports {
		if _, old := local(p); (old || p == module || strings.HasPrefix(p, newPath)) && !there[p] {
			t.Errorf("%s imports %s, which is not there", by, p)
		}
	}
	must("go", "vet", "./ib", "./internal/version", "./internal/wire/pcap")
	if out := must("gofmt", "-l", "verbs", "rdmacm", "internal/engine", "cabi"); out != "" {
		t.Errorf("gofmt finds:\n%s", out)
	}
	if out := git("grep", "-nE", module+"/internal/version[.]stamp", "--", "Makefile", "cabi/Makefile"); strings.Count(out, newPath+"/internal/version.stamp") != 3 {
		t.Errorf("the linker is told of another package:\n%s", out)
	}
	for _, line := range []string{"require " + newPath + " v", "replace " + newPath + " => ", `"` + newPath + `/verbs"`} {
		if out, err := in("grep", "-F", line, "docs/go.md"); err != nil {
			t.Errorf("docs/go.md has no line %q: %v %s", line, err, out)
		}
	}
	for _, line := range []string{"module " + newPath + "/examples/grpc", "\t" + newPath + " v0.0.0", "replace " + newPath + " => "} {
		if out, err := in("grep", "-F", line, "examples/grpc/go.mod"); err != nil {
			t.Errorf("examples/grpc/go.mod has no line %q: %v %s", line, err, out)
		}
	}
	git("commit", "-q", "-a", "-m", "moved")
	must("bash", "scripts/module-path", newPath)
	if out := git("status", "--porcelain"); out != "" {
		t.Errorf("the second run changed:\n%s", out)
	}
	if module == "verbena" { // else this tree has a path of its own, and the script refuses one without a host
		return
	}
	must("bash", "scripts/module-path", module)
	if out := git("diff", "--stat", "HEAD~"); out != "" {
		t.Errorf("there and back changed:\n%s", out)
	}
}
