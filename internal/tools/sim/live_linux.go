// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"verbena/internal/simnet"
	"verbena/internal/sys/tun"
	"verbena/internal/tools/cli"
)

// insideFlag has the command be the one that runs in namespaces of its own.
const insideFlag = "inside"

// stopGrace is the time that a program has to end after SIGTERM.
const stopGrace = 3 * time.Second

// insideGrace is that of the process in the namespaces, which waits for the program and prints.
const insideGrace = 2*stopGrace + time.Second

// live runs a program on the network, in namespaces that end with it.
func (o *options) live(cmd *cobra.Command, file string, program []string) error {
	if file == "-" {
		return cli.Usagef("--live needs a FILE: standard input is the program's")
	}
	if o.inside && os.Getpid() != 1 {
		return cli.Usagef("--%s is for the process that --live starts", insideFlag)
	}
	text, err := openScenario(file, o.inside)
	if err != nil {
		return err
	}
	defer text.Close()
	s, err := o.read(file, text)
	if err != nil {
		return err
	}
	if len(program) == 0 {
		program = []string{"/bin/sh"}
		if shell := os.Getenv("SHELL"); shell != "" {
			program[0] = shell
		}
	}
	if o.inside {
		return o.liveInside(cmd, s, program)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"sim", "--live", "--" + insideFlag, fmt.Sprintf("--mtu=%d", o.mtu)}
	if o.seeded {
		args = append(args, fmt.Sprintf("--seed=%d", o.seed))
	}
	if o.json {
		args = append(args, "--json")
	}
	args = append(append(args, file, "--"), program...)
	runtime.LockOSThread() // Pdeathsig is about this thread
	defer runtime.UnlockOSThread()
	if _, err := text.Seek(0, io.SeekStart); err != nil {
		return err
	}
	restore := keepTerminal()
	status, err := o.runIn(cmd, self, args, text)
	restore()
	if err == nil && status != 0 {
		os.Exit(status) // it has said why
	}
	return err
}

// keepTerminal returns a function that gives the terminal back to this process group if it has it
// now. A shell takes it, and names no process group of another PID namespace to give it back.
func keepTerminal() (restore func()) {
	const stdin = 0
	group, err := unix.IoctlGetInt(stdin, unix.TIOCGPGRP)
	if err != nil || group != unix.Getpgrp() {
		return func() {}
	}
	return func() {
		signal.Ignore(unix.SIGTTOU) // which stops a process in the background that does this
		_ = unix.IoctlSetPointerInt(stdin, unix.TIOCSPGRP, group)
	}
}

// openScenario returns a copy of a file's text, which may come from a pipe. The process that --live
// starts has the copy as its first descriptor behind standard error.
func openScenario(name string, inside bool) (*os.File, error) {
	if inside {
		unix.CloseOnExec(3)
		return os.NewFile(3, name), nil
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %s", name)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the scenario: %w", err)
	}
	fd, err := unix.MemfdCreate("scenario", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err = f.Write(text); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return f, err
}

// runIn runs a program as process 1 of a PID namespace. With it the kernel ends all processes
// there. It has a mount namespace, too. A process that may not make these gets a user namespace
// beside.
func (o *options) runIn(cmd *cobra.Command, self string, args []string, scenario *os.File) (int,
	error) {
	const own = unix.CLONE_NEWNS | unix.CLONE_NEWPID
	for _, flags := range []uintptr{own, own | unix.CLONE_NEWUSER} {
		c := exec.CommandContext(cmd.Context(), self, args...)
		c.Stdin, c.Stdout, c.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
		c.ExtraFiles = []*os.File{scenario}
		c.Cancel = func() error { return c.Process.Signal(unix.SIGTERM) }
		c.WaitDelay = insideGrace
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: unix.SIGKILL}
		if flags&unix.CLONE_NEWUSER != 0 {
			root := func(id int) []syscall.SysProcIDMap {
				return []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
			}
			c.SysProcAttr.UidMappings, c.SysProcAttr.GidMappings = root(os.Geteuid()),
				root(os.Getegid())
		}
		err := c.Run()
		var exit *exec.ExitError
		switch {
		case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EINVAL):
			continue
		case errors.As(err, &exit):
			return status(exit), nil
		}
		return 0, err
	}
	return 0, errors.New("--live needs namespaces of its own: run as root, or allow users to " +
		"make them (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, " +
		"kernel.apparmor_restrict_unprivileged_userns)")
}

