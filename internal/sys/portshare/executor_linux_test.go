// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/udp"
	"verbena/internal/testkit/netns"
)

// ownExecutor has a child of a test start the test's program as its executor.
const ownExecutor = "VERBENA_SHARE_EXECUTOR"

func init() {
	ExecutorPath = os.Executable
	if os.Getenv(ownExecutor) == "" {
		ExecutorPath = func() (string, error) { return "", os.ErrNotExist } // none is installed
	}
}

// executorMain is the test's program as the command verbena.
func executorMain(args []string) {
	if args[0] == Detached {
		Execute(args[1])
		return
	}
	Detach(args[0])
}

// awaitExecutor waits until there is an executor, or none.
func (n *network) awaitExecutor(t *testing.T, there bool) {
	t.Helper()
	ps, err := openDir(n.dir)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := openLock(ps.lock)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.close()
	until := time.Now().Add(10 * time.Second)
	for p := (pause{}); lock.held(executorByte, 1) != there; p.wait() {
		if time.Now().After(until) {
			t.Fatalf("there is an executor: %v", !there)
		}
	}
}

// executors returns the executors of a network's directory, also those that start.
func (n *network) executors(t *testing.T) (all []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{ExecutorCommand, Detached, n.dir}, "\x00")
	for _, e := range entries {
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline") // it may be no process, or have ended
		if pid, err := strconv.Atoi(e.Name()); err == nil && strings.Contains(string(line), want) {
			all = append(all, pid)
		}
	}
	return all
}

func TestLastWillHasAnExecutor(t *testing.T) {
	t.Setenv(ownExecutor, "1")
	n := newNetwork(t, 27)
	peer, err := udp.Listen(n.b, 0, udp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	next := func(want string) {
		t.Helper()
		if got := readTexts(t, peer, 1); got[0] != want {
			t.Fatalf("%q came, want %q", got[0], want)
		}
	}
	for range 3 { // one executor after the other
		first, last := start(t, n.dir), start(t, n.dir)
		first.must("", "socket %v", n.a)
		first.must("", "will 1 %v %v first", n.a, peer.LocalAddr())
		last.must("", "will 1 %v %v last", n.a, peer.LocalAddr())
		first.kill()
		next("first") // the next keeper has sent it
		// A service that is stopped, or a terminal that is closed, ends its processes so.
		n.awaitExecutor(t, true)
		for _, pid := range n.executors(t) {
			for _, s := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM} {
				unix.Kill(pid, s)
			}
		}
		last.kill()
		next("last")
		n.awaitExecutor(t, false)
	}

	// It ends with a member that leaves nothing, too, and keeps nobody from joining.
	p := start(t, n.dir)
	p.must("", "socket %v", n.a)
	p.must("", "will 1 %v %v none", n.a, peer.LocalAddr())
	n.awaitExecutor(t, true)
	p.must("", "close")
	n.awaitExecutor(t, false)
	start(t, n.dir).must("", "socket %v", n.a)
	if b := udp.NewRxBatch(); true {
		if m, _ := peer.ReadBatch(b); m != 0 {
			t.Errorf("%q was sent as well", b.Message(0).Data)
		}
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
