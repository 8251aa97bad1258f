// SPDX-License-Identifier: BSD-2-Clause

package sim

import "encoding/binary"

// frame is an Ethernet frame without its check sequence.
type frame []byte

type mac = [6]byte

// Where an Ethernet frame has its fields, and those of the packet in it.
//
// Spec: IEEE 802.3, clause 3.1.1; RFC 791, section 3.1; RFC 8200, section 3.
const (
	ethernetHeader = 14
	ipv4Header     = 20
	ipv6Header     = 40
	// Preamble, gap and check sequence. Spec: IEEE 802.3, clause 4.4.2.
	frameOverhead = 20 + 4

	etherIPv4, etherIPv6 = 0x0800, 0x86dd
	protoTCP, protoUDP   = 6, 17

	ecnMask = 3 // Spec: RFC 3168, section 5
)

func (f frame) to() mac   { return mac(f[:6]) }
func (f frame) from() mac { return mac(f[6:12]) }

// isGroup reports whether the frame goes to several stations.
func (f frame) isGroup() bool { return f[0]&1 != 0 }

func (f frame) isIPv4() bool {
	return len(f) >= ethernetHeader+ipv4Header && binary.BigEndian.Uint16(f[12:]) == etherIPv4
}

func (f frame) isIPv6() bool {
	return len(f) >= ethernetHeader+ipv6Header && binary.BigEndian.Uint16(f[12:]) == etherIPv6
}

// tos returns the IPv4 type of service or the IPv6 traffic class, 0 of other frames.
func (f frame) tos() uint8 {
	switch ip := f[ethernetHeader:]; {
	case f.isIPv4():
		return ip[1]
	case f.isIPv6():
		return ip[0]<<4 | ip[1]>>4
	}
	return 0
}

// setECN sets the ECN bits of an IP packet.
func (f frame) setECN(bits uint8) {
	switch ip := f[ethernetHeader:]; {
	case f.isIPv4():
		was := binary.BigEndian.Uint16(ip)
		ip[1] = ip[1]&^ecnMask | bits
		// Spec: RFC 1624, section 3, equation 3.
		sum := uint32(^binary.BigEndian.Uint16(ip[10:])) + uint32(^was) +
			uint32(binary.BigEndian.Uint16(ip))
		sum = sum>>16 + sum&0xffff
		sum += sum >> 16
		binary.BigEndian.PutUint16(ip[10:], ^uint16(sum))
	case f.isIPv6():
		ip[1] = ip[1]&^(ecnMask<<4) | bits<<4
	}
}

// ports returns the ports of a UDP or TCP packet that is no later fragment.
func (f frame) ports() (from, to uint16) {
	var next []byte
	var protocol uint8
	switch ip := f[ethernetHeader:]; {
	case f.isIPv4():
		header := int(ip[0]&15) * 4
		const offset = 0x1fff
		if header < ipv4Header || header > len(ip) || binary.BigEndian.Uint16(ip[6:])&offset != 0 {
			return 0, 0
		}
		protocol, next = ip[9], ip[header:]
	case f.isIPv6():
		protocol, next = ip[6], ip[ipv6Header:]
	}
	if protocol != protoTCP && protocol != protoUDP || len(next) < 4 {
		return 0, 0
	}
	return binary.BigEndian.Uint16(next), binary.BigEndian.Uint16(next[2:])
}
