// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// usage is the consumption of all threads of a process.
type usage struct {
	cpu      time.Duration
	switches int64 // voluntary context switches
}

func (u usage) since(before usage) usage {
	return usage{u.cpu - before.cpu, u.switches - before.switches}
}

// usageOf reads the CPU time and the switches of a process's threads.
func usageOf(pid int) (usage, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(threads) == 0 {
		return usage{}, fmt.Errorf("%w: no /proc/%d/task", errLeftOut, pid)
	}
	var u usage
	for _, dir := range threads {
		stat, err := os.ReadFile(filepath.Join(dir, "schedstat"))
		if errors.Is(err, os.ErrNotExist) { // the thread has ended
			continue
		}
		var nanoseconds int64
		if err == nil {
			_, err = fmt.Sscan(string(stat), &nanoseconds)
		}
		if err != nil {
			return usage{}, err
		}
		u.cpu += time.Duration(nanoseconds)
		status, err := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil {
			continue
		}
		_, count, _ := strings.Cut(string(status), "\nvoluntary_ctxt_switches:")
		count, _, _ = strings.Cut(count, "\n")
		n, err := strconv.ParseInt(strings.TrimSpace(count), 10, 64)
		if err != nil {
			return usage{}, err
		}
		u.switches += n
	}
	return u, nil
}

// callCounter counts the system calls of a process by perf, which does not stop it
// at each as strace does.
type callCounter struct {
	cmd      *exec.Cmd
	control  *os.File // takes perf's commands
	answers  *bufio.Reader
	output   string
	inherits []*os.File
}

// countCalls attaches perf to a process.
func countCalls(ctx context.Context, dir string, pid int) (c *callCounter, err error) {
	perf, err := exec.LookPath("perf")
	if err != nil {
		return nil, fmt.Errorf("%w: perf is not installed", errLeftOut)
	}
	commands, control, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	answers, acks, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, commands.Close(), control.Close())
	}
	c = &callCounter{control: control, answers: bufio.NewReader(answers),
		output: filepath.Join(dir, "calls"), inherits: []*os.File{control, answers}}
	c.cmd = exec.CommandContext(ctx, perf, "stat", "-x,", "-D", "-1", "-e",
		"raw_syscalls:sys_enter", "-p", strconv.Itoa(pid), "-o", c.output, "--control", "fd:3,4")
	c.cmd.ExtraFiles = []*os.File{commands, acks}
	err = c.cmd.Start()
	commands.Close()
	acks.Close()
	if err == nil {
		err = c.say("enable")
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("%w: perf cannot count system calls: %w", errLeftOut, err)
	}
	return c, nil
}

// say gives perf a command and waits for its answer.
func (c *callCounter) say(command string) error {
	if _, err := io.WriteString(c.control, command+"\n"); err != nil {
		return err
	}
	_, err := c.answers.ReadString('\n')
	return err
}

func (c *callCounter) close() {
	for _, f := range c.inherits {
		f.Close()
	}
	if c.cmd.Process != nil {
		_ = c.cmd.Process.Signal(os.Interrupt) // it may have ended
		_ = c.cmd.Wait()                       // by the signal
	}
}

// count ends the count and returns it.
func (c *callCounter) count() (float64, error) {
	err := c.say("disable")
	c.close()
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(c.output)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if n, rest, _ := strings.Cut(line, ","); strings.Contains(rest, "sys_enter") {
			return strconv.ParseFloat(n, 64)
		}
	}
	return 0, fmt.Errorf("perf counted nothing: %s", text)
}
