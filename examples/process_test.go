// SPDX-License-Identifier: BSD-2-Clause

package examples

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bin is the folder of the built examples.
var bin string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	var err error
	if bin, err = os.MkdirTemp("", "examples"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(bin)
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", bin, "./...", "../cmd/verbena").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// process is an example that runs. It ends with the test at the latest.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	output *bufio.Scanner
	read   strings.Builder
}

func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(filepath.Join(bin, name), args...)}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = w, w
	err = p.cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	p.output = bufio.NewScanner(r)
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			p.cmd.Process.Kill()
			p.cmd.Wait()
		}
		r.Close()
	})
	return p
}

// want reads until a line begins with prefix, and returns the rest of that line.
func (p *process) want(prefix string) string {
	p.t.Helper()
	for p.output.Scan() {
		line := p.output.Text()
		fmt.Fprintln(&p.read, line)
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(rest)
		}
	}
	p.t.Fatalf("%s ends without %q; it printed:\n%s", p.cmd, prefix, &p.read)
	return ""
}

// end reads the rest, waits for the process, and returns all that it printed.
func (p *process) end(status int) string {
	p.t.Helper()
	for p.output.Scan() {
		fmt.Fprintln(&p.read, p.output.Text())
	}
	p.cmd.Wait()
	if got := p.cmd.ProcessState.ExitCode(); got != status {
		p.t.Errorf("%s: exit status %d, not %d; it printed:\n%s", p.cmd, got, status, &p.read)
	}
	return p.read.String()
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// run runs an example to its end and returns its output.
func run(t *testing.T, status int, name string, args ...string) string {
	t.Helper()
	return start(t, name, args...).end(status)
}

// serve starts an example that listens, and returns its address.
func serve(t *testing.T, name string, args ...string) (*process, string) {
	t.Helper()
	p := start(t, name, append([]string{"-listen", "127.0.0.1:0"}, args...)...)
	return p, p.want("listening on")
}

// same reports output that differs.
func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, not %q", what, got, want)
	}
}
