// SPDX-License-Identifier: BSD-2-Clause

package xsk

import (
	"encoding/binary"
	"net/netip"

	"verbena/internal/sys/udp"
)

// Lengths of headers.
const (
	ethernetBytes = 14
	ipv4Bytes     = 20
	ipv6Bytes     = 40
	udpBytes      = 8
	// maxHeader is the longest header of a datagram.
	maxHeader = ethernetBytes + ipv6Bytes + udpBytes
)

const (
	etherIPv4    = 0x0800
	etherIPv6    = 0x86dd
	protocolUDP  = 17
	dontFragment = 0x4000
	defaultTTL   = 64
)

// Parse takes a datagram out of an Ethernet frame. Data is a view into the frame. ok is false where
// a length or the IPv4 header's checksum is wrong, and for all but whole UDP datagrams.
//
// ok is false as well for a source address that no host on a link has, such as 127.0.0.1. So it is
// where source and destination are one address. The kernel drops those packets as martians, but has
// not seen the frame.
//
// The UDP checksum is not looked at: see checksumHolds.
func Parse(frame []byte) (m udp.Message, dstPort uint16, ok bool) {
	if len(frame) < ethernetBytes {
		return m, 0, false
	}
	b := frame[ethernetBytes:]
	var src netip.Addr
	switch binary.BigEndian.Uint16(frame[12:]) {
	case etherIPv4:
		if len(b) < ipv4Bytes+udpBytes || b[0] != 0x45 || b[9] != protocolUDP ||
			fold(add(0, b[:ipv4Bytes])) != 0xffff {
			return m, 0, false
		}
		total := int(binary.BigEndian.Uint16(b[2:]))
		fragment := binary.BigEndian.Uint16(b[6:])
		if total < ipv4Bytes+udpBytes || total > len(b) || fragment&^dontFragment != 0 {
			return m, 0, false
		}
		m.ID, m.TOS = binary.BigEndian.Uint16(b[4:]), b[1]
		src, m.Dst = netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:]))
		b = b[ipv4Bytes:total]
	case etherIPv6:
		if len(b) < ipv6Bytes+udpBytes || b[0]>>4 != 6 || b[6] != protocolUDP {
			return m, 0, false
		}
		payload := int(binary.BigEndian.Uint16(b[4:]))
		if payload < udpBytes || payload > len(b)-ipv6Bytes {
			return m, 0, false
		}
		m.TOS = uint8(binary.BigEndian.Uint16(b) >> 4)
		src, m.Dst = netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
		b = b[ipv6Bytes : ipv6Bytes+payload]
	default:
		return m, 0, false
	}
	if src.IsLoopback() || src.IsMulticast() || src.IsUnspecified() || src == broadcast ||
		src.Is4In6() || src == m.Dst {
		return m, 0, false
	}
	size := int(binary.BigEndian.Uint16(b[4:]))
	if size < udpBytes || size > len(b) {
		return m, 0, false
	}
	m.Src = netip.AddrPortFrom(src, binary.BigEndian.Uint16(b))
	m.Data = b[udpBytes:size:size]
	m.SegmentSize = size - udpBytes
	return m, binary.BigEndian.Uint16(b[2:]), true
}

// broadcast is the limited broadcast address. Spec: RFC 919 7.
var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// header holds the headers of a send's datagrams. Only lengths, the IPv4 identification and the
// IPv4 checksum differ from datagram to datagram.
type header struct {
	b [maxHeader]byte
	n int
}

// init makes the header of datagrams to a neighbour.
func (h *header) init(w *Way, src netip.AddrPort, d *udp.Datagrams) {
	copy(h.b[0:], w.Neighbour[:])
	copy(h.b[6:], w.Own[:])
	ttl := d.TTL
	if ttl == 0 {
		ttl = defaultTTL
	}
	ip := h.b[ethernetBytes:]
	dst := d.Dst.Addr().Unmap()
	if dst.Is4() {
		h.n = ethernetBytes + ipv4Bytes + udpBytes
		binary.BigEndian.PutUint16(h.b[12:], etherIPv4)
		ip[0], ip[1] = 0x45, d.TOS
		binary.BigEndian.PutUint16(ip[6:], dontFragment)
		ip[8], ip[9] = ttl, protocolUDP
		from, to := src.Addr().Unmap().As4(), dst.As4()
		copy(ip[12:], from[:])
		copy(ip[16:], to[:])
	} else {
		h.n = maxHeader
		binary.BigEndian.PutUint16(h.b[12:], etherIPv6)
		binary.BigEndian.PutUint32(ip, 6<<28|uint32(d.TOS)<<20)
		ip[6], ip[7] = protocolUDP, ttl
		from, to := src.Addr().As16(), dst.As16()
		copy(ip[8:], from[:])
		copy(ip[24:], to[:])
	}
	u := h.b[h.n-udpBytes:]
	binary.BigEndian.PutUint16(u, src.Port())
	binary.BigEndian.PutUint16(u[2:], d.Dst.Port())
	// The UDP checksum is 0, as a RoCE adapter sends it (IBTA A17.3.1), unless fill computes it.
	binary.BigEndian.PutUint16(u[6:], 0)
}

// set makes the header that of a datagram with so many bytes.
func (h *header) set(payload int, id uint16) {
	ip := h.b[ethernetBytes:]
	binary.BigEndian.PutUint16(h.b[h.n-udpBytes+4:], uint16(udpBytes+payload))
	if h.n == maxHeader {
		binary.BigEndian.PutUint16(ip[4:], uint16(udpBytes+payload))
		return
	}
	binary.BigEndian.PutUint16(ip[2:], uint16(ipv4Bytes+udpBytes+payload))
	binary.BigEndian.PutUint16(ip[4:], id)
	binary.BigEndian.PutUint16(ip[10:], 0)
	binary.BigEndian.PutUint16(ip[10:], ^fold(add(0, ip[:ipv4Bytes])))
}
