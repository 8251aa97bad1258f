// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"math"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/secenv"
	"verbena/internal/sys/udp"
)

// executorByte is the byte of the lock file that the executor holds, behind the slots.
const executorByte = Slots

// executorPatience is how long a member leaves an executor that it has started to lock its
// byte: a busy machine takes some time to execute a command.
const executorPatience = time.Second

// StartExecutor starts a process apart that calls Execute for a directory: nobody's child,
// with no descriptor, terminal or session of this process. It returns before that has begun.
// The C ABI, whose program must not find a child, has one of its own; set it before Join.
var StartExecutor = func(dir string) error {
	if os.Getpid() == 1 {
		return errors.New("share: orphans are the children of this process")
	}
	path, err := ExecutorPath()
	if err != nil {
		return err
	}
	pid, err := spawn(path, ExecutorCommand, dir)
	if err == nil {
		go reapChild(pid)
	}
	return err
}

// ExecutorPath finds the command verbena. That command itself sets it; elsewhere it is looked
// for in $PATH.
var ExecutorPath = func() (string, error) {
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
	_, err = spawn(path, ExecutorCommand, Detached, dir)
	return err
}

// Execute is the executor: it waits until the last member that meets in dir has ended, sends
// what that has left if it was killed, and returns. It returns at once where there is one
// already. Signals by which a service or a terminal ends its processes are of no concern to it.
func Execute(dir string) error {
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM)
	ps, err := openDir(dir)
	if err != nil {
		return err
	}
	lock, err := openLock(ps.lock)
	if err != nil {
		return err
	}
	defer lock.close()
	if !lock.try(executorByte) {
		return nil
	}
	if err := lock.awaitSlots(); err != nil {
		return err
	}
	// No process can join now.
	var left []Will
	for s := 1; s < Slots; s++ {
		left = append(left, takeWills(ps.willFile(s))...)
	}
	sendLeft(left)
	lock.unlock(executorByte) // before the slots: who joins next starts the next one
	return nil
}

// awaitSlots locks all slots as soon as no process owns one.
func (l lockFile) awaitSlots() error {
	for {
		err := unix.FcntlFlock(l.f.Fd(), unix.F_OFD_SETLKW, &unix.Flock_t{Type: unix.F_WRLCK, Start: 1, Len: Slots - 1})
		if err != unix.EINTR {
			return os.NewSyscallError("fcntl", err)
		}
	}
}

// sendLeft sends datagrams from addresses whose groups are gone.
func sendLeft(wills []Will) {
	sockets := map[netip.Addr]*udp.Socket{}
	for _, w := range wills {
		s, known := sockets[w.Local]
		if !known {
			var err error
			if s, err = udp.Listen(withZone(w.Local), Port, udp.Options{SendOnly: true}); err != nil {
				s = nil // the address is gone, or somebody else's by now
			} else {
				defer s.Close()
			}
			sockets[w.Local] = s
		}
		if s != nil {
			sendWill(s, w)
		}
	}
}

// withZone returns a local address as the system wants it: a will has no room for the zone
// of a link-local one.
func withZone(a netip.Addr) netip.Addr {
	if !a.Is6() || !a.IsLinkLocalUnicast() {
		return a
	}
	all, _ := net.Interfaces() // of none the address is taken as it is
	for _, i := range all {
		addrs, _ := i.Addrs() // likewise
		for _, on := range addrs {
			if n, ok := on.(*net.IPNet); ok && n.IP.Equal(a.AsSlice()) {
				return a.WithZone(i.Name)
			}
		}
	}
	return a
}

// seeExecutor starts an executor if there is none, for a member that leaves a will.
func (m *member) seeExecutor() {
	if m.lock.held(executorByte, 1) {
		return
	}
	m.mu.Lock()
	started := m.executor
	wait := m.alone || !started.IsZero() && time.Since(started) < executorPatience
	if !wait {
		m.executor = time.Now()
	}
	m.mu.Unlock()
	if wait {
		return
	}
	if err := StartExecutor(filepath.Dir(m.paths.lock)); err != nil {
		m.mu.Lock()
		m.alone = true // as where no command is installed: the next to join sends what is left
		m.mu.Unlock()
	}
}
