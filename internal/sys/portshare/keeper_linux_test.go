// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/testkit/netns"
)

// The keeper has nothing of the process that started it, which does not see it, and is one
// for all that come at once.
func TestKeeperIsNobodysChild(t *testing.T) {
	n := newNetwork(t, 27)
	var ps []*process
	started := make(chan *process)
	for range 6 {
		go func() { started <- start(t, n.dir) }()
	}
	for range 6 {
		ps = append(ps, <-started)
	}
	pid := n.keeper(t)
	for _, p := range ps {
		for until := time.Now().Add(time.Duration(patience)); ; { // the process between ends
			if got := p.ask("children"); got == unix.ECHILD.Error() {
				break
			} else if time.Now().After(until) {
				t.Fatalf("process %d has children: %s", p.cmd.Process.Pid, got)
			}
		}
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')'):])) // ), state, parent, group, session
	for _, p := range ps {
		if fields[2] == strconv.Itoa(p.cmd.Process.Pid) {
			t.Errorf("it is a child of %s", fields[2])
		}
	}
	// A terminal signals a process group. The scheduler shares processors among sessions.
	if fields[3] != strconv.Itoa(pid) {
		t.Errorf("it is in process group %s, not its own", fields[3])
	}
	if sid, err := unix.Getsid(0); err != nil || fields[4] != strconv.Itoa(sid) {
		t.Errorf("it is in session %s, that of the process that started it is %d, %v", fields[4], sid, err)
	}
	if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err != nil || dir != "/" {
		t.Errorf("it is in %s, %v", dir, err)
	}
	for fd := range 3 {
		if is, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd)); err != nil || is != os.DevNull {
			t.Errorf("its descriptor %d is %s, %v", fd, is, err)
		}
	}
	// A terminal's signals do not end it. TestKeeperEndsAtSIGTERM has that of a service.
	for _, s := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT} {
		unix.Kill(pid, s)
	}
	ps[0].must("", "socket %v", n.a)
	ps[0].must("", "will 1 %v %v last", n.a, n.sender.LocalAddr())
	for _, p := range slices.Backward(ps) {
		p.kill()
	}
	if got := readTexts(t, n.sender, 1); got[0] != "last" {
		t.Errorf("%q came", got)
	}
	awaitEmpty(t, n.dir)
}

// A member has a socket an address and a few more.
func TestMembersHaveFewSockets(t *testing.T) {
	n := newNetwork(t, 101)
	for _, p := range startMany(t, n.dir, 3) {
		p.must("3", "sockets") // a connection, the vault, and fdtrack's sentinel
		for i := range 10 {
			a := n.a.As4()
			a[3] += byte(i)
			p.must("", "socket %v", netip.AddrFrom4(a))
		}
		p.must("13", "sockets")
	}
}

// A keeper that does not come to be, as its command is of another kind, is done without.
func TestCommandThatKeepsNothing(t *testing.T) {
	start, patience := StartKeeper, startPatience
	defer func() { StartKeeper, startPatience = start, patience }()
	started := 0
	StartKeeper, startPatience = func(string) error { started++; return nil }, time.Millisecond
	n := newNetwork(t, 47)
	m := joinHere(t, n.dir)
	if _, err := m.Socket(n.a); err != nil || started != maxStarts {
		t.Errorf("%v after %d attempts", err, started)
	}
}

// TestCommandThatFailsIsNotWaitedFor has a command of another version: it fails, and the
// first member is the keeper at once.
func TestCommandThatFailsIsNotWaitedFor(t *testing.T) {
	n := newNetwork(t, 49)
	calls := filepath.Join(t.TempDir(), "calls")
	command := filepath.Join(t.TempDir(), "verbena")
	if err := os.WriteFile(command, []byte("#!/bin/sh\necho $* >>"+calls+"\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	path := KeeperPath
	defer func() { KeeperPath = path }()
	KeeperPath = func() (string, error) { return command, nil }
	m := joinHere(t, n.dir)
	if _, err := m.Socket(n.a); err != nil || m.(*member).host == nil {
		t.Errorf("it is not the keeper: %v", err)
	}
	said, err := os.ReadFile(calls)
	if want := strings.Join([]string{KeeperCommand, SlotsOption, n.dir}, " ") + "\n"; err != nil || string(said) != want {
		t.Errorf("the command was called so: %q, want %q once", said, want)
	}
}

// TestKeeperEndsAtSIGTERM has a service end that the keeper is of: it leaves to the members of
// other services, which start another, and without members it ends at once.
func TestKeeperEndsAtSIGTERM(t *testing.T) {
	n := newNetwork(t, 51)
	p := start(t, n.dir)
	p.must("", "socket %v", n.a)
	p.must("", "listen rping")
	first := n.keeper(t)
	unix.Kill(first, unix.SIGTERM)
	p.must("", "told")
	n.flood(t, n.a, 100, p)
	p.must("0", "read %v 100", n.a)
	n.send(t, n.a, datagram(1, 0, "rping"))
	p.must("rping", "mad")
	second := n.keeper(t)
	if second == first {
		t.Fatalf("process %d is the keeper still", first)
	}
	unix.Kill(second, unix.SIGTERM)
	p.kill()
	awaitEmpty(t, n.dir)
}

// TestKeeperSpeaksAtSIGTERM has a service end with all its processes: its keeper, which is told
// first, speaks for the members that are killed then.
func TestKeeperSpeaksAtSIGTERM(t *testing.T) {
	t.Setenv(patientVariable, "yes")
	n := newNetwork(t, 52)
	ps := startMany(t, n.dir, 2)
	ps[0].must("", "socket %v", n.a)
	for i, p := range ps {
		p.must("", "will %d %v %v last%d", i+1, n.a, n.sender.LocalAddr(), i)
	}
	pid := n.keeper(t)
	unix.Kill(pid, unix.SIGTERM)
	for i, p := range ps {
		if now := n.keeper(t); now != pid {
			t.Fatalf("process %d is the keeper, and %d has left members", now, pid)
		}
		p.kill()
		if got, want := readTexts(t, n.sender, 1), fmt.Sprint("last", i); got[0] != want {
			t.Errorf("%q came, want %q", got, want)
		}
	}
	awaitEmpty(t, n.dir)
}

// A will names no interface, and a link-local address is of one.
func TestWillOfALinkLocalAddress(t *testing.T) {
	n := netns.New(t)
	if n == nil {
		return
	}
	n.AddWire("z0", "z1")
	n.Up("z0", "z1")
	n.Add("z1", "fe80::7/64")
	for a, want := range map[string]string{"fe80::7": "fe80::7%z1", "fe80::8": "fe80::8", "10.0.0.1": "10.0.0.1"} {
		if got := withZone(netip.MustParseAddr(a)).String(); got != want {
			t.Errorf("%s is at %s, want %s", a, got, want)
		}
	}
}
