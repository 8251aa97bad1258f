// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"fmt"
	"net/netip"
	"os"
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
	if sid, err := unix.Getsid(0); err != nil || fields[4] == strconv.Itoa(sid) {
		t.Errorf("it is in the session of the processes that use it: %s, %v", fields[4], err)
	}
	if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err != nil || dir != "/" {
		t.Errorf("it is in %s, %v", dir, err)
	}
	for fd := range 3 {
		if is, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd)); err != nil || is != os.DevNull {
			t.Errorf("its descriptor %d is %s, %v", fd, is, err)
		}
	}
	// What ends a service or a terminal does not end it, with whatever is killed next.
	for _, s := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM} {
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
		p.must("3", "sockets") // a connection, the vault, and fdtrack's canary
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
