// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package guest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// insideEnv marks the test process that runs inside the namespaces.
const insideEnv = "VERBENA_GUEST_INSIDE"

// Inside reports whether this process is the one that runs the tests.
func Inside() bool { return os.Getenv(insideEnv) != "" }

// Main stands for m.Run in the TestMain of a package that boots guests: it
// runs the test binary again, with the same arguments, in namespaces of its
// own, and returns the exit status. The kinds are all that the tests boot;
// their kernels are built first, where the cache does not have them.
func Main(m *testing.M, kinds ...Kind) int {
	if !Inside() {
		return enter(kinds)
	}
	if err := furnish(); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		return 1
	}
	return m.Run()
}

// enter runs this program inside and returns its exit status.
func enter(kinds []Kind) int {
	// Pdeathsig is sent when the thread that started the child ends.
	runtime.LockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	for _, kind := range kinds {
		folder, err := kind.build()
		if err != nil {
			fmt.Fprintln(os.Stderr, "guest:", err)
			return 1
		}
		cmd.Env = append(cmd.Env, kind.env()+"="+folder)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		// Capabilities rather than user 0: programs that shed root, as tcpdump
		// does, cannot where there are no other users.
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid,
			HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid,
			HostID: gid, Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN,
			unix.CAP_NET_RAW, unix.CAP_SETPCAP}
	}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1)
	}
	fmt.Fprintf(os.Stderr, "guest: no namespaces for the guests: %v; run as root or allow "+
		"unprivileged user namespaces\n", err)
	return 1
}

// furnish makes the namespaces habitable.
func furnish() error {
	mounts := []struct {
		source, target, kind, data string
		flags                      uintptr
	}{
		{"none", "/", "", "", syscall.MS_REC | syscall.MS_PRIVATE},
		{"proc", "/proc", "proc", "", 0},  // the processes in here
		{"sysfs", "/sys", "sysfs", "", 0}, // the network interfaces in here
		// Where a UML guest's memory lies. A container's own is small and noexec.
		{"tmpfs", "/dev/shm", "tmpfs", "size=80%", 0},
	}
	for _, m := range mounts {
		if err := syscall.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	// Interfaces made from now on have a link-local address at once, without
	// looking for duplicates for a second: neighbour discovery needs it.
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"),
		0); err != nil {
		return err
	}
	return ip("link set lo up")
}
