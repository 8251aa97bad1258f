// SPDX-License-Identifier: BSD-2-Clause

package cm

import (
	"encoding/binary"
	"net/netip"
)

// IPHeaderSize is the length of an IPHeader.
const IPHeaderSize = 36

// IPHeader stands at the start of the private data of a REQ or SIDR_REQ whose service id is of an
// IP port space. It has the addresses that the application connected from and to; the destination
// port is in the service id.
//
// Spec: IBTA vol. 1, annex A11 (RDMA IP CM service).
type IPHeader struct {
	Version uint8      // 0: major and minor, 4 bits each
	Port    uint16     // of the sender
	Src     netip.Addr // both of one family
	Dst     netip.Addr
}

// ParseIPHeader reads an IPHeader and returns the bytes behind it: the private data of the
// application. It fails on a version other than 0 and an IP version that is neither 4 nor 6.
func ParseIPHeader(b []byte) (h IPHeader, rest []byte, ok bool) {
	if len(b) < IPHeaderSize || b[0] != 0 {
		return h, b, false
	}
	h.Port = binary.BigEndian.Uint16(b[2:])
	switch b[1] >> 4 { // IP version 4 | reserved 4
	case 4: // the last four of 16 bytes
		h.Src = netip.AddrFrom4([4]byte(b[16:20]))
		h.Dst = netip.AddrFrom4([4]byte(b[32:36]))
	case 6:
		h.Src = netip.AddrFrom16([16]byte(b[4:20]))
		h.Dst = netip.AddrFrom16([16]byte(b[20:36]))
	default:
		return IPHeader{}, b, false
	}
	return h, b[IPHeaderSize:], true
}

// Append writes the 36 bytes of h.
func (h IPHeader) Append(b []byte) []byte {
	b = append(b, h.Version)
	if h.Src.Is4() && h.Dst.Is4() {
		b = append(b, 4<<4)
		b = binary.BigEndian.AppendUint16(b, h.Port)
		src, dst := h.Src.As4(), h.Dst.As4()
		b = append(append(b, make([]byte, 12)...), src[:]...)
		return append(append(b, make([]byte, 12)...), dst[:]...)
	}
	b = append(b, 6<<4)
	b = binary.BigEndian.AppendUint16(b, h.Port)
	src, dst := h.Src.As16(), h.Dst.As16()
	b = append(b, src[:]...)
	return append(b, dst[:]...)
}
