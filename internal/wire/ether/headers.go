// SPDX-License-Identifier: BSD-2-Clause

package ether

import "encoding/binary"

// EtherTypes and protocol numbers.
const (
	TypeIPv4 = 0x0800
	TypeIPv6 = 0x86dd
	typeVLAN = 0x8100
	typeQinQ = 0x88a8

	ProtoTCP = 6
	ProtoUDP = 17
)

const (
	headerBytes = 14
	tagBytes    = 4
	ipv4Bytes   = 20
	ipv6Bytes   = 40
	portBytes   = 4 // the ports, with which TCP and UDP begin

	maxTags       = 2
	maxExtensions = 8 // of IPv6; more are none that a sender needs
)

// Headers are the places of a frame's headers. The zero value is that of a frame without any.
type Headers struct {
	Frame  []byte
	Tagged bool
	VLAN   uint16 // the first tag: priority, DEI and identifier
	Type   uint16 // EtherType, behind the tags
	// L3 is the place of the IPv4 or IPv6 header, 0 if Type is neither or the header is not whole.
	L3 int
	// L4 is the place of the TCP or UDP header, 0 if there is neither. Fragments other than the
	// first have none.
	L4    int
	Proto uint8 // of IP, behind the extensions; valid with L3
}

// Parse finds the headers of a frame. It reports false if the frame is shorter than an Ethernet
// header.
func Parse(frame []byte) (h Headers, ok bool) {
	if len(frame) < headerBytes {
		return Headers{}, false
	}
	h.Frame = frame
	at := headerBytes - 2
	h.Type = binary.BigEndian.Uint16(frame[at:])
	for range maxTags {
		if h.Type != typeVLAN && h.Type != typeQinQ || len(frame) < at+2+tagBytes {
			break
		}
		if !h.Tagged {
			h.Tagged, h.VLAN = true, binary.BigEndian.Uint16(frame[at+2:])
		}
		at += tagBytes
		h.Type = binary.BigEndian.Uint16(frame[at:])
	}
	switch at += 2; h.Type {
	case TypeIPv4:
		h.ipv4(at)
	case TypeIPv6:
		h.ipv6(at)
	}
	return h, true
}

// ipv4 looks at an IPv4 header.
func (h *Headers) ipv4(at int) {
	b := h.Frame[at:]
	if len(b) < ipv4Bytes || b[0]>>4 != 4 {
		return
	}
	n := int(b[0]&15) * 4
	if n < ipv4Bytes || n > len(b) {
		return
	}
	h.L3, h.Proto = at, b[9]
	if binary.BigEndian.Uint16(b[6:])&0x1fff == 0 { // fragment offset
		h.l4(at + n)
	}
}

// ipv6 looks at an IPv6 header and its extensions.
func (h *Headers) ipv6(at int) {
	b := h.Frame[at:]
	if len(b) < ipv6Bytes || b[0]>>4 != 6 {
		return
	}
	h.L3 = at
	next, n := b[6], ipv6Bytes
	for range maxExtensions {
		if !extends(next) {
			break
		}
		if len(b) < n+8 {
			h.Proto = next
			return
		}
		length := (int(b[n+1]) + 1) * 8
		if next == fragment {
			length = 8
			if binary.BigEndian.Uint16(b[n+2:])&0xfff8 != 0 {
				h.Proto = b[n]
				return
			}
		}
		next, n = b[n], n+length
	}
	h.Proto = next
	h.l4(at + n)
}

const fragment = 44

// extends reports whether a next header is an extension of RFC 8200 that may precede TCP and UDP.
func extends(next uint8) bool {
	return next == 0 || next == 43 || next == fragment || next == 60
}

// l4 notes a TCP or UDP header, if its ports are there.
func (h *Headers) l4(at int) {
	if (h.Proto == ProtoTCP || h.Proto == ProtoUDP) && at+portBytes <= len(h.Frame) {
		h.L4 = at
	}
}

// Dst returns the destination address.
func (h *Headers) Dst() []byte { return h.Frame[:6] }

// Src returns the source address.
func (h *Headers) Src() []byte { return h.Frame[6:12] }

// IPv4 returns the IPv4 header without options, nil if there is none.
func (h *Headers) IPv4() []byte {
	if h.L3 == 0 || h.Type != TypeIPv4 {
		return nil
	}
	return h.Frame[h.L3 : h.L3+ipv4Bytes]
}

// IPv6 returns the IPv6 header without extensions, nil if there is none.
func (h *Headers) IPv6() []byte {
	if h.L3 == 0 || h.Type != TypeIPv6 {
		return nil
	}
	return h.Frame[h.L3 : h.L3+ipv6Bytes]
}

// Ports returns the source and destination port of TCP or UDP, in network order; nil if the frame
// has none.
func (h *Headers) Ports() []byte {
	if h.L4 == 0 {
		return nil
	}
	return h.Frame[h.L4 : h.L4+portBytes]
}
