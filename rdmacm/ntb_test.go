// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/cm/ibcm"
	"verbena/internal/core"
	"verbena/internal/ntb/backend"
	"verbena/internal/wire/cm"
	wire "verbena/internal/wire/ntb"
	"verbena/verbs"
)

var (
	ntbClient = netip.MustParseAddr("10.99.0.1")
	ntbServer = netip.MustParseAddr("10.99.0.2")
)

// Over TCP, where each end knows its own address only, and in the IB port space.
func TestNTBConnectionOverTCP(t *testing.T) {
	joinLinks(t, "10.99.0.1=s:127.77.0.2:7471,10.99.0.2=c:127.77.0.2:7471")
	testConnection(t, kinds[2], "10.99.0.2")
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.newID(IB)
	check(t, l.SetKind(NTB))
	check(t, l.BindAddr(netip.AddrPortFrom(ntbServer, 0)))
	check(t, l.Listen(0))
	id := a.newID(IB)
	check(t, id.SetKind(NTB))
	id.resolve(l.LocalAddr())
	client := id.equip(ib.QPTypeRC)
	server := f.establish(client, l)
	exchange(client, server)
}

// Without a word about the kind the addresses say it: those that only a link has.
func TestNTBByAddressAlone(t *testing.T) {
	joinByMemory(t)
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.newID(TCP)
	check(t, l.BindAddr(netip.AddrPortFrom(ntbServer, 0)))
	check(t, l.Listen(0))
	client := a.newID(TCP)
	client.resolve(l.LocalAddr())
	if client.Kind() != NTB || l.Kind() != NTB || client.LocalAddr().Addr() != ntbClient {
		t.Fatalf("%v at %v, %v", client.Kind(), client.LocalAddr(), l.Kind())
	}
	from := a.newID(TCP)
	check(t, from.ResolveAddr(context.Background(), netip.AddrPortFrom(ntbClient, 0), l.LocalAddr()))
	from.want(AddrResolved)
	if r := from.Route(); r.SGID != ib.GIDFromAddr(ntbClient) || r.DGID != ib.GIDFromAddr(ntbServer) || from.Kind() != NTB {
		t.Errorf("%v, route %+v", from.Kind(), r)
	}
	roce := a.newID(TCP)
	check(t, roce.ResolveAddr(context.Background(), netip.AddrPort{}, netip.AddrPortFrom(loopback4, 9)))
	if roce.want(AddrResolved); roce.Kind() != RoCE {
		t.Errorf("loopback is of kind %v", roce.Kind())
	}
	said := a.newID(TCP)
	check(t, said.SetKind(RoCE))
	if err := said.BindAddr(netip.AddrPortFrom(ntbClient, 0)); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("RoCE, at a link's address: %v", err)
	}
}

// A peer that is still to come is waited for, and not for ever.
func TestNTBPeerIsWaitedFor(t *testing.T) {
	one := "10.99.0.1+10.99.0.2=shm:" + filepath.Join(t.TempDir(), "link")
	joinLinks(t, one)
	f := newFabric(t)
	a := f.process(1)
	dst := netip.AddrPortFrom(ntbServer, 7)
	client := a.idOf(NTB)
	check(t, client.ResolveAddr(within(t), netip.AddrPort{}, dst))
	if err := client.ResolveAddr(within(t), netip.AddrPort{}, dst); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("resolves twice: %v", err)
	}
	gone := a.idOf(NTB)
	check(t, gone.ResolveAddr(within(t), netip.AddrPort{}, dst))
	check(t, gone.Destroy())
	joinLinks(t, one+","+one)
	c, err := verbs.Open("ntb1")
	check(t, err)
	defer c.Close()
	client.want(AddrResolved)
	if client.LocalAddr().Addr() != ntbClient || client.PeerAddr() != dst {
		t.Errorf("from %v to %v", client.LocalAddr(), client.PeerAddr())
	}
	wrong := netip.MustParseAddr("10.99.0.3")
	id := a.idOf(NTB)
	check(t, id.BindAddr(netip.AddrPortFrom(ntbClient, 0)))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	check(t, id.ResolveAddr(ctx, netip.AddrPort{}, netip.AddrPortFrom(wrong, 7)))
	cancel() // the caller may have gone: the deadline counts
	if ev := id.want(AddrError); !errors.Is(ev.Err, syscall.EHOSTUNREACH) {
		t.Errorf("%v: %v", wrong, ev.Err)
	}
	check(t, id.ResolveAddr(within(t), netip.AddrPort{}, dst)) // it may be tried again
	id.want(AddrResolved)
	own := a.idOf(NTB)
	check(t, own.BindAddr(netip.AddrPortFrom(ntbClient, 0)))
	own.resolve(netip.AddrPortFrom(ntbClient, 7))
	if own.LocalAddr().Addr() != ntbClient {
		t.Errorf("to itself, from %v", own.LocalAddr())
	}
}

func TestNTBWithoutLinks(t *testing.T) {
	id := newFabric(t).process(1).idOf(NTB)
	check(t, id.ResolveAddr(within(t), netip.AddrPort{}, netip.AddrPortFrom(ntbServer, 7)))
	if ev := id.want(AddrError); !errors.Is(ev.Err, syscall.ENODEV) {
		t.Error(ev.Err)
	}
	if err := id.BindAddr(netip.AddrPortFrom(ntbServer, 7)); !errors.Is(err, syscall.ENODEV) {
		t.Error(err)
	}
}