// status returns the exit status of a program as shells have it.
func status(exit *exec.ExitError) int {
	return statusOf(exit.Sys().(syscall.WaitStatus))
}

func statusOf(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// liveInside makes the hosts and runs the program.
func (o *options) liveInside(cmd *cobra.Command, s *scenario, program []string) error {
	if err := ownMounts(); err != nil {
		return fmt.Errorf("cannot change this mount namespace: %w", err)
	}
	if err := makeRoomForNames(); err != nil {
		return fmt.Errorf("cannot name network namespaces: %w", err)
	}
	var hosts []*liveHost
	for _, name := range s.hostNames() {
		h := &liveHost{name: name, node: s.names[name]}
		hosts = append(hosts, h)
	}
	var ports []*port
	for i, h := range hosts {
		if err := h.make(i, hosts, o.mtu); err != nil {
			return fmt.Errorf("host %s: %w", h.name, err)
		}
		ports = append(ports, &port{h.node.Addr, h.tap})
		if !o.json {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v, %v; ip netns exec %s PROGRAM runs a program "+
				"there\n", h.name, h.node.Addr, ipv6(i), h.name)
		}
	}
	w := newWire(s.world.Net, o.mtu, ports)
	for i, p := range ports {
		w.stations[macOf(i)] = p
	}
	// Other threads collect garbage, and the network would wait for them. There is next to none.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(maxFrameMemory + maxFrameMemory/2)
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	ended := make(chan error, 1)
	runtime.LockOSThread() // the program inherits this thread's priority
	defer runtime.UnlockOSThread()
	parent, ready := unix.Gettid(), make(chan struct{})
	go func() {
		runtime.LockOSThread() // never unlocked: the thread keeps its priority, and ends
		urgent(parent)
		close(ready)
		err := w.carry()
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "verbena: the network stopped: %v; it ends %s\n", err,
				program[0])
			cancel()
		}
		ended <- err
	}()
	<-ready
	runErr := runProgram(ctx, cmd, program)
	ports[0].tap.Stop()
	if <-ended != nil { // printed when it came
		runErr = fmt.Errorf("the network stopped before %s", program[0])
	}
	r := &liveResult{result: &result{scenario: s}, wire: w}
	r.finish(s)
	var overrunErr error
	for _, h := range hosts {
		n, err := h.overrun()
		if err != nil && overrunErr == nil {
			overrunErr = fmt.Errorf("cannot tell the frames that host %s lost: %w", h.name, err)
		}
		r.overrun += n
	}
	return errors.Join(r.print(cmd.OutOrStdout(), o.json), runErr, overrunErr)
}

// runProgram runs a program until it ends. At the end of ctx it ends the program. As process 1 it
// waits for orphans, too.
func runProgram(ctx context.Context, cmd *cobra.Command, program []string) error {
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	defer signal.Stop(children)
	c := exec.Command(program[0], program[1:]...)
	c.Stdin, c.Stdout, c.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	switch err := c.Start(); {
	case errors.Is(err, exec.ErrNotFound):
		return cli.WithStatus(cli.ExitNoProgram, fmt.Errorf("there is no program %s", program[0]))
	case err != nil:
		return cli.WithStatus(cli.ExitCannotRun, err)
	}
	stop := ctx.Done()
	var patience <-chan time.Time
	for {
		select {
		case <-stop:
			stop, patience = nil, time.After(stopGrace)
			_ = c.Process.Signal(unix.SIGTERM)
		case <-patience:
			_ = c.Process.Kill()
		case <-children:
			if ended, ws := reap(c.Process.Pid); ended {
				return failure(program[0], ws)
			}
		}
	}
}

