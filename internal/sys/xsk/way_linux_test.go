// SPDX-License-Identifier: BSD-2-Clause

package xsk_test

import (
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"verbena/internal/sys/xdp"
	"verbena/internal/sys/xsk"
	"verbena/internal/testkit/netns"
)

// The way is that of the kernel's routes and neighbours: by a gateway too, with the MTU of the
// route, and none where the kernel knows no neighbour or another interface leads there.
func TestWaysOfTheKernel(t *testing.T) {
	n := netns.New(t)
	if n == nil {
		return
	}
	n.AddWire("xa", "xb")
	n.Add("xa", "10.9.0.1/24")
	n.Add("xb", "10.8.0.1/24")
	n.Up("lo", "xa", "xb")
	link := n.Link("xa")
	iface := link.Attrs().Index
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 9}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	neighbour := func(a string, state int) {
		t.Helper()
		check(n.NeighSet(&netlink.Neigh{LinkIndex: iface, IP: net.ParseIP(a), State: state, HardwareAddr: mac}))
	}
	check(n.AddrReplace(link, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP("fd09::1"), Mask: net.CIDRMask(64, 128)}, Flags: unix.IFA_F_NODAD}))
	neighbour("10.9.0.2", unix.NUD_PERMANENT)
	neighbour("10.9.0.3", unix.NUD_STALE)
	neighbour("fd09::2", unix.NUD_REACHABLE)
	neighbour("10.9.0.254", unix.NUD_PERMANENT)
	_, far, _ := net.ParseCIDR("10.99.0.0/16")
	check(n.RouteAdd(&netlink.Route{LinkIndex: iface, Dst: far, Gw: net.ParseIP("10.9.0.254"), MTU: 1200}))
	_, black, _ := net.ParseCIDR("10.66.0.0/16")
	check(n.RouteAdd(&netlink.Route{Dst: black, Type: unix.RTN_BLACKHOLE}))
	for _, c := range []struct {
		src, dst string
		mtu      int // 0: there is no way
		old      bool
	}{
		{"10.9.0.1", "10.9.0.2", 1500, false},
		{"10.9.0.1", "10.9.0.3", 1500, true},
		{"fd09::1", "fd09::2", 1500, false},
		{"10.9.0.1", "10.99.1.1", 1200, false},
		{"10.9.0.1", "10.9.0.4", 0, false},  // no neighbour
		{"fd09::1", "fd09::4", 0, false},    // no neighbour
		{"10.9.0.1", "10.66.0.1", 0, false}, // a black hole
		{"10.9.0.1", "10.55.0.1", 0, false}, // no route
		{"10.8.0.1", "10.8.0.2", 0, false},  // by the other interface
		{"10.9.0.1", "10.9.0.1", 0, false},  // this host
	} {
		w, ok := xsk.KernelWay(iface, netip.MustParseAddr(c.src), netip.MustParseAddr(c.dst))
		want := xsk.Way{MTU: c.mtu, Own: [6]byte(link.Attrs().HardwareAddr), Neighbour: [6]byte(mac), Old: c.old, JoinsBursts: true}
		if ok != (c.mtu > 0) || ok && w != want {
			t.Errorf("%v to %v: %+v, %v; want %+v", c.src, c.dst, w, ok, want)
		}
	}
}

// Bursts go by sockets only where all frames of an interface have one way: not where it has several
// queues, or one that keeps packets.
func TestInterfacesThatJoinBursts(t *testing.T) {
	n := netns.New(t)
	if n == nil {
		return
	}
	n.AddWire("xa", "xb")
	n.AddWideWire("wa", "wb", 2)
	n.AddWire("qa", "qb")
	if err := n.QdiscAdd(&netlink.Tbf{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: n.Link("qa").Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		Rate: 1 << 20, Limit: 1 << 20, Buffer: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	n.Up("xa", "xb", "wa", "wb", "qa", "qb", "lo")
	for name, want := range map[string]bool{"xa": true, "wa": false, "qa": false, "lo": false} {
		if got := xsk.JoinsBursts(n.Link(name).Attrs().Index); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A process without the capability is told so.
func TestPoolNeedsCapability(t *testing.T) {
	if netns.New(t) == nil {
		return
	}
	if err := with(t, 0, func() error {
		_, err := xsk.NewPool(1, 1, 1500)
		return err
	}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v, want permission denied", err)
	}
}

// The capabilities that docs/xdp.md names are enough.
func TestCapabilitiesSuffice(t *testing.T) {
	n, a, _ := wire(t, 1500)
	if a == nil {
		return
	}
	n.AddWire("ya", "yb")
	n.Up("ya", "yb")
	iface, err := net.InterfaceByName("ya")
	if err != nil {
		t.Fatal(err)
	}
	const named = 1<<unix.CAP_NET_RAW | 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_BPF | 1<<unix.CAP_IPC_LOCK
	if err := with(t, named, func() error {
		pool, err := xsk.NewPool(iface.Index, 1, iface.MTU)
		if err != nil {
			return err
		}
		defer pool.Close()
		prog, err := xdp.Attach(iface, 1)
		if err == nil {
			prog.Close()
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// with calls f in a thread that has capabilities and no others.
func with(t *testing.T, capabilities uint64, f func() error) error {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // it ends with the goroutine
		low, high := uint32(capabilities), uint32(capabilities>>32)
		both := [2]unix.CapUserData{{Effective: low, Permitted: low}, {Effective: high, Permitted: high}}
		if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &both[0]); err != nil {
			t.Error(err)
		}
		done <- f()
	}()
	return <-done
}
