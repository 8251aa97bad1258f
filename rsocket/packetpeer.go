// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"verbena/ib"
	wire "verbena/internal/wire/rsocket"
	"verbena/verbs"
)

const (
	// peersMax bounds the peers that a socket remembers: any host may send to it.
	peersMax = 65536
	// askAfter is the time for which the number of a silent peer is trusted. Another process may
	// have its port then. The next datagram goes over UDP, and the answer has the number.
	askAfter = time.Second
)

// packetPeer is an address that datagrams go to or have come from over UDP.
type packetPeer struct {
	addr   netip.AddrPort
	ud     *datagramQP
	wanted bool // the program has sent to it
	qpn    ib.QPN
	ah     *verbs.AH // nil: its number is unknown
	asked  time.Time // when it has said its number
}

// known reports whether datagrams go to its queue pair.
func (p *packetPeer) known() bool { return p.ah != nil && time.Since(p.asked) < askAfter }

// heard notes the number of the peer's queue pair.
func (p *packetPeer) heard(qpn ib.QPN) {
	if p.ah == nil {
		ah, err := p.ud.pd.CreateAH(&ib.AHAttr{IsGlobal: true, PortNum: 1,
			GRH: ib.GRH{DGID: ib.GIDFromAddr(p.addr.Addr()), SGIDIndex: p.ud.gidIndex}})
		if err != nil {
			return // datagrams go on over UDP
		}
		p.ah = ah
	}
	p.qpn, p.asked = qpn, time.Now()
}

func (p *packetPeer) udpHeader(op wire.UDPOp) wire.UDPHeader {
	return wire.UDPHeader{Op: op, QPN: p.ud.qp.QPN(), Local: p.ud.local.Addr()}
}

// forget gives the peer's address handle back.
func (p *packetPeer) forget() error {
	if p.ah == nil {
		return nil
	}
	return p.ah.Destroy()
}

// peerAt returns the peer at an address, made if there is none. The caller holds mu.
func (c *PacketConn) peerAt(addr netip.AddrPort, wanted bool) (*packetPeer, error) {
	if p := c.peers[addr]; p != nil {
		p.wanted = p.wanted || wanted
		return p, nil
	}
	if len(c.peers) >= peersMax && !c.forgetOne() {
		return nil, syscall.ENOBUFS
	}
	local := c.local.Addr()
	if local.IsUnspecified() {
		var err error
		if local, err = localAddr(addr); err != nil {
			return nil, err
		}
	}
	ud, err := c.udAt(local)
	if err != nil {
		return nil, err
	}
	p := &packetPeer{addr: addr, ud: ud, wanted: wanted}
	c.peers[addr] = p
	return p, nil
}

// forgetOne makes room by a peer that the program has not sent to, or by one that is silent. It
// looks at a few.
func (c *PacketConn) forgetOne() bool {
	const most = 64
	var found *packetPeer
	looked := 0
	for _, p := range c.peers { // in no order
		if !p.wanted {
			found = p
			break
		}
		if !p.known() {
			found = p
		}
		if looked++; looked == most {
			break
		}
	}
	if found == nil {
		return false
	}
	delete(c.peers, found.addr)
	_ = found.forget() // sends under way have copied its address handle
	return true
}

// answersFrom returns the address from which a peer answers that is dialed at addr: the loopback
// one for an unspecified address, as net.Dial has it, and a zone by its interface's name.
func answersFrom(addr netip.AddrPort) netip.AddrPort {
	a := addr.Addr()
	switch {
	case a == netip.IPv4Unspecified():
		a = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case a.IsUnspecified():
		a = netip.IPv6Loopback()
	default:
		index, err := strconv.Atoi(a.Zone())
		if err != nil {
			return addr
		}
		i, err := net.InterfaceByIndex(index)
		if err != nil {
			return addr // the system refuses it
		}
		a = a.WithZone(i.Name)
	}
	return netip.AddrPortFrom(a, addr.Port())
}

// localAddr returns the address from which the routing table has datagrams to an address sent.
func localAddr(to netip.AddrPort) (netip.Addr, error) {
	probe, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return netip.Addr{}, err
	}
	local := probe.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	return local, probe.Close()
}
