// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"verbena/internal/core"
	wire "verbena/internal/wire/rsocket"
)

func packetSocket(t testing.TB, network, address string) *PacketConn {
	t.Helper()
	c := must(ListenPacket(network, address)).(*PacketConn)
	t.Cleanup(func() { c.Close() })
	check(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	return c
}

// dialed returns a socket that is connected to another.
func dialed(t testing.TB, to net.Addr) *PacketConn {
	t.Helper()
	c := must(Dial("udp", to.String())).(*PacketConn)
	t.Cleanup(func() { c.Close() })
	check(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	return c
}

// exchange sends a datagram from one socket to another, and checks that it comes with its sender.
func exchange(t testing.TB, from, to *PacketConn, dst netip.AddrPort, data []byte) (sender netip.AddrPort) {
	t.Helper()
	n, err := from.WriteToAddrPort(data, dst)
	if err != nil || n != len(data) {
		t.Fatalf("WriteTo %v: %d, %v", dst, n, err)
	}
	b := make([]byte, wire.DatagramMax)
	n, sender, err = to.ReadFromAddrPort(b)
	if err != nil || !bytes.Equal(b[:n], data) {
		t.Fatalf("%d bytes of %d, %v", n, len(data), err)
	}
	return sender
}

func (c *PacketConn) peer(a netip.AddrPort) packetPeer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.peers[a]; p != nil {
		return *p
	}
	return packetPeer{}
}

// acquaint exchanges datagrams until each socket knows the other's queue pair.
func acquaint(t testing.TB, a, b *PacketConn) {
	t.Helper()
	for known := false; !known; {
		exchange(t, a, b, b.local, []byte("x"))
		exchange(t, b, a, a.local, []byte("y"))
		x, y := a.peer(b.local), b.peer(a.local)
		known = x.known() && y.known()
	}
}

// The first datagram goes over UDP, and those behind its answer go to the queue pair, whatever
// addresses the sockets have.
func TestDatagrams(t *testing.T) {
	for _, at := range []struct{ network, a, b, dst string }{
		{"roce", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1"},
		{"udp4", ":0", "127.0.0.1:0", "127.0.0.1"},
		{"udp", ":0", ":0", "127.0.0.1"},
		{"udp", ":0", "[::]:0", "::1"},
		{"udp6", "[::1]:0", "[::1]:0", "::1"},
	} {
		t.Run(at.network+" "+at.a+" "+at.dst, func(t *testing.T) {
			a, b := packetSocket(t, at.network, at.a), packetSocket(t, at.network, at.b)
			host := netip.MustParseAddr(at.dst)
			dst := netip.AddrPortFrom(host, b.local.Port())
			for _, size := range []int{0, 1, 500, 1000, wire.DatagramMax - 28} {
				sender := exchange(t, a, b, dst, someBytes(size))
				if want := netip.AddrPortFrom(host, a.local.Port()); sender != want {
					t.Fatalf("from %v, want %v", sender, want)
				}
				back := exchange(t, b, a, sender, someBytes(size))
				if back != dst {
					t.Fatalf("the answer is from %v, want %v", back, dst)
				}
			}
			for known := false; !known; { // the answer over UDP is another goroutine's
				exchange(t, b, a, exchange(t, a, b, dst, nil), nil)
				p := a.peer(dst)
				known = p.known()
			}
		})
	}
}

// A connected socket reads only datagrams of its peer, and writes only to it.
func TestConnectedDatagrams(t *testing.T) {
	server := packetSocket(t, "udp4", "127.0.0.1:0")
	client := dialed(t, server.LocalAddr())
	stranger := packetSocket(t, "udp4", "127.0.0.1:0")
	if client.RemoteAddr().String() != server.LocalAddr().String() || server.RemoteAddr() != nil {
		t.Errorf("remote addresses %v and %v", client.RemoteAddr(), server.RemoteAddr())
	}
	b := make([]byte, 10)
	for range 3 { // over UDP, then to the queue pair
		_, err := client.Write([]byte("ping"))
		check(t, err)
		n, from, err := server.ReadFrom(b)
		if err != nil || string(b[:n]) != "ping" || from.String() != client.LocalAddr().String() {
			t.Fatalf("%q from %v, %v", b[:n], from, err)
		}
		_, err = stranger.WriteTo([]byte("strange"), client.LocalAddr())
		check(t, err)
		_, err = server.WriteTo([]byte("long answer"), from)
		check(t, err)
		n, err = client.Read(b) // as UDP does, it leaves out what has no room
		if err != nil || string(b[:n]) != "long answe" {
			t.Fatalf("%q, %v", b[:n], err)
		}
	}
	if _, err := client.WriteTo(b, server.LocalAddr()); !errors.Is(err, net.ErrWriteToConnected) {
		t.Errorf("WriteTo of a connected socket: %v", err)
	}
}

// A peer that has ended has a successor at its port, with another queue pair.
func TestSuccessorOfAPeerIsFound(t *testing.T) {
	client, server := packetSocket(t, "udp4", "127.0.0.1:0"), packetSocket(t, "udp4", "127.0.0.1:0")
	dst := server.local
	acquaint(t, client, server)
	check(t, server.Close())
	server = packetSocket(t, "udp4", dst.String())
	client.mu.Lock()
	client.peers[dst].asked = time.Now().Add(-askAfter) // a second goes by
	client.mu.Unlock()
	acquaint(t, client, server)
}

func TestDatagramErrors(t *testing.T) {
	a := packetSocket(t, "udp4", "127.0.0.1:0")
	var op *net.OpError
	for name, c := range map[string]struct {
		want error
		call func() error
	}{
		"taken port":      {syscall.EADDRINUSE, func() error { _, err := ListenPacket("udp4", a.LocalAddr().String()); return err }},
		"foreign address": {syscall.EADDRNOTAVAIL, func() error { _, err := ListenPacket("udp4", "192.0.2.1:0"); return err }},
		"network":         {net.UnknownNetworkError("iwarp"), func() error { _, err := ListenPacket("iwarp", "127.0.0.1:0"); return err }},
		"dial network":    {net.UnknownNetworkError("udplite"), func() error { _, err := Dial("udplite", "127.0.0.1:9"); return err }},
		"too long": {syscall.EMSGSIZE, func() error {
			_, err := a.WriteTo(make([]byte, wire.DatagramMax-15), a.LocalAddr())
			return err
		}},
		"no address":   {syscall.EDESTADDRREQ, func() error { _, err := a.Write([]byte("x")); return err }},
		"nil address":  {syscall.EDESTADDRREQ, func() error { _, err := a.WriteTo([]byte("x"), (*net.UDPAddr)(nil)); return err }},
		"port 0":       {syscall.EDESTADDRREQ, func() error { _, err := a.WriteTo([]byte("x"), &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); return err }},
		"other type":   {syscall.EINVAL, func() error { _, err := a.WriteTo([]byte("x"), &net.IPAddr{}); return err }},
		"read in time": {os.ErrDeadlineExceeded, func() error { return expired(a, a.SetReadDeadline, func() error { _, err := a.Read(nil); return err }) }},
		"written in time": {os.ErrDeadlineExceeded, func() error {
			return expired(a, a.SetWriteDeadline, func() error { _, err := a.WriteTo(nil, a.LocalAddr()); return err })
		}},
	} {
		if err := c.call(); !errors.Is(err, c.want) || !errors.As(err, &op) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	check(t, a.Close())
	for name, call := range map[string]func() error{
		"Close": a.Close,
		"Read":  func() error { _, err := a.Read(nil); return err },
		"WriteTo": func() error {
			_, err := a.WriteTo(nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9})
			return err
		},
		"SetDeadline": func() error { return a.SetDeadline(time.Time{}) },
	} {
		if err := call(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s of a closed socket: %v", name, err)
		}
	}
}

// expired returns the error of a call whose deadline has gone by.
func expired(c *PacketConn, set func(time.Time) error, call func() error) error {
	if err := set(time.Now()); err != nil {
		return err
	}
	defer c.SetDeadline(time.Now().Add(20 * time.Second))
	return call()
}

// Deadlines and Close end calls that wait: with a queue pair and without.
func TestDatagramReadIsInterrupted(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", ":0"} {
		for name, interrupt := range map[string]func(c *PacketConn) error{
			"Close":    (*PacketConn).Close,
			"deadline": func(c *PacketConn) error { return c.SetReadDeadline(time.Now().Add(time.Millisecond)) },
		} {
			c := packetSocket(t, "udp4", address)
			done := make(chan error)
			go func() {
				_, err := c.Read(make([]byte, 1))
				done <- err
			}()
			for waits := false; !waits; {
				c.mu.Lock()
				waits = c.reader.ready != nil
				c.mu.Unlock()
			}
			check(t, interrupt(c))
			if err := <-done; !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Many goroutines write while one reads: nothing is torn, and a burst up to the receives arrives.
func TestDatagramsOfManyWriters(t *testing.T) {
	server := packetSocket(t, "udp4", "127.0.0.1:0")
	const writers, each = 4, 50
	var wg sync.WaitGroup
	for w := range writers {
		c := dialed(t, server.LocalAddr())
		wg.Go(func() {
			b := make([]byte, 1)
			for range each {
				if _, err := c.Write(bytes.Repeat([]byte{byte(w)}, 100*(w+1))); err != nil {
					t.Error(err)
					return
				}
				if _, err := c.Read(b); err != nil || b[0] != byte(w) {
					t.Errorf("writer %d: answer %d, %v", w, b[0], err)
					return
				}
			}
		})
	}
	b := make([]byte, wire.DatagramMax)
	for range writers * each {
		n, from, err := server.ReadFrom(b)
		if err != nil || n == 0 || n != 100*(int(b[0])+1) || bytes.Count(b[:n], b[:1]) != n {
			t.Fatalf("%d bytes, %v", n, err)
		}
		_, err = server.WriteTo(b[:1], from)
		check(t, err)
	}
	wg.Wait()
}

// Datagrams that are no rsocket's change nothing.
func TestStrangeDatagramsAreDropped(t *testing.T) {
	c := packetSocket(t, "udp4", "127.0.0.1:0")
	udp := must(net.Dial("udp4", c.LocalAddr().String()))
	defer udp.Close()
	whole := append(wire.UDPHeader{QPN: 1, Local: c.local.Addr()}.Append(nil), "data"...)
	for n := range len(whole) - 4 {
		must(udp.Write(whole[:n])) // also of no bytes
	}
	must(udp.Write(make([]byte, wire.DatagramMax+100)))
	whole[5] = 3 // no operation
	must(udp.Write(whole))

	// A queue pair of its own sends datagrams without a header.
	other := packetSocket(t, "udp4", "127.0.0.1:0")
	acquaint(t, other, c)
	check(t, other.sendStrange(c.local))
	for range 3 * datagramReceives { // each room was posted again
		exchange(t, other, c, c.local, []byte("still here"))
	}
}

// sendStrange sends parts of a header, and one of another version, to a peer's queue pair.
func (c *PacketConn) sendStrange(to netip.AddrPort) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ud, peer := c.uds[0], c.peers[to]
	header := ud.header
	defer func() { ud.header = header }()
	for n := range header {
		ud.header = header[:n]
		if err := ud.send(peer, nil); err != nil {
			return err
		}
	}
	ud.header = append([]byte{9}, header[1:]...)
	return ud.send(peer, []byte("z"))
}

// A flood of senders leaves room for the peers that the program sends to.
func TestPeersAreForgotten(t *testing.T) {
	c := packetSocket(t, "udp4", "127.0.0.1:0")
	other := packetSocket(t, "udp4", "127.0.0.1:0")
	exchange(t, c, other, other.local, []byte("x"))
	c.mu.Lock()
	for i := 0; len(c.peers) < peersMax; i++ {
		a := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i >> 16)}), uint16(i))
		c.peers[a] = &packetPeer{addr: a, ud: c.uds[0]}
	}
	c.mu.Unlock()
	third := packetSocket(t, "udp4", "127.0.0.1:0")
	exchange(t, third, c, c.local, []byte("x"))
	exchange(t, c, other, other.local, []byte("x"))
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.peers) != peersMax || c.peers[other.local] == nil {
		t.Errorf("%d peers", len(c.peers))
	}
}

