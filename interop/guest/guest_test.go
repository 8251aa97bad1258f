// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package guest

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) { os.Exit(Main(m, UML, Debian)) }

func TestHostsReachTheGuests(t *testing.T) {
	lan := NewLAN(t, 1500)
	guests := lan.Boot(UML, Debian)
	for _, from := range []Host{lan.Local(), guests[0], guests[1]} {
		for _, to := range guests {
			for _, addr := range []netip.Addr{to.IPv4(), to.IPv6()} {
				Run(t, from, 10*time.Second, fmt.Sprintf("exec 3<>/dev/tcp/%s/%d", addr, agentPort))
			}
		}
	}
	for _, g := range guests {
		out := Run(t, g, 10*time.Second, "uname -n; rdma link show rxe0/1")
		if !strings.Contains(out, g.Name()) || !strings.Contains(out, "state ACTIVE") {
			t.Errorf("%s has no active rxe0", g.Name())
		}
	}
}

func TestCommandStatusAndOutput(t *testing.T) {
	lan := NewLAN(t, 1500)
	for _, host := range []Host{lan.Local(), lan.Boot(UML)[0]} {
		t.Run(host.Name(), func(t *testing.T) {
			c := Start(t, host, 10*time.Second, "echo one; sleep 0.1; echo two >&2; exit 3")
			c.Expect("^one")
			if status, out := c.Wait(); status != 3 || strings.TrimSpace(out) != "one\ntwo" {
				t.Errorf("status %d, output %q", status, out)
			}
			c = Start(t, host, 500*time.Millisecond, "echo before; sleep 100")
			<-c.done
			if c.err == nil || !strings.Contains(c.Output(), "before") {
				t.Errorf("a command that does not end: %v, output %q", c.err, c.Output())
			}
		})
	}
}

// TestCommandWaitsForAGuestThatStandsStill has a guest miss all that the host asks
// for its hardware address: three times, a second apart.
func TestCommandWaitsForAGuestThatStandsStill(t *testing.T) {
	g := NewLAN(t, 1500).Boot(Debian)[0] // a UML kernel ends if it is stopped
	signal := func(sig syscall.Signal) {
		if err := syscall.Kill(-g.process.Pid, sig); err != nil {
			t.Error(err)
		}
	}
	signal(syscall.SIGSTOP)
	if err := ip("neigh flush all"); err != nil {
		t.Error(err)
	}
	time.AfterFunc(4*time.Second, func() { signal(syscall.SIGCONT) })
	if out := Run(t, g, 30*time.Second, "uname -n"); !strings.Contains(out, g.Name()) {
		t.Errorf("it calls itself %q", out)
	}
}
