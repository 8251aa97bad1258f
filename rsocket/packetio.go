// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"net"
	"net/netip"
	"syscall"
)

// ReadFrom reads a datagram, and waits while there is none: net.PacketConn. Bytes that b has no
// room for are lost. The address is a *net.UDPAddr.
func (c *PacketConn) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := c.ReadFromAddrPort(b)
	if err != nil {
		return n, nil, err
	}
	return n, net.UDPAddrFromAddrPort(from), nil
}

// Read reads a datagram, and does not return its sender: net.Conn.
func (c *PacketConn) Read(b []byte) (int, error) {
	n, _, err := c.ReadFromAddrPort(b)
	return n, err
}

// ReadFromAddrPort is ReadFrom without an allocation.
func (c *PacketConn) ReadFromAddrPort(b []byte) (n int, from netip.AddrPort, err error) {
	c.readMu.Lock()
	defer c.readMu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err = c.check(&c.reader); err == nil && c.first == nil {
		err = c.wait(&c.reader, c.readable)
	}
	if err != nil {
		return 0, from, c.fail("read", from, err)
	}
	n, from = copy(b, c.first.data), c.first.from
	c.take()
	return n, from, nil
}

// WriteTo sends a datagram to an address, a *net.UDPAddr or an *Addr: net.PacketConn. Datagrams
// that fit no packet of the path go by UDP. The most is 2,020 bytes to IPv6 addresses and 2,032 to
// others.
//
// Errors: EMSGSIZE if the datagram is longer; ENODEV if no RoCE device reaches the address;
// net.ErrWriteToConnected.
func (c *PacketConn) WriteTo(b []byte, addr net.Addr) (int, error) {
	var to netip.AddrPort
	switch a := addr.(type) {
	case *net.UDPAddr:
		if a != nil {
			to = a.AddrPort()
		}
	case *Addr:
		if a != nil {
			to = a.AddrPort
		}
	default:
		return 0, &net.OpError{Op: "write", Net: c.network, Source: c.LocalAddr(), Addr: addr,
			Err: syscall.EINVAL}
	}
	return c.WriteToAddrPort(b, to)
}

// WriteToAddrPort is WriteTo without an allocation.
func (c *PacketConn) WriteToAddrPort(b []byte, to netip.AddrPort) (int, error) {
	if c.remote.IsValid() {
		return 0, c.fail("write", to, net.ErrWriteToConnected)
	}
	return c.write(b, to)
}

// Write sends a datagram to the address of Dial: net.Conn.
func (c *PacketConn) Write(b []byte) (int, error) { return c.write(b, c.remote) }

func (c *PacketConn) write(b []byte, to netip.AddrPort) (int, error) {
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if err := c.send(b, to); err != nil {
		return 0, c.fail("write", to, err)
	}
	return len(b), nil
}

func (c *PacketConn) send(b []byte, to netip.AddrPort) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.check(&c.writer); err != nil {
		return err
	}
	if !to.IsValid() || to.Port() == 0 {
		return syscall.EDESTADDRREQ
	}
	peer, err := c.peerAt(to, true)
	if err != nil {
		return err
	}
	ud := peer.ud
	if !peer.known() || len(ud.header)+len(b) > ud.mtu {
		return c.sendUDP(peer, b)
	}
	if len(ud.free) == 0 {
		c.sending = ud
		if err := c.wait(&c.writer, c.writable); err != nil {
			return err
		}
		if c.peers[to] != peer { // it was forgotten meanwhile
			return c.sendUDP(peer, b)
		}
	}
	return ud.send(peer, b)
}
