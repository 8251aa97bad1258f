// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	wire "verbena/internal/wire/trp"
	"verbena/verbs"
)

// The same where one datagram in a hundred is lost, again and again.
func TestTRPConnectionOnALossyNetwork(t *testing.T) {
	var first *verbs.Context
	until(t, "the managers of the tests before have ended", func() (ok bool) {
		var err error
		first, err = verbs.Open("", verbs.WithFaults("loss=1%,dup=1%,seed=5"))
		if err != nil && !errors.Is(err, syscall.EBUSY) {
			t.Fatal(err)
		}
		return err == nil
	})
	defer first.Close()
	for range 10 {
		testConnection(t, kinds[1], "127.0.0.1")
	}
}

// The UDP port is the kernel's: no other program has it, and its owner is not disturbed.
func TestTRPListenerHasTheUDPPort(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	check(t, err)
	defer taken.Close()
	if err := a.idOf(TRP).BindAddr(netip.MustParseAddrPort(taken.LocalAddr().String())); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("bound to a port that a program has: %v", err)
	}
	var l *testID
	var at netip.AddrPort
	for range 10 {
		l = a.listeningOf(TRP, loopback4, 0)
		at = l.LocalAddr()
		// A TCP port is another: both may have one number, unless a stranger has it.
		if err = b.idOf(IWARP).BindAddr(at); err == nil {
			break
		}
		check(t, l.Destroy())
	}
	check(t, err)
	if err := b.idOf(TRP).BindAddr(at); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("another process bound to the port: %v", err)
	}
	check(t, l.Destroy())
	c, err := net.ListenPacket("udp", at.String())
	check(t, err)
	check(t, c.Close())
}

// Requests from addresses that may be forged: where the client can be asked, nothing is
// raised. Where it cannot, as urdma's, the connection is established when something
// else has come from there.
func TestTRPForgedRequest(t *testing.T) {
	f := newFabric(t)
	a, b := f.process(1), f.process(2)
	l := b.listeningOf(TRP, loopback4, 0)
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	check(t, err)
	defer c.Close()
	send := func(to netip.AddrPort, p wire.Packet) {
		t.Helper()
		_, err := c.WriteToUDPAddrPort(p.Append(nil), to)
		check(t, err)
	}
	read := func(want wire.Opcode) (p wire.Packet, from netip.AddrPort) {
		t.Helper()
		check(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
		buf := make([]byte, 2048)
		n, from, err := c.ReadFromUDPAddrPort(buf)
		check(t, err)
		if m := p.Parse(buf[:n]); m != wire.WellFormed || p.Opcode != want {
			t.Fatalf("%v, %v, want %v", m, p.Opcode, want)
		}
		return p, from
	}
	send(l.LocalAddr(), wire.Packet{Header: wire.Header{AckPSN: 1024, Opcode: wire.Request}})
	if p, _ := read(wire.Request); p.PSN == 0 || len(p.Setup.PrivateData) != 0 {
		t.Errorf("challenged with %+v", p)
	}
	if ev := l.ch.TryGet(); ev != nil {
		t.Errorf("a request that may be forged raised %v", ev.Type)
	}

	send(l.LocalAddr(), wire.Packet{Header: wire.Header{Opcode: wire.Request}})
	server, _ := f.requested(l)
	check(t, server.Accept(&someParam))
	read(wire.Accept)
	_, from := read(wire.Accept) // and again, as nothing has come
	if ev := server.ch.TryGet(); ev != nil {
		t.Errorf("before anything has come: %v", ev.Type)
	}
	send(from, wire.Packet{})
	server.want(Established)

	client := a.resolvedOf(TRP, l.LocalAddr())
	f.establish(client, l)
}
