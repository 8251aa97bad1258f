// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
)

// ICRCBytes is the size of the invariant CRC, the last field of every packet.
const ICRCBytes = 4

// Port is the UDP destination port of RoCEv2.
const Port = 4791

// Header bytes that the ICRC covers before BTH.
const (
	maskedLRHBytes = 8 // the LRH that RoCE does not have, as ones
	ipv4Bytes      = 20
	ipv6Bytes      = 40
	udpBytes       = 8
	maxUDPPayload  = 1<<16 - 1 - ipv4Bytes - udpBytes
)

// Pseudo represents the part of IP and UDP that the ICRC of one flow covers: the CRC over
// the masked headers with the lengths and the identification left zero. It is
// made once for a path and direction; it is 8 bytes and safe to copy and share.
//
// Masked to ones, because routers change them: TOS, TTL and header checksum of
// IPv4, traffic class, flow label and hop limit of IPv6, the UDP checksum and
// BTH byte 4 (FECN, BECN). Covered as sent: the lengths, the IPv4
// identification, and Don't Fragment, which is always set.
//
// Spec: IBTA annex A17, CA17-22 (the fields covered) and CA17-7 (Don't Fragment).
type Pseudo struct {
	base uint32
	v6   bool
}

// NewPseudo returns the Pseudo of packets from src to dst, which must be of
// one family; IPv4 addresses mapped into IPv6 count as IPv4. It takes about
// 0.1 µs: keep one for each peer.
func NewPseudo(src, dst netip.Addr, srcPort, dstPort uint16) Pseudo {
	var b [maskedLRHBytes + ipv6Bytes + udpBytes]byte
	src, dst = src.Unmap(), dst.Unmap()
	n := 0
	fill := func(v byte, count int) {
		for range count {
			b[n] = v
			n++
		}
	}
	put := func(v ...byte) { n += copy(b[n:], v) }
	fill(0xff, maskedLRHBytes)
	p := Pseudo{v6: !src.Is4() || !dst.Is4()}
	if p.v6 {
		s, d := src.As16(), dst.As16()
		put(0x6f, 0xff, 0xff, 0xff) // version (4) | traffic class (8) | flow label (20)
		// payload length (16), contributed by Start | next header | hop limit
		put(0, 0, protoUDP, 0xff)
		put(s[:]...)
		put(d[:]...)
	} else {
		s, d := src.As4(), dst.As4()
		// version, IHL | TOS | total length (16), contributed by Start
		put(0x45, 0xff, 0, 0)
		put(0, 0, 0x40, 0)              // identification (16), contributed by Start | DF
		put(0xff, protoUDP, 0xff, 0xff) // TTL | protocol | header checksum
		put(s[:]...)
		put(d[:]...)
	}
	put(byte(srcPort>>8), byte(srcPort), byte(dstPort>>8), byte(dstPort))
	put(0, 0, 0xff, 0xff) // length (16), contributed by Start | checksum
	p.base = updateBytes(0, b[:n])
	return p
}

const protoUDP = 17

// Start returns the CRC over the masked headers of a datagram. Its UDP payload, ICRC included, has
// udpPayloadBytes, and its IPv4 identification is id (IPv6 has none: id is ignored). Next come
// UpdateBTH, Update and Finish.
func (p *Pseudo) Start(udpPayloadBytes int, id uint16) uint32 {
	udp := uint16(udpPayloadBytes + udpBytes)
	if p.v6 {
		return p.base ^ v6Length.contribution(udp)
	}
	total := udp + ipv4Bytes
	return p.base ^ v4UDPLength.contribution(udp) ^ v4TotalLength.contribution(
		total) ^ v4Ident.contribution(id)
}

// UpdateBTH feeds the packet from its first byte: BTH with byte 4 masked, and
// whatever of the packet follows it in b.
func UpdateBTH(state uint32, b []byte) uint32 {
	c := step4(^state, binary.LittleEndian.Uint32(b))
	c = step4(c, binary.LittleEndian.Uint32(b[4:])|maskedByte)
	c = step4(c, binary.LittleEndian.Uint32(b[8:]))
	if len(b) == BTHBytes {
		return ^c
	}
	return crc32.Update(^c, crc32.IEEETable, b[BTHBytes:])
}

// maskedByte stands for byte 4 of BTH: FECN, BECN and reserved bits.
const maskedByte = 0xff

// Update feeds the bytes that follow BTH: extended headers, payload and pad.
func Update(state uint32, b []byte) uint32 {
	return crc32.Update(state, crc32.IEEETable, b)
}

// Finish returns the ICRC once every byte before it is fed.
func Finish(state uint32) uint32 { return state }

// AppendICRC appends an ICRC to b, least significant byte first.
func AppendICRC(b []byte, icrc uint32) []byte {
	return binary.LittleEndian.AppendUint32(b, icrc)
}

// ICRC returns the ICRC of a packet that lies in one piece in b, which ends
// before the ICRC.
func (p *Pseudo) ICRC(b []byte, id uint16) uint32 {
	return Finish(UpdateBTH(p.Start(len(b)+ICRCBytes, id), b))
}

// Seal appends to b, a packet without its ICRC as Packet.Append leaves it, the
// ICRC for identification id.
func (p *Pseudo) Seal(b []byte, id uint16) []byte {
	return AppendICRC(b, p.ICRC(b, id))
}

// VerifyWithID reports whether the ICRC at the end of a UDP payload is right
// for an identification that is known. All 32 bits check.
func (p *Pseudo) VerifyWithID(udpPayload []byte, id uint16) bool {
	diff, ok := p.difference(udpPayload, id)
	return ok && diff == 0
}

// Verify reports whether the ICRC at the end of a UDP payload is right, and for which IPv4
// identification. A UDP socket does not show that. It tries hintID first, with all 32 bits to
// check. Where that fails it solves the identification from the CRC's difference, which 1 in 65,536
// corrupted packets survives. IPv6 has no identification and is compared as it is.
func (p *Pseudo) Verify(udpPayload []byte, hintID uint16) (id uint16, ok bool) {
	diff, ok := p.difference(udpPayload, hintID)
	if !ok || diff == 0 || p.v6 {
		return hintID, ok && diff == 0
	}
	// The CRC is linear. The difference is the effect of the two bytes hintID^id on the register,
	// advanced over all bytes after them. Taken back to where those bytes entered, it is they and
	// nothing else.
	d := retreat(diff, len(udpPayload)-ICRCBytes+v4AfterIdent+2)
	if d>>16 != 0 {
		return 0, false
	}
	return hintID ^ (uint16(d)<<8 | uint16(d)>>8), true
}

// difference returns the ICRC received xor the one computed; ok is false if
// the payload's length is not that of a packet.
func (p *Pseudo) difference(udpPayload []byte, id uint16) (diff uint32, ok bool) {
	n := len(udpPayload) - ICRCBytes
	if n < BTHBytes || n%4 != 0 || len(udpPayload) > maxUDPPayload {
		return 0, false
	}
	return binary.LittleEndian.Uint32(udpPayload[n:]) ^ p.ICRC(udpPayload[:n], id), true
}
