// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"verbena/rdmacm"
)

// PacketConn is a socket of datagrams: a net.PacketConn, and a net.Conn if Dial has made it. It has
// a UDP socket, whose address it has, and a UD queue pair for each local address that it uses:
//
//	program ──first datagrams──► UDP socket ─────► UDP socket of the peer
//	                                                 │ answers with its number
//	program ──later ones───────► UD queue pair ──► UD queue pair
//
// Addresses are those of UDP: *net.UDPAddr.
type PacketConn struct {
	// immutable
	network string
	udp     *net.UDPConn
	local   netip.AddrPort // of udp
	remote  netip.AddrPort // of Dial; else not valid
	channel *rdmacm.EventChannel
	// conditions of wait
	readable, writable, settled func() bool

	readMu  sync.Mutex // serialises readers
	writeMu sync.Mutex // serialises writers

	serving sync.WaitGroup // goroutines of the socket
	ctx     context.Context
	cancel  context.CancelFunc

	waits          // its mu guards the rest; cq is that of the first queue pair
	reader, writer waiter
	gone           bool // the queue pairs may be destroyed
	uds            []*datagramQP
	peers          map[netip.AddrPort]*packetPeer
	first, last    *arrival    // datagrams for the program
	fromUDP        int         // their number that came over UDP
	sending        *datagramQP // whose send slot the writer waits for
}

var (
	_ net.PacketConn = (*PacketConn)(nil)
	_ net.Conn       = (*PacketConn)(nil)
)

// arrival is a datagram that the program has not read yet, or room for one.
type arrival struct {
	next *arrival
	ud   *datagramQP // to which the room is posted again; nil if the datagram came over UDP
	slot uint16      // of ud
	from netip.AddrPort
	data []byte
}

// ListenPacket makes a socket of datagrams at a local address: net.ListenPacket. The network is
// roce, udp, udp4 or udp6. An empty host stands for all local addresses, port 0 for a port that the
// system chooses. The result is a *PacketConn.
//
// Errors: a *net.OpError. It wraps EADDRINUSE if the UDP port is taken, ENODEV if no RoCE device
// has the address.
func ListenPacket(network, address string) (net.PacketConn, error) {
	c, err := listenPacket(network, address)
	if err != nil {
		return nil, opError("listen", network, nil, nil, err)
	}
	return c, nil
}

func listenPacket(name, address string) (*PacketConn, error) {
	n, err := parsePacketNetwork(name)
	if err != nil {
		return nil, err
	}
	all := netip.IPv6Unspecified()
	if n.ip == "ip4" {
		all = netip.IPv4Unspecified()
	}
	addrs, err := n.lookup(context.Background(), address, all.String())
	if err != nil {
		return nil, err
	}
	return newPacketConn(name, addrs[0], netip.AddrPort{})
}

// dialPacket makes a socket for the datagrams of one peer.
func dialPacket(ctx context.Context, name, address string) (*PacketConn, error) {
	n, err := parsePacketNetwork(name)
	if err != nil {
		return nil, err
	}
	addrs, err := n.lookup(ctx, address, "localhost")
	if err != nil {
		return nil, err
	}
	remote := answersFrom(addrs[0])
	local, err := localAddr(remote)
	if err != nil {
		return nil, err
	}
	return newPacketConn(name, netip.AddrPortFrom(local, 0), remote)
}

// newPacketConn binds a socket. remote may be invalid.
func newPacketConn(network string, local, remote netip.AddrPort) (*PacketConn, error) {
	family := "udp"
	if local.Addr().Is4() {
		family = "udp4"
	} else if network == "udp6" || !local.Addr().IsUnspecified() {
		family = "udp6"
	}
	udp, err := net.ListenUDP(family, net.UDPAddrFromAddrPort(local))
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	c := &PacketConn{network: network, udp: udp, remote: remote,
		peers: make(map[netip.AddrPort]*packetPeer)}
	at := udp.LocalAddr().(*net.UDPAddr).AddrPort()
	c.local = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	c.readable = func() bool { return c.first != nil }
	c.writable = func() bool { return len(c.sending.free) > 0 }
	c.settled = func() bool {
		for _, ud := range c.uds {
			if len(ud.free) < datagramSends {
				return false
			}
		}
		return true
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.init(c.progress, func(error) {}, &c.reader, &c.writer)
	c.channel = rdmacm.NewEventChannel()
	c.mu.Lock()
	switch {
	case remote.IsValid(): // its answers may come before the program sends
		_, err = c.peerAt(remote, true)
	case !c.local.Addr().IsUnspecified():
		_, err = c.udAt(c.local.Addr())
	}
	c.mu.Unlock()
	if err != nil {
		return nil, errors.Join(err, c.release())
	}
	c.serving.Go(c.serveUDP)
	return c, nil
}

// LocalAddr returns the address of the UDP socket: a *net.UDPAddr.
func (c *PacketConn) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(c.local) }

