// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/engine/policy"
	"verbena/internal/iwarp/trp"
	"verbena/internal/monotime"
	"verbena/internal/queue"
	"verbena/internal/testkit/rig"
	wire "verbena/internal/wire/trp"
)

// TestTRPTransfers moves every size by every operation, both ways round, in both
// address families, on a network that loses, repeats and reorders too.
func TestTRPTransfers(t *testing.T) {
	for _, c := range []struct {
		name, faults string
		at           netip.Addr
		largest      int
	}{
		{"IPv4", "", loopback4, rig.BigBuffer},
		{"IPv6", "", loopback6, rig.BigBuffer},
		{"1 % lost", "loss=1%,seed=3", loopback4, 1 << 20},
		{"lost, repeated, reordered", "loss=3%,dup=3%,reorder=5%,seed=4", loopback4, 200000},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := trpPair(t, policy.Nap, rig.BigBuffer, c.at, c.faults)
			for i, n := range rig.Sizes {
				if n > c.largest {
					continue
				}
				rig.Transfer(t, a.endpoint, b.endpoint, n, byte(2*i))
				rig.Transfer(t, b.endpoint, a.endpoint, n, byte(2*i+1))
			}
			if lost := a.Node.Counter("trp_retransmitted") + b.Node.Counter("trp_retransmitted"); c.faults != "" && lost == 0 {
				t.Error("nothing was sent again")
			}
			if a.Node.Addr != loopback4 && c.at == loopback4 && c.faults == "" {
				for _, n := range []*node{a.Node, b.Node} {
					sent, got, bad := n.Counter("xdp_sent"), n.Counter("xdp_received"), n.Counter("xdp_malformed")
					if sent < 2000 || got < 2000 || bad > 0 {
						t.Errorf("%d frames sent, %d received, %d malformed: most segments were to go by frames", sent, got, bad)
					}
				}
			}
		})
	}
}

// Each end learns the private data of the other's set-up; a refusal gives a reason.
func TestTRPSetup(t *testing.T) {
	server := trpNode(t, policy.Nap, engine.Options{})
	for _, at := range []netip.Addr{loopback4, netip.IPv4Unspecified(), loopback6, netip.IPv6Unspecified()} {
		l, requests := listen(server, at, 0)
		from, to := loopback4, netip.AddrPortFrom(loopback4, l.Addr().Port())
		if at.Is6() {
			from, to = loopback6, netip.AddrPortFrom(loopback6, l.Addr().Port())
		}
		a, b := trpEndpoint(trpNode(t, policy.Nap, engine.Options{}), 64), trpEndpoint(server, 64)
		a.dial(from, to, "may I")
		r := next(t, requests)
		if string(r.Setup.PrivateData) != "may I" || r.Setup.IRD != 16 || r.Local != from {
			t.Fatalf("%+v", r)
		}
		b.accept(r, "yes")
		if ev := a.wantLink(trp.EventEstablished, 0); string(ev.Setup.PrivateData) != "yes" {
			t.Fatalf("%+v", ev)
		}
		b.wantLink(trp.EventEstablished, 0)
		if err := r.Reject(r.Local, nil); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("refused after it was accepted: %v", err)
		}

		c := trpEndpoint(a.Node, 64)
		c.dial(from, to, "and I")
		r = next(t, requests)
		if err := r.Reject(r.Local, []byte("no")); err != nil {
			t.Fatal(err)
		}
		if ev := c.wantLink(trp.EventRejected, 0); string(ev.Setup.PrivateData) != "no" {
			t.Fatalf("%+v", ev)
		}
		c.wantLink(trp.EventClosed, 0)
		c.dial(from, to, "again") // the queue pair is as good as new
		b2 := trpEndpoint(server, 64)
		b2.accept(next(t, requests), "")
		c.wantLink(trp.EventEstablished, 0)
	}
}

// A UDP port is one program's.
func TestPortInUse(t *testing.T) {
	n := trpNode(t, policy.Nap, engine.Options{})
	l, _ := listen(n, loopback4, 0)
	if _, err := Of(n.Eng).Bind(l.Addr()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("a second listener: %v", err)
	}
	l.Close()
	rig.Until(t, "the port is free", func() bool {
		p, err := Of(n.Eng).Bind(l.Addr())
		if err == nil {
			p.Close()
		}
		return err == nil
	})
}

