// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package guest

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Host runs commands: a Guest, or the test process's side of the LAN.
type Host interface {
	Name() string
	IPv4() netip.Addr
	IPv6() netip.Addr

	// run runs a bash command until it ends or ctx does, copies both its outputs to out, and
	// returns its status.
	run(ctx context.Context, command string, out io.Writer) (status int, err error)
}

// agentPort is the TCP port of the agent in every guest.
const agentPort = 77

// Command is a command that was started on a host.
type Command struct {
	t    testing.TB
	host Host
	text string
	done chan struct{} // closed when status is set

	cancel  context.CancelFunc // kills it
	mu      sync.Mutex
	out     bytes.Buffer  // guarded by mu
	changed chan struct{} // guarded by mu; closed and made anew at each Write

	status int   // valid when done is closed
	err    error // likewise; it was cut off, or never ran
}

// Start starts a bash command on a host. It is killed when the limit or the
// test ends, and shown with its output if the test has failed.
func Start(t testing.TB, host Host, limit time.Duration, command string) *Command {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	c := &Command{t: t, host: host, text: command, done: make(chan struct{}),
		changed: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(c.done)
		c.status, c.err = host.run(ctx, command, c)
		if ctx.Err() == context.DeadlineExceeded {
			c.err = fmt.Errorf("did not end within %v", limit)
		}
	}()
	t.Cleanup(func() {
		c.Stop()
		if t.Failed() {
			t.Log(c)
		}
	})
	return c
}

// Run runs a bash command on a host and returns both its outputs. The test fails if its status is
// not 0.
func Run(t testing.TB, host Host, limit time.Duration, command string) string {
	t.Helper()
	c := Start(t, host, limit, command)
	return c.Succeed()
}

// Wait waits until the command ends and returns its status and output.
func (c *Command) Wait() (status int, output string) {
	c.t.Helper()
	<-c.done
	if c.err != nil {
		c.t.Fatalf("%s: %s: %v", c.host.Name(), c.text, c.err)
	}
	return c.status, c.Output()
}

// Stop kills the command, and returns when it has ended.
func (c *Command) Stop() {
	c.cancel()
	<-c.done
}

// Succeed waits until the command ends and returns its output. The test fails
// if its status is not 0.
func (c *Command) Succeed() string {
	c.t.Helper()
	status, output := c.Wait()
	if status != 0 {
		c.t.Fatalf("%s: %s: status %d", c.host.Name(), c.text, status)
	}
	return output
}

// Expect waits until the output matches a pattern and returns the match and
// its groups. The test fails if the command ends without.
func (c *Command) Expect(pattern string) []string {
	c.t.Helper()
	re := regexp.MustCompile(pattern)
	for {
		c.mu.Lock()
		match, changed := re.FindStringSubmatch(c.out.String()), c.changed
		c.mu.Unlock()
		if match != nil {
			return match
		}
		select {
		case <-changed:
		case <-c.done:
			if match = re.FindStringSubmatch(c.Output()); match == nil {
				c.t.Fatalf("%s: %s: ended without saying %q", c.host.Name(), c.text, pattern)
			}
			return match
		}
	}
}

// Output returns the command's output so far.
func (c *Command) Output() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.String()
}

// Write takes the command's output; run's caller passes c for it.
func (c *Command) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
	return c.out.Write(b)
}

// shownLines is the number of lines of a command's output that a failed test shows.
const shownLines = 60

// String returns the command and its result.
func (c *Command) String() string {
	fate := "still runs"
	select {
	case <-c.done:
		fate = fmt.Sprintf("status %d", c.status)
		if c.err != nil {
			fate = c.err.Error()
		}
	default:
	}
	return fmt.Sprintf("%s$ %s\n%s[%s]", c.host.Name(), c.text, tail(c.Output(), shownLines), fate)
}

// tail returns the last lines of a text, saying how many it leaves out.
func tail(text string, lines int) string {
	all := strings.SplitAfter(text, "\n")
	if cut := len(all) - lines; cut > 0 {
		return fmt.Sprintf("(%d lines before)\n%s", cut, strings.Join(all[cut:], ""))
	}
	return text
}

// Local is the test process's side of the LAN as a Host. Its commands run
// without any capability, as an ordinary user's would, unless it is Privileged.
type Local struct {
	Interface   string // that has the addresses
	Privileged  bool
	Environment []string // further variables of commands
}

func (Local) Name() string     { return "local" }
func (Local) IPv4() netip.Addr { return ipv4(0) }
func (Local) IPv6() netip.Addr { return ipv6(0) }

func (l Local) run(ctx context.Context, command string, out io.Writer) (int, error) {
	words := []string{"setpriv", "--bounding-set=-all", "--inh-caps=-all", "bash", "-c", command}
	if l.Privileged {
		words = words[3:]
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = append(os.Environ(), l.Environment...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// run hands the command to the guest's agent. When ctx ends before the command
// its output is no longer waited for; the agent's timeout kills it.
func (g *Guest) run(ctx context.Context, command string, out io.Writer) (int, error) {
	conn, err := g.dial(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	limit := time.Hour
	if deadline, ok := ctx.Deadline(); ok {
		limit = time.Until(deadline)
	}
	if _, err := fmt.Fprintf(conn, "%.3f %s\n", limit.Seconds(),
		base64.StdEncoding.EncodeToString([]byte(command))); err != nil {
		return 0, err
	}
	return copyOutput(out, conn)
}

// dial connects to the guest's agent. Under emulation a guest can stand still for
// longer than the host asks for its hardware address (3 s): it is asked again then.
func (g *Guest) dial(ctx context.Context) (net.Conn, error) {
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp",
			netip.AddrPortFrom(controlAddr(g.n, 2), agentPort).String())
		if !errors.Is(err, syscall.EHOSTUNREACH) || ctx.Err() != nil {
			return conn, err
		}
	}
}

// statusMark begins the last line of the agent's answer.
const statusMark = "\n:status="

// copyOutput copies the agent's answer line by line as it comes and takes the
// status off its end. The last line is held back, with the newline before it.
func copyOutput(out io.Writer, answer io.Reader) (status int, err error) {
	var held []byte
	buf := make([]byte, 16<<10)
	for err == nil {
		var n int
		n, err = answer.Read(buf)
		held = append(held, buf[:n]...)
		if newline := bytes.LastIndexByte(held, '\n'); newline > 0 {
			if _, err := out.Write(held[:newline]); err != nil {
				return 0, err
			}
			held = held[newline:]
		}
	}
	digits, ok := strings.CutPrefix(string(held), statusMark)
	if !ok {
		return 0, fmt.Errorf("the guest's answer broke off: %w", err)
	}
	return strconv.Atoi(digits)
}