// reap waits for the children that have ended. It reports whether the program is among them, with
// its status.
func reap(program int) (ended bool, status syscall.WaitStatus) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
		case pid <= 0:
			return ended, status
		case pid == program:
			ended, status = true, ws
		}
	}
}

// failure returns the error of a program that has ended.
func failure(program string, ws syscall.WaitStatus) error {
	switch {
	case ws.Signaled():
		return cli.WithStatus(statusOf(ws), fmt.Errorf("%s: signal: %v", program, ws.Signal()))
	case ws.ExitStatus() != 0:
		return cli.WithStatus(statusOf(ws), fmt.Errorf("%s: exit status %d", program,
			ws.ExitStatus()))
	}
	return nil
}

// namesDir holds the names of namespaces for ip netns.
const namesDir = "/run/netns"

// ownMounts has mounts of this process stay its own, and /proc show the processes of its PID
// namespace. Where parts of /proc are masked, as in containers, the kernel allows no other one to a
// user namespace. Then the old one stays: /proc/self works there, too.
func ownMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	if errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}

// makeRoomForNames gives this mount namespace an empty folder for names of namespaces.
func makeRoomForNames() error {
	if _, err := os.Stat(namesDir); err != nil {
		if err := copyRun(); err != nil {
			return err
		}
	}
	return unix.Mount("tmpfs", namesDir, "tmpfs", 0, "mode=755")
}

// copyRun puts a new /run over the old one, with the same entries and a folder for names.
func copyRun() error {
	entries, err := os.ReadDir("/run")
	if err != nil {
		return err
	}
	old, err := unix.Open("/run", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(old)
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, e := range entries {
		from := fmt.Sprintf("/proc/self/fd/%d/%s", old, e.Name())
		to := filepath.Join("/run", e.Name())
		if err := copyEntry(e, from, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Mkdir(namesDir, 0o755)
}

func copyEntry(e os.DirEntry, from, to string) error {
	if e.Type()&os.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	var err error
	if e.IsDir() {
		err = os.Mkdir(to, 0o755)
	} else {
		err = os.WriteFile(to, nil, 0o644)
	}
	if err != nil {
		return err
	}
	if err = unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		_ = os.Remove(to) // it has gone
	}
	return err
}

// liveHost is a host of the network: a network namespace with an interface.
type liveHost struct {
	name string
	node *simnet.Node
	tap  *tun.TAP
}

// interfaceName is the name of each host's interface.
const interfaceName = "eth0"

// queueFrames bounds the frames that the kernel keeps for this process: 1 Gb/s brings so many in
// 50 ms.
const queueFrames = 4096

// macOf returns the address of the i-th host's interface, one that is locally administered.
func macOf(i int) mac { return mac{2, 0x76, 0x62, 0, byte(i >> 8), byte(i)} }

// ipv6 returns the IPv6 address of the i-th host, a unique local one.
func ipv6(i int) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfd, 14: byte((i + 1) >> 8), 15: byte(i + 1)})
}

// make makes the i-th of some hosts.
func (h *liveHost) make(i int, all []*liveHost, mtu int) error {
	station := tun.Station{MAC: macOf(i), MTU: mtu, Queue: queueFrames,
		Addresses:  []netip.Prefix{netip.PrefixFrom(h.node.Addr, 8), netip.PrefixFrom(ipv6(i), 64)},
		Neighbours: map[netip.Addr]mac{}}
	for k, other := range all {
		if k != i {
			station.Neighbours[other.node.Addr] = macOf(k)
			station.Neighbours[ipv6(k)] = macOf(k)
		}
	}
	path := filepath.Join(namesDir, h.name)
	return onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		if err := os.WriteFile(path, nil, 0o444); err != nil {
			return err
		}
		if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		if err := tun.LoopbackUp(); err != nil {
			return err
		}
		var err error
		if h.tap, err = tun.Open(interfaceName); err != nil {
			return err
		}
		return h.tap.SetUp(&station)
	})
}