// Disconnect sends posted work; the other end is notified, and both may forget the association.
func TestTRPDisconnect(t *testing.T) {
	a, b := trpPair(t, policy.Nap, 1<<20, loopback4, "")
	b.Recv()
	a.Send(1 << 20)
	connOf(a).Disconnect()
	a.Want(ib.WCSend, ib.WCSuccess)
	b.Want(ib.WCRecv, ib.WCSuccess)
	b.wantLink(trp.EventDisconnected, trp.PeerClose)
	a.wantLink(trp.EventDisconnected, trp.LocalClose)
	rig.Until(t, "both end", func() bool { return a.State() == ib.QPErr && b.State() == ib.QPErr })
}

// A queue pair that is destroyed notifies its peer, even if datagrams are lost.
func TestTRPDestroyed(t *testing.T) {
	for _, faults := range []string{"", "loss=30%,seed=3", "loss=30%,seed=4"} {
		a, b := trpPair(t, policy.Nap, 64, loopback4, faults)
		b.Recv()
		a.Close()
		b.Want(ib.WCRecv, ib.WCWRFlushErr)
		b.wantLink(trp.EventDisconnected, trp.PeerClose)
		rig.Until(t, "the last words are answered", func() bool { return Of(a.Node.Eng).repeatingFINs.Load() == 0 })
	}
}

// Access that is not granted ends both queue pairs, and writes nothing.
func TestTRPRefusal(t *testing.T) {
	a, b := trpPair(t, policy.Nap, 4096, loopback4, "")
	b.Recv()
	a.Request(queue.SendWQE{Opcode: ib.WRRDMARead, Length: 8, RKey: b.Region.RKey() ^ 0x100})
	a.Want(ib.WCRDMARead, ib.WCRemAccessErr)
	b.Want(ib.WCRecv, ib.WCWRFlushErr)
	for _, e := range []*trpEnd{a, b} { // both end it, in either order
		if ev := e.nextLink(trp.EventDisconnected.String()); ev.Kind != trp.EventDisconnected || ev.Reason != trp.LocalClose && ev.Reason != trp.PeerClose {
			t.Fatalf("%v (%v)", ev.Kind, ev.Reason)
		}
	}
	if !b.Events.Has(ib.EventQPAccessErr) {
		t.Error("the target was not told of the access")
	}
}