// RemoteAddr returns the address that Dial was given, a *net.UDPAddr. It is nil without.
func (c *PacketConn) RemoteAddr() net.Addr {
	if !c.remote.IsValid() {
		return nil
	}
	return net.UDPAddrFromAddrPort(c.remote)
}

// SetDeadline sets both deadlines: net.PacketConn.
func (c *PacketConn) SetDeadline(t time.Time) error {
	return c.fail("set", netip.AddrPort{}, c.setDeadlines(t, &c.reader, &c.writer))
}

// SetReadDeadline sets the time from which reads fail with os.ErrDeadlineExceeded. Zero means
// never.
func (c *PacketConn) SetReadDeadline(t time.Time) error {
	return c.fail("set", netip.AddrPort{}, c.setDeadlines(t, &c.reader))
}

// SetWriteDeadline sets the time from which writes fail with os.ErrDeadlineExceeded. Zero means
// never.
func (c *PacketConn) SetWriteDeadline(t time.Time) error {
	return c.fail("set", netip.AddrPort{}, c.setDeadlines(t, &c.writer))
}

// Close closes the socket. Calls that wait fail with net.ErrClosed. Datagrams that were written are
// sent; those that were not read are lost.
func (c *PacketConn) Close() error {
	c.mu.Lock()
	if !c.waits.close() {
		c.mu.Unlock()
		return c.fail("close", netip.AddrPort{}, net.ErrClosed)
	}
	c.setDeadline(&c.closer, time.Now().Add(closeTime))
	_ = c.wait(&c.closer, c.settled) // sends need no answer, so they complete at once or never
	c.closer.timer.Stop()
	c.gone = true
	c.mu.Unlock()
	return c.fail("close", netip.AddrPort{}, c.release())
}

// release gives back what the socket has. No call that uses it follows.
func (c *PacketConn) release() error {
	c.cancel()
	err := c.udp.Close()
	c.serving.Wait()
	c.mu.Lock()
	c.gone = true
	uds, peers := c.uds, c.peers
	c.mu.Unlock()
	for _, p := range peers {
		err = errors.Join(err, p.forget())
	}
	for _, ud := range uds {
		err = errors.Join(err, ud.destroy())
	}
	c.channel.Close()
	return err
}

// progress takes completions. The caller holds mu.
func (c *PacketConn) progress() {
	if c.gone {
		return
	}
	for _, ud := range c.uds {
		ud.progress()
	}
	c.notify()
}

// deliver queues a datagram for the program. The caller holds mu.
func (c *PacketConn) deliver(a *arrival) {
	a.next = nil
	if c.first == nil {
		c.first = a
	} else {
		c.last.next = a
	}
	c.last = a
	if a.ud == nil {
		c.fromUDP++
	}
}

// take removes the first datagram from the queue. The caller holds mu.
func (c *PacketConn) take() {
	a := c.first
	c.first = a.next
	if a.ud == nil {
		c.fromUDP--
	} else {
		_ = a.ud.post(a) // fails only while the queue pair is in the error state
	}
}

// fail returns the error of a method, as package net has it.
func (c *PacketConn) fail(op string, to netip.AddrPort, err error) error {
	if err == nil {
		return nil
	}
	e := &net.OpError{Op: op, Net: c.network, Source: c.LocalAddr(), Err: err}
	if !to.IsValid() {
		to = c.remote
	}
	if to.IsValid() {
		e.Addr = net.UDPAddrFromAddrPort(to)
	}
	return e
}
