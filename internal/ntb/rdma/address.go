// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"net/netip"
	"slices"

	"verbena/ib"
	wire "verbena/internal/wire/ntb"
)

// SetAddrs says which IP addresses the node's port has. The peer is notified, now or when the link
// comes up; of more than wire.MaxAddresses the first.
func (n *Node) SetAddrs(list []netip.Addr) {
	list = list[:min(len(list), wire.MaxAddresses)]
	if slices.Equal(list, n.addrs) {
		return
	}
	n.addrs = slices.Clone(list)
	if n.Up() {
		n.announceAddrs()
	}
}

// PeerAddrs returns the addresses that the peer has said its port has, none while the link
// is down. The caller does not change them.
func (n *Node) PeerAddrs() []netip.Addr { return n.peerAddrs }

// announceAddrs queues the addresses for the peer. They replace others that are still queued.
func (n *Node) announceAddrs() {
	a := wire.Addresses{Count: uint32(len(n.addrs))}
	for i, addr := range n.addrs {
		a.GIDs[i] = ib.GIDFromAddr(addr.WithZone(""))
	}
	c := command{op: wire.OpAddresses, body: a.Append(nil)}
	for i := range n.cmds.waiting {
		if n.cmds.waiting[i].op == wire.OpAddresses {
			n.cmds.waiting[i] = c
			return
		}
	}
	n.command(c)
}

// takeAddrs takes the peer's addresses. Those of no host are refused.
func (n *Node) takeAddrs(a *wire.Addresses) wire.CommandStatus {
	var list []netip.Addr
	for _, g := range a.GIDs[:a.Count] {
		addr := g.Addr()
		if addr.IsUnspecified() || addr.IsMulticast() {
			return wire.CommandMalformed
		}
		list = append(list, addr)
	}
	n.peerAddrs = list
	return wire.CommandDone
}