// Datagrams that are not TRP are counted and hold nothing. Requests that may be forged are few, or
// cost nothing, and keep nobody out.
func TestTRPHostileInput(t *testing.T) {
	server := trpNode(t, policy.Nap, engine.Options{})
	l, requests := listen(server, loopback4, 8)
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	to := net.UDPAddrFromAddrPort(l.Addr())
	send := func(c *net.UDPConn, s string) {
		b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.WriteToUDP(b, to); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []string{"", "00", "00000000 00000000 f000", "00000000 00000000 1000", "00000000 00000000 1000 0005 0000 0000", "00000000 00000000 1000 ffff 0000 0000"} {
		send(c, s)
	}
	rig.Until(t, "garbage is counted", func() bool { return server.Counter("trp_listen_malformed") == 6 })
	send(c, "00000000 00000000 0000 4143")
	send(c, "00000000 00000000 4000")
	rig.Until(t, "what has no place here is counted", func() bool { return server.Counter("trp_listen_ignored") == 2 })

	var all []*net.UDPConn
	for range 30 {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all = append(all, c)
		send(c, "00000000 00000000 1000 0000 0001 0001")
	}
	rig.Until(t, "requests of one address are few", func() bool { return server.Counter("trp_listen_overflow") == 26 })
	for _, c := range all { // again: those that wait are known
		send(c, "00000000 00000000 1000 0000 0001 0001")
	}
	rig.Until(t, "and dropped again", func() bool { return server.Counter("trp_listen_overflow") == 52 })
	if len(requests) != 4 {
		t.Fatalf("%d requests wait, want 4", len(requests))
	}
	for range 100 {
		send(c, "00000000 00000400 1000 0000 0001 0001")
	}
	rig.Until(t, "those that can be answered are challenged", func() bool { return server.Counter("trp_listen_challenged") == 100 })
	if len(requests) != 4 {
		t.Fatalf("%d requests wait", len(requests))
	}
	for range 4 {
		r := next(t, requests)
		if err := r.Reject(r.Local, nil); err != nil {
			t.Fatal(err)
		}
	}
	a := trpEndpoint(trpNode(t, policy.Nap, engine.Options{}), 64)
	a.dial(loopback4, l.Addr(), "")
	b := trpEndpoint(server, 64)
	b.accept(next(t, requests), "")
	b.wantLink(trp.EventEstablished, 0)

	// An established association, from its peer's address and from another.
	b.Lock()
	port := connOf(b).port.addr
	b.Unlock()
	to = net.UDPAddrFromAddrPort(port)
	for range 50 {
		send(c, "00000000 00000000 0000 4143")
		send(c, "ffff")
	}
	rig.Until(t, "strangers are counted", func() bool {
		return server.Counter("trp_bad_source") >= 50 && server.Counter("trp_malformed_too_short") >= 50
	})
	rig.Transfer(t, a.endpoint, b.endpoint, 64, 1)
}

// The commands' own limits.
func TestTRPArguments(t *testing.T) {
	n := trpNode(t, policy.Nap, engine.Options{})
	_, requests := listen(n, loopback4, 0)
	e := trpEndpoint(n, 64)
	p, err := Of(n.Eng).Bind(netip.AddrPortFrom(loopback4, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := connOf(e).Dial(p, p.Addr(), wire.Setup{PrivateData: make([]byte, 513)}, e.onLink); !errors.Is(err, trp.ErrPrivateData) {
		t.Fatalf("513 bytes of private data: %v", err)
	}
	if len(requests) != 0 {
		t.Fatal("a request went out")
	}
	if err := e.ModifyTo(&ib.QPAttr{State: ib.QPErr}, 0); err != nil {
		t.Fatal(err)
	}
	if p, err = Of(n.Eng).Bind(netip.AddrPortFrom(loopback4, 0)); err != nil {
		t.Fatal(err)
	}
	if err := connOf(e).Dial(p, p.Addr(), wire.Setup{}, e.onLink); !errors.Is(err, trp.ErrState) {
		t.Fatalf("a queue pair in the error state: %v", err)
	}
}

// More associations than are asked one by one: each gets its own, and ports are
// given back.
func TestTRPManyAssociations(t *testing.T) {
	client, server := trpNode(t, policy.Nap, engine.Options{}), trpNode(t, policy.Nap, engine.Options{})
	l, requests := listen(server, loopback4, 0)
	var ends [][2]*trpEnd
	for range 4 * policy.DirectPorts {
		a, b := trpEndpoint(client, 256), trpEndpoint(server, 256)
		a.dial(loopback4, l.Addr(), "")
		b.accept(next(t, requests), "")
		a.wantLink(trp.EventEstablished, 0)
		b.wantLink(trp.EventEstablished, 0)
		ends = append(ends, [2]*trpEnd{a, b})
	}
	if n := len(*Of(server.Eng).in.ports.Load()); n != 1+len(ends) {
		t.Errorf("%d ports of a listener and %d associations", n, len(ends))
	}
	for i, e := range ends {
		rig.Transfer(t, e[0].endpoint, e[1].endpoint, 200, byte(3*i))
	}
	for _, e := range ends {
		e[0].Close()
		e[1].wantLink(trp.EventDisconnected, trp.PeerClose)
	}
	if testing.Short() { // the FINs of peers are answered for six seconds
		return
	}
	rig.Until(t, "the ports of those destroyed are given back", func() bool { return len(*Of(client.Eng).in.ports.Load()) == 0 })
}

// A process exits: the peer has the end at once, and no thread of the process, which
// may still run, takes it for a failure.
func TestTRPLeave(t *testing.T) {
	a, b := trpPair(t, policy.Nap, 64, loopback4, "")
	connOf(a).Leave()
	b.wantLink(trp.EventDisconnected, trp.PeerClose)
	if s := a.State(); s != ib.QPRTS {
		t.Errorf("queue pair in %v", s)
	}
	connOf(a).Leave() // not twice
}

// The network refuses the server's port, and the process exits before the thread that read the
// error has passed on the end of the association. The client's port is given back once.
func TestTRPLeaveBesideRefusal(t *testing.T) {
	n := trpNode(t, policy.Nap, engine.Options{})
	silent, err := Of(n.Eng).Bind(netip.AddrPortFrom(loopback4, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	e := trpEndpoint(n, 64)
	e.dial(loopback4, silent.Addr(), "hello")
	c := connOf(e)
	c.Lock()
	c.telling = true // by that thread, later
	now := monotime.Now()
	for _, at := range []monotime.Time{now, now.Add(60 * monotime.Second)} {
		c.assoc.HandleRefused(at, silent.Addr())
	}
	c.FlushOutput(now)
	c.Unlock()
	c.Leave()
	c.Lock()
	c.telling = false
	c.Unlock()
	c.tell()
	e.wantLink(trp.EventUnreachable, trp.Refused)
	e.wantLink(trp.EventClosed, 0)
}
