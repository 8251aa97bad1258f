// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
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
// with no descriptor, terminal or session of this process. It returns before that has begun.
// The C ABI, whose program must not find a child, has one of its own; set it before Join.
var StartKeeper = func(dir string) error {
	if os.Getpid() == 1 {
		return errors.New("share: orphans are the children of this process")
	}
	path, err := KeeperPath()
	if err != nil {
		return err
	}
	pid, err := spawn(path, KeeperCommand, dir)
	if err == nil {
		go reapChild(pid)
	}
	return err
}

// KeeperPath finds the command verbena. That command itself sets it; elsewhere it is looked
// for in $PATH.
var KeeperPath = func() (string, error) {
	if secenv.Get("PATH") == "" {
		return "", exec.ErrNotFound
	}
	return exec.LookPath("verbena")
}

// spawn executes a command in a session of its own, with nothing of this process.
func spawn(path string, args ...string) (pid int, err error) {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("open", err)
	}
	defer unix.Close(null)
	fd := uintptr(null)
	return syscall.ForkExec(path, append([]string{path}, args...), &syscall.ProcAttr{
		Dir: "/", Env: []string{}, Files: []uintptr{fd, fd, fd}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
}

func reapChild(pid int) {
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
			return
		}
	}
}

// Detach starts the process that stays, for a command that was started to do so.
func Detach(dir string) error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	// What the process that started this one forgot to close.
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil && !errors.Is(err, unix.ENOSYS) {
		return os.NewSyscallError("close_range", err)
	}
	_, err = spawn(path, KeeperCommand, Detached, dir)
	return err
}

// linger is how long a keeper without members stays, for the next one: starting one
// costs some 20 ms of a processor. The port is free meanwhile. Shorter in tests.
var linger = time.Second

const (
	// firstPatience is how long it waits for the first one, whose machine may be busy.
	firstPatience = 5 * time.Second
	// rolePatience is how long it waits for another one that has the role to end.
	rolePatience = 2 * time.Second
)

// Keep is the keeper of those that meet in dir. It returns a moment after the last of them
// has ended, or at once where there is a keeper already. Signals by which a service or a
// terminal ends its processes are of no concern to it.
func Keep(dir string, d Duty) error {
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM)
	ps, err := openDir(dir)
	if err != nil {
		return err
	}
	k, err := takeOver(ps, d)
	if err != nil {
		return err
	}
	for patience := firstPatience; ; patience = linger {
		k.mu.Lock()
		idle := k.idleLocked()
		k.mu.Unlock()
		if !idle {
			<-k.events
			continue
		}
		select {
		case <-k.events:
		case <-time.After(patience):
			if k.close(true) {
				return nil
			}
		}
	}
}

// takeOver becomes the keeper, unless there is one that answers.
func takeOver(ps paths, d Duty) (*keeper, error) {
	start := time.Now()
	for p := (pause{}); ; p.wait() {
		k, err := newKeeper(ps, d)
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
