// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package guest

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
)

// LAN is a bridge with the test process on it, and the guests that were
// booted on it. There is one LAN at a time: tests that use one do not run in
// parallel.
type LAN struct {
	t      testing.TB
	mtu    int
	dir    string // of consoles and scripts
	guests int

	nodes       int // of NUMA; 0: one
	sharedBytes int // 0: no memory in common
	doorbell    bool
}

// NUMA gives all guests of kind Debian that boot from now on two nodes, with a
// processor and half of the memory each.
func (l *LAN) NUMA() { l.nodes = 2 }

// Share gives all guests of kind Debian that boot from now on a PCI device, QEMU's ivshmem. Its BAR
// is memory that they have in common: n bytes, a power of two.
func (l *LAN) Share(n int) { l.sharedBytes = n }

// ShareWithDoorbell is Share with ivshmem's doorbell: guests can interrupt each
// other, and have an IOMMU, without which there is no VFIO.
func (l *LAN) ShareWithDoorbell(n int) {
	l.Share(n)
	l.doorbell = true
	serveIVSHMEM(l.t, l.doorbellSocket(), n)
}

func (l *LAN) doorbellSocket() string { return l.dir + "/ivshmem" }

// bridge is the test process's interface on the LAN.
const bridge = "br0"

// NewLAN makes a LAN whose Ethernet MTU is mtu bytes: 1500 gives RoCE a path
// MTU of 1024, 4200 one of 4096. It goes when the test ends.
func NewLAN(t testing.TB, mtu int) *LAN {
	t.Helper()
	l := &LAN{t: t, mtu: mtu, dir: t.TempDir()}
	err := ip(
		"link add "+bridge+" type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
		fmt.Sprintf("link set %s mtu %d up", bridge, mtu),
		fmt.Sprintf("addr add %s/24 dev %s", ipv4(0), bridge),
		fmt.Sprintf("addr add %s/64 dev %s nodad", ipv6(0), bridge),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ip("link del " + bridge); err != nil {
			t.Error(err)
		}
	})
	return l
}

// Local returns the test process's own side of the LAN.
func (l *LAN) Local() Local { return Local{Interface: bridge} }

// Direct takes a guest's tap off the bridge, gives it the addresses of the test process's side, and
// returns that.
func (l *LAN) Direct(g *Guest) Local {
	l.t.Helper()
	if err := ip(
		"addr flush dev "+bridge,
		fmt.Sprintf("link set %s nomaster", g.Tap()),
		fmt.Sprintf("addr add %s/24 dev %s", ipv4(0), g.Tap()),
		fmt.Sprintf("addr add %s/64 dev %s nodad", ipv6(0), g.Tap()),
	); err != nil {
		l.t.Fatal(err)
	}
	Run(l.t, g, bootTimeout, "ip neigh flush dev eth0")
	return Local{Interface: g.Tap()}
}

// ipv4 and ipv6 are the addresses of guest n; 0 is the test process.
func ipv4(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 0, byte(n + 1)}) }

func ipv6(n int) netip.Addr { return netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x77, 15: byte(n + 1)}) }

// controlAddr is the address of guest n's side (2) or ours (1) of the tap that
// commands travel over.
func controlAddr(n, side int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 78, byte(n), byte(side)})
}

// ip runs commands of ip(8).
func ip(commands ...string) error {
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, out)
	}
	return nil
}
