// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"encoding/binary"
	"net/netip"

	"verbena/ib"
)

// DatagramMax is the buffer of a datagram of rdma-core's sockets, headers included.
const DatagramMax = 2048

// Sizes of the headers, by the family of their address.
const (
	udSize4, udSize6   = 8, 24
	udpSize4, udpSize6 = 16, 28
)

// versionOf returns the version of a header for an address.
func versionOf(a netip.Addr) uint8 {
	if a.Is4() {
		return 4
	}
	return 6
}

// appendAddr appends the bytes of an address.
func appendAddr(b []byte, a netip.Addr) []byte { return append(b, a.AsSlice()...) }

// UDHeader precedes the data of a datagram between UD queue pairs, and names the sender.
type UDHeader struct {
	From netip.AddrPort // not an IPv4-mapped address
}

// Size returns the bytes of the header on the wire.
func (h UDHeader) Size() int {
	if h.From.Addr().Is4() {
		return udSize4
	}
	return udSize6
}

// ParseUDHeader reads a header. ok is false if b does not begin with a whole one.
func ParseUDHeader(b []byte) (h UDHeader, rest []byte, ok bool) {
	// version (8) length (8) port (16), then an IPv4 address (32), or the flow (32) and an IPv6
	// address (128)
	if len(b) < udSize4 {
		return h, b, false
	}
	port := binary.BigEndian.Uint16(b[2:])
	switch {
	case b[0] == 4 && b[1] == udSize4:
		h.From = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:])), port)
		return h, b[udSize4:], true
	case b[0] == 6 && b[1] == udSize6 && len(b) >= udSize6:
		h.From = netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:])), port)
		return h, b[udSize6:], true
	}
	return h, b, false
}

// Append appends the bytes of h to b.
func (h UDHeader) Append(b []byte) []byte {
	a := h.From.Addr()
	b = append(b, versionOf(a), byte(h.Size()))
	b = binary.BigEndian.AppendUint16(b, h.From.Port())
	if a.Is6() {
		b = append(b, 0, 0, 0, 0)
	}
	return appendAddr(b, a)
}

// UDPOp is the purpose of a datagram over UDP.
type UDPOp uint8

// Purposes of datagrams over UDP.
const (
	UDPData    UDPOp = 0 // data follows; asks for the number of the peer's queue pair
	UDPControl UDPOp = 7 // the answer, which has the number
)

const udpTag = 0x55555555

// UDPHeader precedes datagrams over UDP, while the peer's queue pair is not known.
type UDPHeader struct {
	Op    UDPOp
	QPN   ib.QPN     // the sender's
	Local netip.Addr // the sender's, which receivers take from the IP header instead
}

// Size returns the bytes of the header on the wire.
func (h UDPHeader) Size() int {
	if h.Local.Is4() {
		return udpSize4
	}
	return udpSize6
}

// ParseUDPHeader reads a header. ok is false if the datagram is not one of a socket of the family
// of the header's address.
func ParseUDPHeader(b []byte) (h UDPHeader, rest []byte, ok bool) {
	// tag (32) version (8) operation (8) length (8) reserved (8) QPN (32) address (32 or 128)
	if len(b) < udpSize4 || binary.BigEndian.Uint32(b) != udpTag {
		return h, b, false
	}
	h.Op = UDPOp(b[5])
	h.QPN = ib.QPN(binary.BigEndian.Uint32(b[8:]) & 0xffffff)
	switch {
	case b[4] == 4 && b[6] == udpSize4:
		h.Local = netip.AddrFrom4([4]byte(b[12:]))
		return h, b[udpSize4:], true
	case b[4] == 6 && b[6] == udpSize6 && len(b) >= udpSize6:
		h.Local = netip.AddrFrom16([16]byte(b[12:]))
		return h, b[udpSize6:], true
	}
	return UDPHeader{}, b, false
}

// Append appends the bytes of h to b.
func (h UDPHeader) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, udpTag)
	b = append(b, versionOf(h.Local), byte(h.Op), byte(h.Size()), 0)
	b = binary.BigEndian.AppendUint32(b, uint32(h.QPN))
	return appendAddr(b, h.Local)
}
