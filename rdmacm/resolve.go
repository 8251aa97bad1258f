// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"context"
	"net/netip"

	"verbena/internal/engine"
	"verbena/internal/roce"
)

// BindAddr binds the ID to a local address: rdma_bind_addr(3). A wildcard address leaves the device
// open. With port 0 the system chooses one, which LocalAddr returns. Peers that connect in the next
// second wait up to that long for Listen.
//
// Errors: EADDRINUSE if the port is taken, here or in another process; ENODEV if no device has the
// address.
func (id *ID) BindAddr(addr netip.AddrPort) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.check("BindAddr", stIdle); err != nil {
		return err
	}
	return id.bindLocked(addr, true)
}

func (id *ID) bindLocked(addr netip.AddrPort, shared bool) error {
	if !addr.Addr().IsValid() {
		return invalid("address", "has no IP address")
	}
	ip := addr.Addr().Unmap()
	var at localAddr
	if ip.IsUnspecified() {
		if err := id.findAny(); err != nil {
			return err
		}
	} else {
		var err error
		if at, err = id.find(ip); err == nil {
			err = id.overEthernet(at.addr)
		}
		if err != nil {
			return err
		}
		ip = at.addr
	}
	port, err := id.proto.bind(ip, addr.Port(), shared)
	if err != nil {
		return err
	}
	id.at = at
	id.local = netip.AddrPortFrom(ip, port)
	id.state = stBound
	return nil
}

// ResolveAddr finds the local device from which dst is reached: rdma_resolve_addr(3). src, if it
// has an address, is the local address. AddrResolved or AddrError follows. For datagrams dst may be
// a multicast group, for JoinMulticast. At the other end of an NTB link ResolveAddr waits for dst,
// until ctx's deadline or for 5 s.
func (id *ID) ResolveAddr(ctx context.Context, src, dst netip.AddrPort) error {
	id.mgr.svc.Settle()
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.check("ResolveAddr", stIdle, stBound); err != nil {
		return err
	}
	if !dst.Addr().IsValid() || dst.Addr().IsMulticast() && !id.datagrams() {
		return invalid("dst", "%v: must be the address of a host", dst.Addr())
	}
	// Source: rdma_resolve_addr(3) in Linux: as in connect(2) it is this host.
	if dst.Addr().IsUnspecified() {
		dst = netip.AddrPortFrom(loopbackOf(dst.Addr()), dst.Port())
	}
	if src.Addr().IsValid() && id.state == stIdle {
		if err := id.bindLocked(src, src.Port() != 0); err != nil {
			return err
		}
	}
	peer := netip.AddrPortFrom(dst.Addr().Unmap(), dst.Port())
	// A wildcard keeps its family, too.
	if local := id.local.Addr(); local.IsValid() && local.Is4() != peer.Addr().Is4() {
		id.resolvedTo(invalid("dst", "%v and the local address %v are not of one family",
			peer.Addr(), local))
		return nil
	}
	if id.viaNTB(peer.Addr()) {
		id.mgr.ntb.startLookup(ctx, id, peer)
		return nil
	}
	id.resolvedTo(id.resolve(ctx, peer))
	return nil
}

// resolvedTo raises the event that ends ResolveAddr. The caller holds mu.
func (id *ID) resolvedTo(err error) {
	if err != nil {
		id.raise(Event{Type: AddrError, Err: err})
		return
	}
	id.state = stAddrResolved
	id.raise(Event{Type: AddrResolved})
}

// resolve binds the ID to the address that the system's routes have for a peer.
func (id *ID) resolve(ctx context.Context, peer netip.AddrPort) error {
	var at localAddr
	if id.at.verbs == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		local, err := engine.SourceFor(netip.AddrPortFrom(peer.Addr(), roce.UDPPort))
		if err != nil {
			return err
		}
		if at, err = id.find(local); err == nil {
			err = id.overEthernet(at.addr)
		}
		if err != nil {
			return err
		}
	}
	return id.bindAndSetPeer(at, peer)
}

// overEthernet refuses the address of an interface where the port space wants one
// over InfiniBand. Source: cma_acquire_dev in Linux, which a loopback address
// does not come to.
func (id *ID) overEthernet(a netip.Addr) error {
	if id.ps == IPoIB && !a.IsLoopback() {
		return invalid("address", "%v: its interface is not one over InfiniBand", a)
	}
	return nil
}

// bindAndSetPeer sets the ID's peer, and its local address unless it has one. The caller holds mu.
func (id *ID) bindAndSetPeer(at localAddr, peer netip.AddrPort) error {
	if id.at.verbs == nil {
		port := id.local.Port()
		if id.state == stIdle {
			var err error
			if port, err = id.proto.bind(at.addr, 0, false); err != nil {
				return err
			}
		}
		id.at = at
		id.local = netip.AddrPortFrom(at.addr, port)
	}
	id.peer = peer
	return nil
}

// loopbackOf returns the loopback address of an address's family.
func loopbackOf(a netip.Addr) netip.Addr {
	if a.Unmap().Is4() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}

// ResolveRoute finds the path to the peer: rdma_resolve_route(3). Over Ethernet
// the IP routes are the path; RouteResolved follows at once.
func (id *ID) ResolveRoute() error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.check("ResolveRoute", stAddrResolved); err != nil {
		return err
	}
	id.state = stRouteResolved
	id.raise(Event{Type: RouteResolved})
	return nil
}