// Reliable connections are all there is.
func TestNTBOtherServicesAreRefused(t *testing.T) {
	joinByMemory(t)
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	for _, typ := range []ib.QPType{ib.QPTypeUD, ib.QPTypeUC, ib.QPTypeXRCSend} {
		id := a.newID(IB)
		check(t, id.SetKind(NTB))
		if err := id.SetQPType(typ); !errors.Is(err, syscall.EOPNOTSUPP) {
			t.Errorf("%v: %v", typ, err)
		}
		id = a.newID(IB)
		check(t, id.SetQPType(typ))
		if err := id.SetKind(NTB); !errors.Is(err, syscall.EOPNOTSUPP) {
			t.Errorf("%v, said first: %v", typ, err)
		}
	}
	l := b.newID(IB) // open for any type, as far as it goes
	check(t, l.SetKind(NTB))
	check(t, l.BindAddr(netip.AddrPortFrom(ntbServer, 0)))
	check(t, l.Listen(0))
	id := a.newID(IB)
	check(t, id.SetKind(NTB))
	id.resolve(l.LocalAddr())
	id.mu.Lock()
	id.typ = ib.QPTypeUC // a peer that knows no better
	id.kind = RoCE
	id.mu.Unlock()
	check(t, id.Connect(&ConnParam{QPN: 0x77, QPType: ib.QPTypeUC}))
	var re *RejectedError
	if ev := id.want(Rejected); !errors.As(ev.Err, &re) || re.Reason != cm.RejInvalidTransportType {
		t.Errorf("rejected with %v", ev.Err)
	}
}

// A peer may write any address into its MADs. Those that are not from its own port to ours, or have
// none at all, are counted and dropped.
func TestNTBForeignMADs(t *testing.T) {
	joinByMemory(t)
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.listeningOf(NTB, ntbServer, 0)
	client := a.idOf(NTB)
	client.resolve(l.LocalAddr())
	link := (*core.Context)(client.Verbs()).NTB()
	to := backend.Member{Side: 1, Slot: f.linkSlot}
	mad := make([]byte, wire.MADBytes)
	stranger := ib.GIDFromAddr(netip.MustParseAddr("10.99.0.3"))
	x, y := ib.GIDFromAddr(ntbClient), ib.GIDFromAddr(ntbServer)
	for i, p := range [][]byte{
		wire.Management{Source: stranger, Destination: y, MAD: mad}.Append(nil),
		wire.Management{Source: y, Destination: y, MAD: mad}.Append(nil),
		wire.Management{Source: x, Destination: stranger, MAD: mad}.Append(nil),
		mad[:40],
	} {
		until(t, "a MAD is sent", func() bool { return link.SendMADTo(to, p) })
		until(t, "a MAD is refused", func() bool { return b.ntb.links.bad.Load() == uint64(i+1) })
	}
	received := func() uint64 {
		b.mu.Lock()
		defer b.mu.Unlock()
		c := b.ntb.agent.Counters()
		return c[ibcm.Received]
	}
	if n := received(); n != 0 {
		t.Errorf("%d reached the agent", n)
	}
	link.SendMADTo(to, wire.Management{Source: x, Destination: y, MAD: mad}.Append(nil))
	until(t, "a MAD is taken", func() bool { return received() == 1 })
}

// A process that has the device open, and no connection manager, refuses.
func TestNTBProcessWithoutAManagerRefuses(t *testing.T) {
	joinByMemory(t)
	c, err := verbs.Open("ntb1")
	check(t, err)
	defer c.Close()
	if info := c.Info(); (*core.Context)(c).NTB().Side() != 0 {
		t.Fatalf("%v", info)
	}
	f := newFabric(t)
	client := f.process(1).resolvedOf(NTB, netip.AddrPortFrom(ntbClient, 7)) // the first is 10.99.0.1
	check(t, client.Connect(&someParam))
	var re *RejectedError
	if ev := client.want(Rejected); !errors.As(ev.Err, &re) || re.Reason != RejectNoListener {
		t.Errorf("rejected with %v", ev.Err)
	}
}

// The link is lost at each step of a connection, and comes back.
func TestNTBLinkLost(t *testing.T) {
	joinByMemory(t)
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.listeningOf(NTB, ntbServer, 0)
	asking, requested := a.resolvedOf(NTB, l.LocalAddr()), a.resolvedOf(NTB, l.LocalAddr())
	check(t, requested.Connect(&someParam))
	pending, _ := f.requested(l)
	check(t, asking.Connect(&someParam))
	ask := l.want(ConnectRequest)
	client := a.resolvedOf(NTB, l.LocalAddr())
	server := f.establish(client, l)
	exchange(client, server)

	(*core.Context)(client.Verbs()).NTB().Reset()
	client.want(Disconnected)
	server.want(Disconnected)
	asking.want(Unreachable)
	requested.want(Unreachable)
	pending.wantGivenUp()
	check(t, ask.ID.Destroy())
	check(t, client.Disconnect())
	check(t, server.Disconnect())
	if client.QP().State() != ib.QPErr || server.QP().State() != ib.QPErr {
		t.Errorf("queue pairs in %v and %v", client.QP().State(), server.QP().State())
	}
	again := a.resolvedOf(NTB, l.LocalAddr())
	other := f.establish(again, l)
	exchange(again, other)
}
