// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/verbs"
)

var groupAddr = netip.MustParseAddr("239.77.0.1")

// member returns an identifier of the UDP port space with a queue pair.
func (p *process) member(t *testing.T, addr netip.Addr) *equipped {
	t.Helper()
	id := p.newID(UDP)
	check(t, id.BindAddr(netip.AddrPortFrom(addr, 0)))
	return id.equip(ib.QPTypeUD)
}

// sendTo sends a message as a MulticastJoin says.
func (e *equipped) sendTo(ud *UDParam, text string) {
	e.t.Helper()
	ah, err := e.QP().PD().CreateAH(&ud.AH)
	check(e.t, err)
	defer ah.Destroy()
	copy(e.buf, text)
	_, err = e.QP().PostSend(verbs.SendWR{
		Opcode: ib.WRSend, Flags: ib.SendSignaled, SGList: []ib.SGE{e.mr.SGE(0, len(text))}, AH: ah, RemoteQPN: ud.QPN, RemoteQKey: ud.QKey,
	})
	check(e.t, err)
}

func TestMulticastReachesMembers(t *testing.T) {
	f := newFabric(t)
	receiver, sender := f.process(1).member(t, loopback4), f.process(2).member(t, loopback4)
	check(t, receiver.JoinMulticast(groupAddr, FullMember))
	if ev := receiver.want(MulticastJoin); ev.Group != groupAddr || ev.UD.QPN != ib.QPMulticast || ev.UD.QKey != UDQKey ||
		ev.UD.AH.GRH.DGID != ib.GIDFromAddr(groupAddr) || !ev.UD.AH.IsGlobal {
		t.Errorf("joined %v with %+v", ev.Group, ev.UD)
	}
	check(t, sender.JoinMulticast(groupAddr, SendOnlyFullMember))
	ev := sender.want(MulticastJoin)
	sender.sendTo(&ev.UD, "to all")
	wc := receiver.received()
	if got := string(receiver.buf[2048+40:][:6]); got != "to all" || wc.SrcQP != sender.QP().QPN() {
		t.Errorf("received %q from %v", got, wc.SrcQP)
	}
	// The sender has joined to send only; a member that has left gets nothing more. A message to
	// one member comes later than the earlier one to the group.
	check(t, receiver.LeaveMulticast(groupAddr))
	_, err := receiver.QP().PostRecv(verbs.RecvWR{SGList: []ib.SGE{receiver.mr.SGE(2048, 2048)}})
	check(t, err)
	sender.sendTo(&ev.UD, "nobody")
	check(t, sender.LeaveMulticast(groupAddr))
	for _, e := range []*equipped{receiver, sender} {
		sender.sendTo(&UDParam{AH: sender.ahTo(ib.GIDFromAddr(loopback4)), QPN: e.QP().QPN(), QKey: UDQKey}, "direct")
		e.received()
		if got := string(e.buf[2048+40:][:6]); got != "direct" {
			t.Errorf("received %q", got)
		}
	}
}

// received waits for a message and passes over completions of sends.
func (e *equipped) received() ib.WC {
	e.t.Helper()
	for {
		wc := e.completion()
		check(e.t, wc.Err())
		if wc.Opcode == ib.WCRecv {
			return wc
		}
	}
}

// The loopback interface carries no IPv6 multicast, but can join.
func TestMulticastIPv6(t *testing.T) {
	group := netip.MustParseAddr("ff15::77")
	id := newFabric(t).process(1).member(t, netip.IPv6Loopback())
	check(t, id.JoinMulticast(group, FullMember))
	if ev := id.want(MulticastJoin); ev.Group != group || ev.UD.AH.GRH.DGID != ib.GIDFromAddr(group) {
		t.Errorf("joined %v with %+v", ev.Group, ev.UD)
	}
	check(t, id.LeaveMulticast(group))
}

func TestMulticastIsRefused(t *testing.T) {
	f := newFabric(t)
	p := f.process(1)
	if err := p.newID(UDP).JoinMulticast(groupAddr, FullMember); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("an ID without address: %v", err)
	}
	tcp := p.newID(TCP)
	check(t, tcp.BindAddr(anyPort))
	if err := tcp.JoinMulticast(groupAddr, FullMember); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("in the TCP port space: %v", err)
	}
	id := p.member(t, loopback4)
	for name, err := range map[string]error{
		"unicast":      id.JoinMulticast(loopback4, FullMember),
		"other family": id.JoinMulticast(netip.MustParseAddr("ff15::77"), FullMember),
		"unknown flag": id.JoinMulticast(groupAddr, 2),
	} {
		if !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := id.LeaveMulticast(groupAddr); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("leaving what was not joined: %v", err)
	}
	check(t, id.JoinMulticast(groupAddr, FullMember))
	id.want(MulticastJoin)
	if err := id.JoinMulticast(groupAddr, SendOnlyFullMember); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("joining twice: %v", err)
	}
}

// A queue pair that was attached by joining leaves its groups with the ID.
func TestMulticastEndsWithTheQueuePair(t *testing.T) {
	p := newFabric(t).process(1)
	id := p.member(t, loopback4)
	check(t, id.JoinMulticast(groupAddr, FullMember))
	id.want(MulticastJoin)
	qp := id.ReleaseQP()
	if id.QP() != nil || id.ReleaseQP() != nil {
		t.Error("the ID has a queue pair still")
	}
	check(t, qp.Destroy()) // EBUSY if it were attached
	check(t, id.LeaveMulticast(groupAddr))
}

// An ID of a multicast group is resolved as one of a host is.
func TestMulticastAddressIsResolved(t *testing.T) {
	p := newFabric(t).process(1)
	id := p.newID(UDP)
	check(t, id.ResolveAddr(t.Context(), netip.AddrPortFrom(loopback4, 0), netip.AddrPortFrom(groupAddr, 0)))
	id.want(AddrResolved)
	if id.PeerAddr().Addr() != groupAddr || id.Verbs() == nil || id.Route().DGID != ib.GIDFromAddr(groupAddr) {
		t.Errorf("resolved to %v, %+v", id.PeerAddr(), id.Route())
	}
	check(t, id.equip(ib.QPTypeUD).JoinMulticast(groupAddr, FullMember))
	id.want(MulticastJoin)
}