// Peers that the program has answered are forgotten, too, when they are silent.
func TestSilentPeersAreForgotten(t *testing.T) {
	c := packetSocket(t, "udp4", "127.0.0.1:0")
	c.mu.Lock()
	for i := range peersMax {
		a := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), uint16(i))
		c.peers[a] = &packetPeer{addr: a, ud: c.uds[0], wanted: true}
	}
	c.mu.Unlock()
	acquaint(t, packetSocket(t, "udp4", "127.0.0.1:0"), c)
}

// A datagram that comes while the socket closes does not keep the goroutine of a further queue
// pair.
func TestDatagramComesWhileTheSocketCloses(t *testing.T) {
	c, other := packetSocket(t, "udp", "[::]:0"), packetSocket(t, "udp", "[::]:0")
	for _, host := range []string{"127.0.0.1", "::1"} {
		dst := netip.AddrPortFrom(netip.MustParseAddr(host), c.local.Port())
		for known := false; !known; {
			exchange(t, c, other, exchange(t, other, c, dst, []byte("x")), nil)
			p := other.peer(dst)
			known = p.known()
		}
	}
	c.mu.Lock()
	c.closed, c.gone = true, true
	second := c.uds[1].local
	c.mu.Unlock()
	must(other.WriteToAddrPort([]byte("late"), second))
	for len := 0; len == 0; {
		c.mu.Lock()
		len = (*core.CQ)(c.uds[1].cq).Len()
		c.mu.Unlock()
	}
	check(t, c.release())
	c.mu.Lock()
	c.uds, c.peers = nil, nil // for the test's end
	c.mu.Unlock()
}

