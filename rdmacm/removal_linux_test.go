// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"net/netip"
	"testing"

	"verbena/internal/testkit/netns"
)

// TestDeviceRemoval takes an interface away under identifiers: those that are
// bound to it are told, once.
func TestDeviceRemoval(t *testing.T) {
	n := netns.New(t)
	if n == nil {
		return
	}
	n.AddWire("d0", "d1")
	n.Add("d0", "192.0.2.1/24")
	n.Add("lo", "198.51.100.1/32")
	n.Up("d1", "d0", "lo")

	p := newFabric(t).process(1)
	bound, listener := p.newID(TCP), p.listening(UDP, netip.MustParseAddr("192.0.2.1"))
	check(t, bound.BindAddr(netip.MustParseAddrPort("192.0.2.1:7")))
	other, unbound, gone := p.newID(TCP), p.newID(TCP), p.newID(TCP)
	check(t, other.BindAddr(netip.MustParseAddrPort("198.51.100.1:7")))
	check(t, gone.BindAddr(netip.MustParseAddrPort("192.0.2.1:8")))
	check(t, gone.Destroy())

	n.Delete("d0")
	bound.want(DeviceRemoval)
	listener.want(DeviceRemoval)
	for what, id := range map[string]*testID{"told before": bound, "of another device": other, "of none": unbound, "destroyed": gone} {
		if ev := id.ch.TryGet(); ev != nil {
			t.Errorf("an identifier %s: %v", what, ev.Type)
		}
	}
	check(t, bound.Destroy())
}

// TestAddrChange gives an interface another hardware address: identifiers that are bound to it are
// notified once for each change, and go on.
func TestAddrChange(t *testing.T) {
	n := netns.New(t)
	if n == nil {
		return
	}
	n.AddWire("d0", "d1")
	n.Add("d0", "192.0.2.1/24")
	n.Add("d1", "198.51.100.1/24")
	n.Up("d1", "d0", "lo")

	p := newFabric(t).process(1)
	bound, other := p.newID(TCP), p.newID(TCP)
	check(t, bound.BindAddr(netip.MustParseAddrPort("192.0.2.1:7")))
	check(t, other.BindAddr(netip.MustParseAddrPort("198.51.100.1:7")))
	for _, mac := range []string{"02:00:00:00:00:01", "02:00:00:00:00:02"} {
		n.SetMAC("d0", mac)
		bound.want(AddrChange)
	}
	n.Delete("d0") // and with it d1
	bound.want(DeviceRemoval)
	other.want(DeviceRemoval) // and nothing before
}
