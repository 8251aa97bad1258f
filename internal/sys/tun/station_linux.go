// SPDX-License-Identifier: BSD-2-Clause

package tun

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Station has the attributes of a TAP interface whose neighbours are known.
type Station struct {
	MAC        [6]byte
	MTU        int // bytes
	Queue      int // frames that the kernel keeps for Read
	Addresses  []netip.Prefix
	Neighbours map[netip.Addr][6]byte // need no ARP, and no neighbour discovery
}

// SetUp gives the interface its attributes, takes it up and gives it a carrier. IPv6 addresses are
// not checked for duplicates. The calling thread is in the interface's network namespace.
//
// Errors: ErrNotPermitted; the system's.
func (t *TAP) SetUp(s *Station) error {
	l, err := netlink.LinkByName(t.Name)
	if err != nil {
		return refused("interface "+t.Name, err)
	}
	// A kernel without IPv6 has no such file, and refuses the addresses below.
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+t.Name+"/accept_dad", []byte("0"), 0)
	steps := []func() error{
		func() error { return netlink.LinkSetHardwareAddr(l, s.MAC[:]) },
		func() error { return netlink.LinkSetMTU(l, s.MTU) },
		func() error { return netlink.LinkSetTxQLen(l, s.Queue) },
		// The carrier first: without one the kernel starts to send some time after it comes.
		func() error { return t.SetCarrier(true) },
		func() error { return netlink.LinkSetUp(l) },
		func() error { return running(l) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return refused("interface "+t.Name, err)
		}
	}
	for _, prefix := range s.Addresses {
		a := &netlink.Addr{IPNet: &net.IPNet{IP: prefix.Addr().AsSlice(),
			Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}}
		if prefix.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(l, a); err != nil && !noIPv6(prefix.Addr(), err) {
			return refused(fmt.Sprintf("address %v of %s", prefix, t.Name), err)
		} else if err == nil {
			if err := usable(prefix.Addr()); err != nil {
				return fmt.Errorf("address %v of %s: %w", prefix, t.Name, err)
			}
		}
	}
	for addr, mac := range s.Neighbours {
		n := &netlink.Neigh{LinkIndex: l.Attrs().Index, IP: addr.AsSlice(),
			HardwareAddr: mac[:], State: netlink.NUD_PERMANENT}
		if err := netlink.NeighSet(n); err != nil && !noIPv6(addr, err) {
			return refused(fmt.Sprintf("neighbour %v of %s", addr, t.Name), err)
		}
	}
	return nil
}

// patience bounds the time that the kernel takes to do what it was asked for.
const patience = 10 * time.Second

// await waits until something is so.
func await(isSo func() (bool, error)) error {
	for until := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if done, err := isSo(); done || err != nil {
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("it is not ready after %v", patience)
		}
	}
}

// running waits until an interface is in use.
func running(l netlink.Link) error {
	return await(func() (bool, error) {
		now, err := netlink.LinkByIndex(l.Attrs().Index)
		return err == nil && now.Attrs().RawFlags&unix.IFF_RUNNING != 0, err
	})
}

// usable waits until packets to an address of this host are its own: the kernel makes the route of
// an IPv6 address later than the address.
func usable(addr netip.Addr) error {
	return await(func() (bool, error) {
		routes, err := netlink.RouteGet(addr.AsSlice())
		unreachable := errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH)
		if err != nil && !unreachable {
			return false, err
		}
		return len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL, nil
	})
}

// noIPv6 reports whether an address is refused because the kernel has no IPv6.
func noIPv6(addr netip.Addr, err error) bool {
	return addr.Is6() && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EOPNOTSUPP) ||
		errors.Is(err, unix.EAFNOSUPPORT))
}

// Overrun returns how many frames the kernel has dropped because Read was too slow. The calling
// thread is in the interface's network namespace.
func (t *TAP) Overrun() (frames uint64, err error) {
	l, err := netlink.LinkByName(t.Name)
	if err != nil {
		return 0, refused("interface "+t.Name, err)
	}
	return l.Attrs().Statistics.TxDropped, nil
}

// LoopbackUp takes the loopback interface of the calling thread's network namespace up.
func LoopbackUp() error {
	l, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(l)
	}
	if err != nil {
		return refused("interface lo", err)
	}
	return nil
}
