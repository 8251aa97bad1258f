// SPDX-License-Identifier: BSD-2-Clause

package pcap

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

const (
	protocolTCP = 6
	protocolUDP = 17
	hopLimit    = 64

	ipv4Bytes = 20
	ipv6Bytes = 40
	udpBytes  = 8
	tcpBytes  = 20

	dontFragment = 1 << 14 // of IPv4's flags and fragment offset
)

// Flags of a TCP header.
const (
	tcpFIN = 1 << iota
	tcpSYN
	tcpRST
	tcpPSH
	tcpACK
)

// ErrFamily is returned for a datagram between an IPv4 and an IPv6 address.
var ErrFamily = errors.New("pcap: source and destination are of different address families")

// appendIP appends an IP header for n bytes of payload, of traffic class tc and hop limit hops.
//
//	IPv4  version, header length, TOS, total length | identification, flags and
//	      fragment offset | TTL, protocol, checksum | source | destination
//	IPv6  version, traffic class, flow label | payload length, next header, hop
//	      limit | source | destination
func appendIP(b []byte, from, to netip.Addr, protocol, tc, hops byte, id uint16, n int) ([]byte,
	error) {
	switch {
	case from.Is4() && to.Is4():
		start := len(b)
		b = append(b, 0x45, tc)
		b = binary.BigEndian.AppendUint16(b, uint16(ipv4Bytes+n))
		b = binary.BigEndian.AppendUint16(b, id)
		b = binary.BigEndian.AppendUint16(b, dontFragment)
		b = append(b, hops, protocol, 0, 0)
		b = appendAddr(appendAddr(b, from), to)
		binary.BigEndian.PutUint16(b[start+10:], ^fold(sum(0, b[start:])))
	case from.Is6() && to.Is6():
		b = append(b, 0x60|tc>>4, tc<<4, 0, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(n))
		b = append(b, protocol, hops)
		b = appendAddr(appendAddr(b, from), to)
	default:
		return b, ErrFamily
	}
	return b, nil
}

// appendAddr appends an address. It allocates nothing, unlike AsSlice.
func appendAddr(b []byte, a netip.Addr) []byte {
	if a.Is4() {
		four := a.As4()
		return append(b, four[:]...)
	}
	all := a.As16()
	return append(b, all[:]...)
}

// size returns the number of bytes of a payload.
func size(payload [][]byte) (n int) {
	for _, piece := range payload {
		n += len(piece)
	}
	return n
}

// appendUDP appends a datagram with size bytes of payload, IP header included. The checksum is 0 in
// IPv4, as RoCEv2 leaves it, and computed in IPv6, where readers report 0 as a fault.
func appendUDP(b []byte, d *Datagram, payload [][]byte, size int) ([]byte, error) {
	from, to, hops := bare(d.Src), bare(d.Dst), d.HopLimit
	if hops == 0 {
		hops = hopLimit
	}
	n := udpBytes + size
	b, err := appendIP(b, from, to, protocolUDP, d.TrafficClass, hops, d.IPID, n)
	if err != nil {
		return b, err
	}
	start := len(b)
	b = binary.BigEndian.AppendUint16(b, d.Src.Port())
	b = binary.BigEndian.AppendUint16(b, d.Dst.Port())
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	b = append(b, 0, 0)
	for _, piece := range payload {
		b = append(b, piece...)
	}
	if from.Is6() {
		check := transportChecksum(from, to, protocolUDP, b[start:])
		if check == 0 { // 0 says that there is none
			check = 0xffff
		}
		binary.BigEndian.PutUint16(b[start+6:], check)
	}
	return b, nil
}

// appendTCP appends a segment with size bytes of payload, IP header included.
func appendTCP(b []byte, s *Segment, payload [][]byte, size int) ([]byte, error) {
	from, to := bare(s.Src), bare(s.Dst)
	b, err := appendIP(b, from, to, protocolTCP, 0, hopLimit, 0, tcpBytes+size)
	if err != nil {
		return b, err
	}
	start := len(b)
	b = binary.BigEndian.AppendUint16(b, s.Src.Port())
	b = binary.BigEndian.AppendUint16(b, s.Dst.Port())
	b = binary.BigEndian.AppendUint32(b, s.Seq)
	b = binary.BigEndian.AppendUint32(b, s.Ack)
	b = append(b, tcpBytes/4<<4, s.flags(size > 0))
	b = append(b, 0xff, 0xff, 0, 0, 0, 0) // window, checksum, urgent pointer
	for _, piece := range payload {
		b = append(b, piece...)
	}
	binary.BigEndian.PutUint16(b[start+16:], transportChecksum(from, to, protocolTCP, b[start:]))
	return b, nil
}

func (s *Segment) flags(push bool) (f byte) {
	for _, set := range []struct {
		is  bool
		bit byte
	}{{s.FIN, tcpFIN}, {s.SYN, tcpSYN}, {s.RST, tcpRST}, {push, tcpPSH}, {s.HasAck, tcpACK}} {
		if set.is {
			f |= set.bit
		}
	}
	return f
}

// bare returns an address as a frame carries it.
func bare(a netip.AddrPort) netip.Addr { return a.Addr().Unmap().WithZone("") }

// transportChecksum returns the checksum of a UDP datagram or a TCP segment, with
// the pseudo-header of its addresses.
func transportChecksum(from, to netip.Addr, protocol byte, b []byte) uint16 {
	var room [2 * 16]byte
	addrs := appendAddr(appendAddr(room[:0], from), to)
	return ^fold(sum(sum(uint64(protocol)+uint64(len(b)), addrs), b))
}

// sum adds the 16-bit words of b. A byte left over is the upper half of one.
func sum(s uint64, b []byte) uint64 {
	for ; len(b) > 1; b = b[2:] {
		s += uint64(binary.BigEndian.Uint16(b))
	}
	if len(b) > 0 {
		s += uint64(b[0]) << 8
	}
	return s
}

// fold makes the ones' complement sum of one word out of s.
func fold(s uint64) uint16 {
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}
