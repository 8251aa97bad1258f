// SPDX-License-Identifier: BSD-2-Clause

package device

import (
	"net"
	"net/netip"
	"sync"

	"verbena/internal/sys/ifwatch"
)

// netif holds the system's description of a network interface.
type netif struct {
	net.Interface
	addrs []netip.Addr // unicast, without zone, in the order in which a GID table is filled
}

// netifs keeps the system's answers until the kernel reports a change.
var netifs = struct {
	mu      sync.Mutex
	users   int              // guarded by mu
	monitor *ifwatch.Monitor // guarded by mu; nil: nothing is kept
	of      map[string]netif // guarded by mu: by interface, since the last change
}{of: map[string]netif{}}

// KeepInterfaces has the process ask the system for an interface's addresses only after a change,
// until release is called. Without a descriptor for that each look asks.
func KeepInterfaces() (release func()) {
	netifs.mu.Lock()
	defer netifs.mu.Unlock()
	if netifs.users++; netifs.users == 1 {
		netifs.monitor, _ = ifwatch.NewMonitor()
	}
	return func() {
		netifs.mu.Lock()
		defer netifs.mu.Unlock()
		if netifs.users--; netifs.users == 0 && netifs.monitor != nil {
			netifs.monitor.Close()
			netifs.monitor = nil
			clear(netifs.of)
		}
	}
}

// interfaceNow returns an interface as it is now. The caller does not change its addresses.
func interfaceNow(name string) (netif, error) {
	netifs.mu.Lock()
	defer netifs.mu.Unlock()
	if netifs.monitor == nil {
		return askFor(name)
	}
	if netifs.monitor.Changed() {
		clear(netifs.of)
	}
	n, kept := netifs.of[name]
	if kept {
		return n, nil
	}
	n, err := askFor(name) // a change meanwhile shows at the next look
	if err == nil {
		netifs.of[name] = n
	}
	return n, err
}

// askFor asks the system. IPv6 link-local addresses come first, as the kernel's default GIDs do,
// then the others as the system lists them.
func askFor(name string) (netif, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return netif{}, err
	}
	list, err := i.Addrs()
	if err != nil {
		return netif{}, err
	}
	n := netif{Interface: *i}
	var others []netip.Addr // behind the link-local ones
	for _, a := range list {
		p, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		ip, ok := netip.AddrFromSlice(p.IP)
		if !ok || ip.IsMulticast() {
			continue
		}
		if ip = ip.Unmap(); ip.Is6() && ip.IsLinkLocalUnicast() {
			n.addrs = append(n.addrs, ip)
		} else {
			others = append(others, ip)
		}
	}
	n.addrs = append(n.addrs, others...)
	return n, nil
}
