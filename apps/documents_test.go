// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && apps

package apps

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"verbena/internal/testkit/commands"
)

// The commands of the documents are run as they stand, by a shell that stops at the first failure.

// The blocks of README.md and docs that need the libraries and Debian's programs; the
// others are run by go test ./docs.
func TestDocuments(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, page := range append(pages, "../README.md") {
		blocks, err := commands.Blocks(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			if !b.Typed() || !b.ByApps {
				continue
			}
			ran++
			t.Run(fmt.Sprintf("%s:%d", filepath.Base(page), b.Line), func(t *testing.T) {
				said := typed(t, b.Script())
				for _, line := range b.NotSaid(said) {
					t.Errorf("%q is shown and was not printed; this was:\n%s", line, said)
				}
			})
		}
	}
	if ran == 0 {
		t.Error("no block is marked: run by make apps")
	}
}

func TestManualExamples(t *testing.T) {
	_, examples, _ := strings.Cut(document(t, "packaging/verbena.1"), "\n.Sh EXAMPLES\n")
	blocks := regexp.MustCompile(`(?s)\n\.Bd .*?\n(.*?)\.Ed`).FindAllStringSubmatch(examples, -1)
	if len(blocks) < 2 {
		t.Fatalf("verbena.1 has %d examples", len(blocks))
	}
	for _, want := range []string{`#bytes +#iterations`, `RC RDMA Read Request`} {
		if said := typed(t, blocks[0][1]+"wait\n"); !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("no %q in what\n%ssaid:\n%s", want, blocks[0][1], said)
		}
		blocks = blocks[1:]
	}
}

// The steps for a continuous integration that need nothing of the user's own.
func TestContinuousIntegration(t *testing.T) {
	_, rest, found := strings.Cut(document(t, "docs/applications.md"), "- run: |\n")
	if !found {
		t.Fatal("docs/applications.md has no step of several lines")
	}
	step := ""
	for line := range strings.Lines(rest) {
		command, in := strings.CutPrefix(line, strings.Repeat(" ", 10))
		if !in {
			break
		}
		step += command
	}
	if strings.Count(step, "rping") != 2 {
		t.Fatalf("the step is\n%s", step)
	}
	for range 5 { // that the server is not ready yet shows now and then only
		typed(t, step)
	}
}

func document(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// typed runs a script in a directory of its own, where bin/verbena is the command, which
// is in $PATH too.
func typed(t *testing.T, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "sh", "-e")
	cmd.Dir = t.TempDir()
	if err := os.Symlink(filepath.Dir(verbena), filepath.Join(cmd.Dir, "bin")); err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(verbena)+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second // a server that was left behind
	if err := cmd.Run(); err != nil {
		t.Errorf("%v:\n%s\nit said\n%s", err, script, said.String())
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its remaining children
	}
	return said.String()
}
