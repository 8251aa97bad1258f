// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/secenv"
)

// StartKeeper starts a process apart that calls Keep for a directory: nobody's child,
// with no descriptor of this process. It returns before that has begun.
// The error says that none will begin, for example because the command is older.
// The C ABI, whose program must not find a child, has one of its own; set it before Join.
var StartKeeper = func(dir string) error {
	if os.Getpid() == 1 {
		return errors.New("portshare: this process adopts orphans, so it starts no keeper")
	}
	path, err := KeeperPath()
	if err != nil {
		return err
	}
	pid, err := spawn(path, KeeperCommand, SlotsOption, dir)
	if err != nil {
		return err
	}
	return awaitChild(pid)
}

// KeeperPath finds the command verbena. That command itself sets it; elsewhere it is
// VERBENA_KEEPER, or looked for in $PATH.
var KeeperPath = func() (string, error) {
	if path := NamedKeeper(); path != "" {
		return path, nil
	}
	if secenv.Get("PATH") == "" {
		return "", exec.ErrNotFound
	}
	return exec.LookPath("verbena")
}

// spawn executes a command in a process group of its own, with no descriptor of this process. The
// command stays in the session: Linux may share the processors among sessions (autogroup), and then
// let one that polls starve the others for seconds.
func spawn(path string, args ...string) (pid int, err error) {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("open", err)
	}
	defer unix.Close(null)
	fd := uintptr(null)
	return syscall.ForkExec(path, append([]string{path}, args...), &syscall.ProcAttr{
		Dir: "/", Env: []string{}, Files: []uintptr{fd, fd, fd},
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
}

// awaitChild waits for a command that starts another process and ends.
func awaitChild(pid int) error {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(pid, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err == nil && status != 0:
			return fmt.Errorf("portshare: the keeper's command ended with status %d",
				status.ExitStatus())
		default: // ECHILD: another thread of the program has waited
			return nil
		}
	}
}

// Detach starts the process that stays, for a command that was started to do so.
func Detach(dir string) error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	// Descriptors that the process that started this one forgot to close.
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil &&
		!errors.Is(err, unix.ENOSYS) {
		return os.NewSyscallError("close_range", err)
	}
	_, err = spawn(path, KeeperCommand, Detached, dir)
	return err
}

// linger is the time for which a keeper without members stays, for the next one: starting one costs
// some 20 ms of a processor. The port is free meanwhile. Shorter in tests.
var linger = time.Second

const (
	// firstPatience bounds its wait for the first member, whose machine may be busy.
	firstPatience = 5 * time.Second
	// rolePatience bounds its wait for the end of another keeper that has the role.
	rolePatience = 2 * time.Second
)

// leavePatience bounds the wait for members that have been sent SIGTERM, too, to end. Shorter in
// tests.
var leavePatience = 2 * time.Second

// Keep is the keeper of the processes that share dir. It returns a moment after the last of them
// has ended, or at once where there is a keeper already. It ignores the signals that a terminal
// sends to end its processes. A service or a system sends SIGTERM. Then it waits for its members to
// end, speaks for them, and ends at once. If members are left after leavePatience, they start
// another one.
func Keep(dir string, d MADRules, attach Attach) error {
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT)
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	var leave <-chan time.Time // set once it is asked to end
	ps, err := openDir(dir)
	if err != nil {
		return err
	}
	k, err := takeOver(ps, d, attach)
	if err != nil {
		return err
	}
	for patience := firstPatience; ; patience = linger {
		k.mu.Lock()
		idle := k.idleLocked()
		k.mu.Unlock()
		var empty <-chan time.Time // set while there is no member
		if leave != nil {
			patience = 0
		}
		if idle {
			empty = time.After(patience)
		}
		select {
		case <-k.events:
		case <-empty:
			if k.close(true) {
				return nil
			}
		case <-term:
			if leave == nil {
				leave = time.After(leavePatience)
			}
		case <-leave: // the members that are left start another
			k.close(false)
			return nil
		}
	}
}

// takeOver becomes the keeper, unless there is one that answers.
func takeOver(ps paths, d MADRules, attach Attach) (*keeper, error) {
	start := time.Now()
	for p := (pause{}); ; p.wait() {
		k, err := newKeeper(ps, d, attach)
		if err != errKept || time.Since(start) > rolePatience {
			return k, err
		}
		fd, err := connect(ps.socket)
		if err == nil {
			unix.Close(fd)
			return nil, errKept
		}
	}
}