// As with UDP, the unspecified address is this host.
func TestUnspecifiedAddressIsDialed(t *testing.T) {
	for _, host := range []string{"0.0.0.0", "::"} {
		server := packetSocket(t, "udp", "[::]:0")
		client := must(Dial("udp", netip.AddrPortFrom(netip.MustParseAddr(host), server.local.Port()).String())).(*PacketConn)
		t.Cleanup(func() { client.Close() })
		check(t, client.SetDeadline(time.Now().Add(20*time.Second)))
		must(client.Write([]byte("x")))
		b := make([]byte, 1)
		_, from, err := server.ReadFrom(b)
		check(t, err)
		must(server.WriteTo(b, from))
		must(client.Read(b))
	}
}

func TestDatagramsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	a, b := packetSocket(t, "udp4", "127.0.0.1:0"), packetSocket(t, "udp4", "127.0.0.1:0")
	acquaint(t, a, b)
	buf := make([]byte, 100)
	round := func() {
		if _, err := a.WriteToAddrPort(buf, b.local); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.ReadFromAddrPort(buf); err != nil {
			t.Fatal(err)
		}
	}
	least := 1.0
	for try := 0; try < 10 && least > 0; try++ { // other goroutines of the process may allocate
		least = min(least, testing.AllocsPerRun(100, round))
	}
	if least > 0 {
		t.Errorf("%v allocations a datagram", least)
	}
}

// Datagrams wait for the program as long as there is room for them.
func TestDatagramsWaitForTheReader(t *testing.T) {
	a, b := packetSocket(t, "udp4", "127.0.0.1:0"), packetSocket(t, "udp4", "127.0.0.1:0")
	acquaint(t, a, b)
	for i := range datagramReceives {
		must(a.WriteToAddrPort([]byte{byte(i)}, b.local))
	}
	came, buf := make(map[byte]bool), make([]byte, 1)
	for range datagramReceives { // in any order: some may have taken another way
		if _, _, err := b.ReadFromAddrPort(buf); err != nil || came[buf[0]] {
			t.Fatalf("datagram %d behind %d others, %v", buf[0], len(came), err)
		}
		came[buf[0]] = true
	}
}
