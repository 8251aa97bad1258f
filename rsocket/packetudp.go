// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	wire "verbena/internal/wire/rsocket"
)

const (
	// waitingMax bounds the datagrams over UDP that wait for the program. More are lost.
	waitingMax = 256
	// udpPause is the time between two reads of a socket that fails, for lack of memory maybe.
	udpPause = 10 * time.Millisecond
)

// sendUDP sends a datagram over UDP: the first to a peer, and those that fit no packet. The caller
// holds mu. The socket's buffer is the kernel's, so the call seldom waits.
func (c *PacketConn) sendUDP(peer *packetPeer, b []byte) error {
	h := peer.udpHeader(wire.UDPData)
	if len(b) > wire.DatagramMax-h.Size() {
		return syscall.EMSGSIZE
	}
	return c.writeUDP(peer, append(h.Append(peer.ud.scratch[:0]), b...))
}

// writeUDP writes a packet with its header.
func (c *PacketConn) writeUDP(peer *packetPeer, packet []byte) error {
	_, err := c.udp.WriteToUDPAddrPort(packet, peer.addr)
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	return err
}

// serveUDP takes the datagrams that come over UDP, until the socket is closed.
func (c *PacketConn) serveUDP() {
	packet := make([]byte, wire.DatagramMax+1)
	for {
		n, from, err := c.udp.ReadFromUDPAddrPort(packet)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			select {
			case <-time.After(udpPause):
			case <-c.ctx.Done():
			}
		case n <= wire.DatagramMax:
			c.takeUDP(netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), packet[:n])
		}
	}
}

func (c *PacketConn) takeUDP(from netip.AddrPort, packet []byte) {
	h, data, ok := wire.ParseUDPHeader(packet)
	if !ok || !c.wants(from) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	peer, err := c.peerAt(from, false)
	if err != nil {
		return // no device reaches it
	}
	if h.Op == wire.UDPData { // each is answered: the answer before may be lost
		answer := peer.udpHeader(wire.UDPControl).Append(peer.ud.scratch[:0])
		_ = c.writeUDP(peer, answer) // the peer asks again
	}
	peer.heard(h.QPN)
	if h.Op == wire.UDPData && c.fromUDP < waitingMax {
		c.deliver(&arrival{from: from, data: bytes.Clone(data)})
		c.notify()
	}
}

// wants reports whether a datagram from an address is for the program: a connected socket takes
// only those of its peer.
func (c *PacketConn) wants(from netip.AddrPort) bool {
	return !c.remote.IsValid() || from == c.remote
}
