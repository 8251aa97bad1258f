// SPDX-License-Identifier: BSD-2-Clause

package ud

import (
	"encoding/binary"

	"verbena/internal/roce"
)

// GRHBytes is the room that a receive buffer needs beyond the payload.
const GRHBytes = 40

// Sizes and constants of IP and UDP headers.
const (
	ipv4Bytes    = 20
	udpBytes     = 8
	ipv4DF       = 0x4000
	protoUDP     = 17
	unknownTTL   = 64 // reported where the system does not
	ipv4Start    = GRHBytes - ipv4Bytes
	ipv4Version  = 0x45
	ipv6Version  = 6 << 28
	trafficShift = 20
)

// networkHeader returns the header of a datagram of udpPayload bytes as the receiver finds it
// before the payload: IPv6 as it stands, IPv4 in the last 20 bytes. The IPv4 header checksum is
// right, because applications tell the two apart by it. Fields that a UDP socket does not show
// (identification, flow label) are zero.
//
// Spec: IBTA annex A17.
func networkHeader(m *roce.Meta, udpPayload int) (b [GRHBytes]byte) {
	ttl := m.HopLimit
	if ttl == 0 {
		ttl = unknownTTL
	}
	if !m.Dst.Is4() {
		src, dst := m.Src.As16(), m.Dst.As16()
		binary.BigEndian.PutUint32(b[0:], ipv6Version|uint32(m.TOS)<<trafficShift)
		binary.BigEndian.PutUint16(b[4:], uint16(udpPayload+udpBytes))
		b[6], b[7] = protoUDP, ttl
		copy(b[8:], src[:])
		copy(b[24:], dst[:])
		return b
	}
	src, dst := m.Src.As4(), m.Dst.As4()
	h := b[ipv4Start:]
	h[0], h[1] = ipv4Version, m.TOS
	binary.BigEndian.PutUint16(h[2:], uint16(udpPayload+udpBytes+ipv4Bytes))
	binary.BigEndian.PutUint16(h[6:], ipv4DF)
	h[8], h[9] = ttl, protoUDP
	copy(h[12:], src[:])
	copy(h[16:], dst[:])
	binary.BigEndian.PutUint16(h[10:], checksum(h))
	return b
}

// The kinds of network header in WC.SL. RoCE has no service level there. UCX tells IPv4 from IPv6
// by the value that ConnectX writes instead.
const (
	slIPv4 = 0xa
	slIPv6 = 0x9
)

func headerKind(m *roce.Meta) uint8 {
	if m.Dst.Is4() {
		return slIPv4
	}
	return slIPv6
}

// checksum is the Internet checksum of an IPv4 header. Source: RFC 791, 3.1.
func checksum(h []byte) uint16 {
	var sum uint32
	for i := 0; i < len(h); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	sum = sum>>16 + sum&0xffff
	return ^uint16(sum>>16 + sum)
}
