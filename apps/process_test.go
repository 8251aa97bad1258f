// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && apps

package apps

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// verbena is the command of the prefix named by VERBENA_PREFIX, or the one that
// `make build` leaves; the libraries are beside it.
var verbena = func() string {
	prefix := os.Getenv("VERBENA_PREFIX")
	if prefix == "" {
		prefix = ".."
	}
	path, err := filepath.Abs(filepath.Join(prefix, "bin/verbena"))
	if err != nil {
		panic(err) // there is no working directory
	}
	return path
}()

// output collects a process's output; it is read while it grows.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// process is a program that runs over our libraries, with all it starts.
type process struct {
	cmd  *exec.Cmd
	said *output
	done chan struct{} // closed after its end
}

// launch starts a program by `verbena run`. Lines come as they are printed, also
// from programs that would collect them, as this is no terminal.
func launch(dir string, env, argv []string) (*process, error) {
	p := &process{said: &output{}, done: make(chan struct{})}
	p.cmd = exec.Command(verbena, append([]string{"run", "stdbuf", "-oL"}, argv...)...)
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.cmd.WaitDelay = time.Second // a descendant may hold the pipe
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // the state tells
		close(p.done)
	}()
	return p, nil
}

// ended waits for the end until the deadline.
func (p *process) ended(deadline time.Time) bool {
	select {
	case <-p.done:
		return true
	case <-time.After(time.Until(deadline)):
		return false
	}
}

// waitsForEvent reports whether the main thread sleeps in rdma_get_cm_event(3): in a read of a
// pipe, or in a wait for an epoll set that has one. See proc(5), /proc/PID/syscall. A server that
// comes to that listens. Where the file may not be read it says so too early.
func (p *process) waitsForEvent() bool {
	proc := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
	call, err := os.ReadFile(proc + "syscall")
	if err != nil {
		return true
	}
	var number, fd int
	if n, _ := fmt.Sscanf(string(call), "%d 0x%x", &number, &fd); n < 2 {
		return false
	}
	isPipe := func(fd int) bool {
		file, err := os.Readlink(fmt.Sprintf("%sfd/%d", proc, fd))
		return err == nil && strings.HasPrefix(file, "pipe:") && fd > 2
	}
	if number == syscall.SYS_READ {
		return isPipe(fd)
	}
	set, _ := os.ReadFile(fmt.Sprintf("%sfdinfo/%d", proc, fd))
	for line := range strings.Lines(string(set)) {
		var of int
		if n, _ := fmt.Sscanf(line, "tfd: %d", &of); n == 1 && isPipe(of) {
			return true
		}
	}
	return false
}

// kill ends the program and whatever it has started.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it may be gone
	<-p.done
}

// stop ends a server that would go on for ever, as its user would.
func (p *process) stop() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT) // it may be gone
	if !p.ended(time.Now().Add(2 * time.Second)) {
		p.kill()
	}
}

// status is the exit status, or minus the signal's number.
func (p *process) status() int {
	ws := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return -int(ws.Signal())
	}
	return ws.ExitStatus()
}

// telling matches a line that is worth showing, wherever it stands.
var telling = regexp.MustCompile(`(?i)\b(error|exception|failed|failure)\b|\bgot: `)

// tail is the end of a process's output, and telling lines from before, for reports.
func (p *process) tail() string {
	lines := strings.Split(strings.TrimRight(p.said.String(), "\n"), "\n")
	if n := len(lines) - 25; n > 0 {
		kept := slices.DeleteFunc(slices.Clone(lines[:n]), func(l string) bool { return !telling.MatchString(l) })
		kept = kept[:min(len(kept), 25)]
		lines = slices.Concat(kept, []string{fmt.Sprintf("… %d lines …", n-len(kept))}, lines[n:])
	}
	return "  | " + strings.Join(lines, "\n  | ")
}
