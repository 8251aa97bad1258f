package rdmacm

import (
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestDeviceRemoval takes an interface away under identifiers: those that are
// bound to it are told, once.
func TestDeviceRemoval(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread ends with the test's goroutine
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("needs CAP_SYS_ADMIN for a network namespace: %v", err)
	}
	// Processes elsewhere cannot use sockets of this network, nor we theirs.
	dir, err := os.MkdirTemp("", "ns")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("XDG_RUNTIME_DIR", dir)
	h, err := netlink.NewHandle()
	check(t, err)
	defer h.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "d0"
	if err := h.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "d1"}); err != nil {
		t.Skipf("this kernel has no pairs of virtual interfaces: %v", err)
	}
	up := func(name, addr string) netlink.Link {
		l, err := h.LinkByName(name)
		check(t, err)
		a, err := netlink.ParseAddr(addr)
		check(t, err)
		check(t, h.AddrAdd(l, a))
		check(t, h.LinkSetUp(l))
		return l
	}
	d0 := up("d0", "192.0.2.1/24")
	up("lo", "198.51.100.1/32")

	p := newFabric(t).process(1)
	bound, listener := p.newID(TCP), p.listening(UDP, netip.MustParseAddr("192.0.2.1"))
	check(t, bound.BindAddr(netip.MustParseAddrPort("192.0.2.1:7")))
	other, unbound, gone := p.newID(TCP), p.newID(TCP), p.newID(TCP)
	check(t, other.BindAddr(netip.MustParseAddrPort("198.51.100.1:7")))
	check(t, gone.BindAddr(netip.MustParseAddrPort("192.0.2.1:8")))
	check(t, gone.Destroy())

	check(t, h.LinkDel(d0))
	bound.want(DeviceRemoval)
	listener.want(DeviceRemoval)
	for what, id := range map[string]*testID{"told before": bound, "of another device": other, "of none": unbound, "destroyed": gone} {
		if ev := id.ch.TryGet(); ev != nil {
			t.Errorf("an identifier %s: %v", what, ev.Type)
		}
	}
	check(t, bound.Destroy())
}
