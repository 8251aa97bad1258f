// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"verbena/ib"
)

// tgtd's portals: one listener for each family on one port.
func TestListenersOfBothFamiliesShareAPort(t *testing.T) {
	for name, twoProcesses := range map[string]bool{"one process": false, "two processes": true} {
		t.Run(name, func(t *testing.T) {
			f := newFabric(t)
			a, b := f.process(1), f.process(2)
			other := b
			if twoProcesses {
				other = f.process(3)
			}
			l4 := b.listening(TCP, netip.IPv4Unspecified())
			port := l4.LocalAddr().Port()
			any6 := netip.AddrPortFrom(netip.IPv6Unspecified(), port)
			if err := other.newID(TCP).BindAddr(any6); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("both families beside IPv4: %v", err)
			}
			l6 := other.newID(TCP)
			check(t, l6.SetAFOnly(true))
			check(t, l6.BindAddr(any6))
			check(t, l6.Listen(1))
			for addr, l := range map[string]*testID{"127.0.0.1": l4, "::1": l6} {
				client := a.resolved(TCP, netip.AddrPortFrom(netip.MustParseAddr(addr), port)).equip(ib.QPTypeRC)
				check(t, client.Connect(&someParam))
				check(t, l.want(ConnectRequest).ID.Destroy())
				client.want(Rejected)
			}
			if err := l6.SetAFOnly(false); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("SetAFOnly of a listener: %v", err)
			}
		})
	}
}

func TestReusedAddressIsListenedToOnce(t *testing.T) {
	f := newFabric(t)
	p := f.process(1)
	first, second, third := p.newID(TCP), p.newID(TCP), p.newID(TCP)
	check(t, first.SetReuseAddr(true))
	check(t, second.SetReuseAddr(true))
	check(t, first.BindAddr(anyPort))
	at := first.LocalAddr()
	check(t, second.BindAddr(at))
	if err := third.BindAddr(at); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("without the option: %v", err)
	}
	if err := second.Listen(1); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listening beside another: %v", err)
	}
	check(t, first.Destroy())
	check(t, second.Listen(1))
	if err := f.process(2).newID(TCP).BindAddr(at); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("another process: %v", err)
	}
	if err := second.SetReuseAddr(false); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("SetReuseAddr of a listener: %v", err)
	}
}
