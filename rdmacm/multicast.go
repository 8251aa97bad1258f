// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"net/netip"
	"slices"
	"syscall"

	"verbena/ib"
)

// JoinFlag selects the kind of membership: rdma_cm_mc_join_flags.
type JoinFlag uint8

// Join flags.
const (
	FullMember         JoinFlag = 0 // the ID's queue pair receives messages to the group
	SendOnlyFullMember JoinFlag = 1 // it only sends
)

// membership is a group that an ID has joined.
type membership struct {
	group    netip.Addr
	attached bool // the ID's queue pair
}

// gid returns the group as address vectors name it. IPv4 groups are mapped, as all of RoCEv2's
// addresses are. Spec: IBTA A17.4.5.
func (m *membership) gid() ib.GID { return ib.GIDFromAddr(m.group) }

// JoinMulticast joins a multicast group: rdma_join_multicast_ex(3). The ID is
// for datagrams and has a device. With FullMember its queue pair, if it
// has one, is attached to the group, and the interface joins it (IGMP, MLD); an
// application that drives a queue pair of its own attaches that itself.
// MulticastJoin or MulticastError follows; the UD of MulticastJoin addresses the group.
//
// Errors: EINVAL if the ID is not in such a state or group is no multicast
// address of the local address's family; EADDRINUSE if it has been joined.
func (id *ID) JoinMulticast(group netip.Addr, flag JoinFlag) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.check("JoinMulticast", stBound, stAddrResolved); err != nil {
		return err
	}
	group = group.Unmap().WithZone("")
	switch {
	case !id.datagrams():
		return invalid("JoinMulticast", "the ID is for %v: only datagrams have multicast", id.typ)
	case id.at.verbs == nil:
		return invalid("JoinMulticast",
			"the ID has no device: bind it to an address or resolve one")
	case !group.IsMulticast():
		return invalid("group", "%v is no multicast address", group)
	case group.Is4() != id.at.addr.Is4():
		return invalid("group", "%v and the local address %v are not of one family", group,
			id.at.addr)
	case flag > SendOnlyFullMember:
		return invalid("flag", "%d: must be FullMember or SendOnlyFullMember", flag)
	case id.membership(group) >= 0:
		return fail(syscall.EADDRINUSE, "group", "%v has been joined", group)
	}
	m := &membership{group: group}
	if flag == FullMember && id.qp != nil {
		if err := id.qp.AttachMulticast(m.gid()); err != nil {
			id.raise(Event{Type: MulticastError, Group: group, Err: err})
			return nil
		}
		m.attached = true
	}
	id.joined = append(id.joined, m)
	id.raise(Event{Type: MulticastJoin, Group: group, UD: UDParam{
		AH: id.ahTo(m.gid()), QPN: ib.QPMulticast, QKey: UDQKey,
	}})
	return nil
}

// LeaveMulticast leaves a group: rdma_leave_multicast(3).
//
// Errors: EADDRNOTAVAIL if the ID has not joined it.
func (id *ID) LeaveMulticast(group netip.Addr) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	i := id.membership(group.Unmap().WithZone(""))
	if i < 0 {
		return fail(syscall.EADDRNOTAVAIL, "group", "%v has not been joined", group)
	}
	m := id.joined[i]
	id.joined = slices.Delete(id.joined, i, i+1)
	if m.attached {
		return id.qp.DetachMulticast(m.gid())
	}
	return nil
}

// membership returns the index of a group in joined, -1 without.
func (id *ID) membership(group netip.Addr) int {
	return slices.IndexFunc(id.joined, func(m *membership) bool { return m.group == group })
}

// detach takes the queue pair out of the groups that it was attached to, before
// it leaves the ID. The caller holds mu.
func (id *ID) detach() {
	for _, m := range id.joined {
		if m.attached {
			_ = id.qp.DetachMulticast(m.gid()) // the application may have
			m.attached = false
		}
	}
}
