// SPDX-License-Identifier: BSD-2-Clause

package xsk

import (
	"encoding/binary"
	"math/bits"
)

// The ICRC protects RoCE packets, so they have no UDP checksum. Datagrams to other ports have one.

// pseudoSum is the sum of the pseudo header of a UDP datagram of n bytes, by its IP header. The IP
// payload may be longer. Spec: RFC 768, RFC 8200 8.1.
func pseudoSum(ip []byte, n int) uint64 {
	if ip[0]>>4 == 4 {
		return add(protocolUDP+uint64(n), ip[12:20])
	}
	return add(protocolUDP+uint64(n), ip[8:40])
}

// checksumHolds reports whether the UDP checksum of a frame that Parse has accepted is right. It is
// as well where the kernel has left it for an adapter to fill in, with the pseudo header's sum
// there: a sender on the same machine sends such frames, which no cable carries.
func checksumHolds(frame []byte) bool {
	ip := frame[ethernetBytes:]
	u := ip[ipv4Bytes:]
	if ip[0]>>4 == 6 {
		u = ip[ipv6Bytes:]
	}
	u = u[:binary.BigEndian.Uint16(u[4:])]
	pseudo := pseudoSum(ip, len(u))
	switch got := binary.BigEndian.Uint16(u[6:]); {
	case got == 0: // Spec: RFC 8200 8.1 forbids it over IPv6
		return ip[0]>>4 == 4
	case got == fold(pseudo):
		return true
	}
	return fold(add(pseudo, u)) == 0xffff
}

// putChecksum writes the checksum of bytes with that sum. 0 would be none. Spec: RFC 768.
func putChecksum(field []byte, sum uint64) {
	c := ^fold(sum)
	if c == 0 {
		c = 0xffff
	}
	binary.BigEndian.PutUint16(field, c)
}

// add adds bytes to an Internet checksum's sum: words of 64 bits, which fold to those of 16. Spec:
// RFC 1071 2.
func add(s uint64, b []byte) uint64 {
	var carry uint64
	for ; len(b) >= 8; b = b[8:] {
		s, carry = bits.Add64(s, binary.BigEndian.Uint64(b), carry)
	}
	var last [8]byte
	copy(last[:], b)
	s, carry = bits.Add64(s, binary.BigEndian.Uint64(last[:]), carry)
	s, carry = bits.Add64(s, carry, 0)
	return s + carry
}

// fold makes a sum one of 16 bits.
func fold(s uint64) uint16 {
	for s>>16 != 0 {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}
