// SPDX-License-Identifier: BSD-2-Clause

// Package docs is the documentation. Its tests run the commands that it tells its readers to type.
package docs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"verbena/internal/testkit/commands"
)

// limit bounds one block of commands.
const limit = 20 * time.Second

// pages are the files with commands, from this folder.
func pages(t *testing.T) []string {
	t.Helper()
	here, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	all := append(here, "../README.md", "../CONTRIBUTING.md", "../SECURITY.md", "../ARCHITECTURE.md")
	design, err := filepath.Glob("design/*.md")
	if err != nil || len(here) == 0 {
		t.Fatalf("%d pages, %v", len(here), err)
	}
	return append(all, design...)
}

// The blocks of one page run in order, each in a shell of its own, in one directory. It
// has bin/verbena, as the tree has after make build.
func TestCommands(t *testing.T) {
	verbena := build(t)
	ran := 0
	for _, page := range pages(t) {
		blocks, err := commands.Blocks(page)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(verbena, filepath.Join(dir, "bin", "verbena")); err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			if !b.Typed() {
				continue
			}
			t.Run(fmt.Sprintf("%s:%d", strings.TrimPrefix(page, "../"), b.Line), func(t *testing.T) {
				switch {
				case b.ByApps:
					t.Skip("make apps runs it")
				case b.NotRun != "":
					t.Skip("not run: " + b.NotRun)
				}
				ran++
				said := typed(t, dir, b.Script())
				for _, line := range b.NotSaid(said) {
					t.Errorf("%s:%d shows %q, which was not printed; this was:\n%s", page, b.Line, line, said)
				}
			})
		}
	}
	if ran == 0 {
		t.Error("no command was run")
	}
}

// build makes the command, without the C libraries.
func build(t *testing.T) string {
	t.Helper()
	verbena := filepath.Join(t.TempDir(), "verbena")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", verbena, "../cmd/verbena").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return verbena
}

// typed runs a script by a shell that stops at the first failure and returns its output: as root in
// a network namespace of its own, else in that of the machine.
func typed(t *testing.T, dir, script string) string {
	t.Helper()
	out, err := shell(t, dir, "ip link set lo up\n"+script, syscall.CLONE_NEWNET)
	if errors.Is(err, syscall.EPERM) {
		out, err = shell(t, dir, script, 0)
	}
	if err != nil {
		t.Errorf("%v:\n%s\nit said\n%s", err, script, out)
	}
	return out
}

func shell(t *testing.T, dir, script string, flags uintptr) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "sh", "-e")
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "XDG_RUNTIME_DIR="+t.TempDir())
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: flags}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second // a server that was left behind
	err := cmd.Run()
	if err != nil && cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // a server that was left behind
	}
	return said.String(), err
}