// overrun returns how many frames the kernel dropped that this process did not read in time.
func (h *liveHost) overrun() (n uint64, err error) {
	return n, onThread(func() error {
		ns, err := unix.Open(filepath.Join(namesDir, h.name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(ns)
		if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
			return err
		}
		n, err = h.tap.Overrun()
		return err
	})
}

// onThread runs f on a thread of its own, which may change its namespaces.
func onThread(f func() error) error {
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends
		ended <- f()
	}()
	return <-ended
}

// urgent has the calling thread run as soon as it can: before others if it may, and else with a
// short slice, for which the scheduler lets it run soon. At real-time priority all threads of the
// process have it, but the one with the number of other. The thread of Go's runtime that looks
// after system calls may hold a goroutine that returns from one. That goroutine spins, and would
// keep the processor from a thread of lower priority.
//
// Linux: sched(7); Documentation/scheduler/sched-eevdf.rst. Go: setBlockOnExitSyscall of
// runtime/proc.go.
func urgent(other int) {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	realTime := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	threads, _ := os.ReadDir("/proc/self/task")
	for _, t := range threads {
		if tid, err := strconv.Atoi(t.Name()); err == nil && tid != other && tid != unix.Gettid() {
			_ = unix.SchedSetAttr(tid, &realTime, 0) // fails as the next call does
		}
	}
	if unix.SchedSetAttr(0, &realTime, 0) == nil {
		return
	}
	for _, attr := range []unix.SchedAttr{
		{Policy: unix.SCHED_NORMAL, Nice: -20, Runtime: uint64(shortSlice)},
		{Policy: unix.SCHED_NORMAL, Runtime: uint64(shortSlice)}, // nothing before Linux 6.12
	} {
		attr.Size = unix.SizeofSchedAttr
		if unix.SchedSetAttr(0, &attr, 0) == nil {
			return
		}
	}
}

// shortSlice is the least that Linux takes.
const shortSlice = 100 * time.Microsecond

// liveResult has the counts that --live prints.
type liveResult struct {
	*result
	wire    *wire
	overrun uint64
}

func (r *liveResult) print(out io.Writer, asJSON bool) error {
	late := func(quantile float64) int64 { return r.wire.late.ValueAtQuantile(quantile) }
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(struct {
			Seconds  float64      `json:"seconds"`
			Links    []linkResult `json:"links"`
			Late     int64        `json:"late_median_ns"`
			Late99   int64        `json:"late_p99_ns"`
			MostLate int64        `json:"late_most_ns"`
			Overrun  uint64       `json:"overrun"`
			TooMany  int          `json:"no_memory"`
			Refused  int          `json:"refused"`
		}{r.took.Seconds(), r.links, late(50), late(99), r.wire.late.Max(), r.overrun,
			r.wire.tooMany, r.wire.refused})
	}
	r.printLinks(out)
	fmt.Fprintf(out, "frames came late by %s in the median, %s at 99 %%, %s at most\n",
		written(float64(late(50)), timeUnits), written(float64(late(99)), timeUnits),
		written(float64(r.wire.late.Max()), timeUnits))
	for _, lost := range []struct {
		frames uint64
		why    string
	}{
		{r.overrun, "this machine was too slow to read them: the links' rates are too high for it"},
		{uint64(r.wire.tooMany), "the links' buffers and delays need more memory than there is"},
		{uint64(r.wire.refused), "interfaces were down"},
	} {
		if lost.frames > 0 {
			fmt.Fprintf(out, "%d frames were lost beside: %s\n", lost.frames, lost.why)
		}
	}
	return nil
}
