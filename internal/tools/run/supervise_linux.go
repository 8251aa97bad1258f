// SPDX-License-Identifier: BSD-2-Clause

package run

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// supervise runs the program as a child of this process, which is process 1 of a container, and
// returns its exit status. As process 1 the program would have no keeper (package portshare): the
// kernel would kill that with it. As a child it has one, which tells the program's peers if the
// program is killed.
//
// It does the work of process 1: it passes signals on and waits for orphans.
func supervise(path string, args, env []string) (status int, err error) {
	signals, children := make(chan os.Signal, 64), make(chan os.Signal, 1)
	signal.Notify(signals)
	signal.Notify(children, unix.SIGCHLD)
	pid, err := syscall.ForkExec(path, args, &syscall.ProcAttr{
		Env: env, Files: []uintptr{0, 1, 2}, Sys: foreground(),
	})
	if err != nil {
		return 0, err
	}
	for {
		select {
		case s := <-signals:
			switch s {
			case unix.SIGCHLD, unix.SIGURG: // ours, the latter of the Go runtime
			default:
				unix.Kill(pid, s.(syscall.Signal)) // it may have ended: then children tells
			}
		case <-children:
			if ended, ws, _ := reap(pid); ended {
				endOthers()
				if ws.Signaled() {
					return 128 + int(ws.Signal()), nil
				}
				return ws.ExitStatus(), nil
			}
		}
	}
}

// foreground gives the program the terminal, if this process has it: as its process group, it gets
// the terminal's signals once.
func foreground() *syscall.SysProcAttr {
	const stdin = 0
	group, err := unix.IoctlGetInt(stdin, unix.TIOCGPGRP)
	if err != nil || group != unix.Getpgrp() {
		return nil
	}
	return &syscall.SysProcAttr{Foreground: true, Ctty: stdin}
}

// reap waits for the children that have ended. It reports whether the program is among them, with
// its status, and whether there are no more.
func reap(program int) (ended bool, status unix.WaitStatus, none bool) {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
		case pid <= 0:
			return ended, status, err == unix.ECHILD
		case pid == program:
			ended, status = true, ws
		}
	}
}

// othersPatience bounds the wait for the container's other processes, the keeper among them. The
// kernel kills them when this one ends.
const othersPatience = 3 * time.Second

// endOthers ends the container's other processes. The keeper speaks for the program first.
func endOthers() {
	unix.Kill(-1, unix.SIGTERM) // an error: there are none
	for begun := time.Now(); time.Since(begun) < othersPatience; time.Sleep(time.Millisecond) {
		if _, _, none := reap(0); none {
			return
		}
	}
}
