// SPDX-License-Identifier: BSD-2-Clause

package pcap

import (
	"fmt"
	"net/netip"
)

const (
	maxPayloadBytes = 1<<16 - 1 - ipv4Bytes - udpBytes
	maxSegmentBytes = 1<<16 - 1 - ipv4Bytes - tcpBytes
	maxCommentBytes = 1<<16 - 1
)

// appendDatagram appends the block of a datagram, whose payload may be in pieces.
func appendDatagram(b []byte, d *Datagram, comment string, payload [][]byte) ([]byte, error) {
	n := size(payload)
	if n > maxPayloadBytes {
		return b, tooLarge(n, maxPayloadBytes)
	}
	start := len(b)
	b, err := appendUDP(beginPacket(b, d.Time, ipBytes(d.Src)+udpBytes+n), d, payload, n)
	if err != nil {
		return b[:start], err
	}
	return endPacket(b, start, d.Direction, comment), nil
}

// appendSegment appends the block of a TCP segment, whose payload may be in pieces.
func appendSegment(b []byte, s *Segment, comment string, payload [][]byte) ([]byte, error) {
	n := size(payload)
	if n > maxSegmentBytes {
		return b, tooLarge(n, maxSegmentBytes)
	}
	start := len(b)
	b, err := appendTCP(beginPacket(b, s.Time, ipBytes(s.Src)+tcpBytes+n), s, payload, n)
	if err != nil {
		return b[:start], err
	}
	return endPacket(b, start, s.Direction, comment), nil
}

// ipBytes returns the size of the IP header of a packet from an address.
func ipBytes(a netip.AddrPort) int {
	if bare(a).Is4() {
		return ipv4Bytes
	}
	return ipv6Bytes
}

func tooLarge(n, limit int) error {
	return fmt.Errorf("pcap: payload of %d bytes: a frame holds %d", n, limit)
}
