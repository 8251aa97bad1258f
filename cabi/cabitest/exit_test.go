// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestExitEndsConnections: a process that exits ends its connections, though no other process at
// its address could do it afterwards.
func TestExitEndsConnections(t *testing.T) {
	if _, here := newNetwork(t); !here {
		return
	}
	program := compile(t, "exit_cm")
	const over = "RDMA_CM_EVENT_ESTABLISHED RDMA_CM_EVENT_DISCONNECTED"
	for _, kind := range []string{"roce", "iwarp", "trp"} {
		t.Setenv("VERBENA_DEVICES", kind)
		for _, how := range []string{"established", "thread", "signal"} {
			t.Run(kind+"/listener/"+how, func(t *testing.T) {
				l := startAlone(t, program, "listen", "192.0.2.1", how)
				if got := startAlone(t, program, "connect", "192.0.2.2", "192.0.2.1", l.line()).rest(); got != over {
					t.Errorf("its peer says %q", got)
				}
				l.rest()
			})
			t.Run(kind+"/connector/"+how, func(t *testing.T) {
				l := startAlone(t, program, "listen", "192.0.2.1")
				startAlone(t, program, "connect", "192.0.2.2", how, "192.0.2.1", l.line()).rest()
				if got := l.rest(); got != over {
					t.Errorf("its peer says %q", got)
				}
			})
		}
		t.Run(kind+"/listener/request", func(t *testing.T) {
			l := startAlone(t, program, "listen", "192.0.2.1", "request")
			if got := startAlone(t, program, "connect", "192.0.2.2", "192.0.2.1", l.line()).rest(); got != "RDMA_CM_EVENT_REJECTED" {
				t.Errorf("its peer says %q", got)
			}
			l.rest()
		})
	}
}

// TestExitWaits: a program that exits waits for the engine's thread while that gets on, and not
// much longer.
func TestExitWaits(t *testing.T) {
	const patience = 300 * time.Millisecond
	hasty := compile(t, "exit_wait", fmt.Sprintf("-DEXIT_PATIENCE_MS=%d", patience.Milliseconds()))
	patient := compile(t, "exit_wait", "-DEXIT_PATIENCE_MS=10000")
	for _, c := range []struct {
		program, how, want string
		least              time.Duration
	}{
		{patient, "", "", 0},
		{patient, "done", "done\n", 0},
		{patient, "works", "...done\n", 0},
		{patient, "endless", "..........", 0},
		{patient, "fork", "", 0},
		{hasty, "stuck", "", patience},
	} {
		began := time.Now()
		got, _ := outputOf(t, c.program, nil, strings.Fields(c.how)...)
		if took := time.Since(began); got != c.want || took < c.least {
			t.Errorf("%q: %q after %v, want %q after at least %v", c.how, got, took, c.want, c.least)
		}
	}
}

// alone is a program in a network namespace of its own.
type alone struct {
	t      *testing.T
	cmd    *exec.Cmd
	run    string // its runtime directory
	out    *bufio.Reader
	stderr bytes.Buffer
}

func startAlone(t *testing.T, program string, args ...string) *alone {
	t.Helper()
	p := newAlone(t, program, args...)
	p.start()
	return p
}

// startTalking starts a program that goes on until its input is closed.
func startTalking(t *testing.T, program string, args ...string) (*alone, io.WriteCloser) {
	t.Helper()
	p := newAlone(t, program, args...)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.start()
	return p, in
}

func newAlone(t *testing.T, program string, args ...string) *alone {
	t.Helper()
	lib, _ := libDir()
	p := &alone{t: t, cmd: exec.CommandContext(t.Context(), program, args...), run: t.TempDir()}
	p.cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib, "XDG_RUNTIME_DIR="+p.run)
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	return p
}

func (p *alone) start() {
	p.t.Helper()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
}

// line returns the next line of output.
func (p *alone) line() string {
	p.t.Helper()
	s, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("%v: %v %s", p.cmd.Args, err, p.stderr.String())
	}
	return strings.TrimSpace(s)
}

// rest waits for the end of the program, which must succeed, and returns the rest of its output.
func (p *alone) rest() string {
	p.t.Helper()
	var said []string
	for s := bufio.NewScanner(p.out); s.Scan(); {
		said = append(said, s.Text())
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("%v: %v %s", p.cmd.Args, err, p.stderr.String())
	}
	return strings.Join(said, " ")
}
