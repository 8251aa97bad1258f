// SPDX-License-Identifier: BSD-2-Clause

package steer

import (
	"encoding/binary"
	"fmt"

	"verbena/ib"
	"verbena/internal/wire/ether"
)

// matcher is a flow's specs as bytes: of each header the values, cut by their masks. A mask is nil
// without the spec.
type matcher struct {
	eth, ethMask     []byte // destination, source, EtherType
	vlan, vlanMask   uint16
	ipv4, ipv4Mask   []byte // 20 bytes
	ipv6, ipv6Mask   []byte // 40 bytes
	proto            uint8  // of ports: TCP or UDP
	ports, portsMask []byte // source, destination
}

// newMatcher returns the matcher of specs.
//
// Errors: a spec that is not of package ib; two of one header.
func newMatcher(specs []ib.FlowSpec) (m matcher, err error) {
	for i, s := range specs {
		var value, mask *[]byte
		var val, bits []byte
		switch s := s.(type) {
		case ib.FlowSpecEth:
			value, mask, val, bits = &m.eth, &m.ethMask, ethBytes(&s.Val), ethBytes(&s.Mask)
			m.vlan, m.vlanMask = s.Val.VLANTag&s.Mask.VLANTag, s.Mask.VLANTag
		case ib.FlowSpecIPv4:
			value, mask, val, bits = &m.ipv4, &m.ipv4Mask, ipv4Bytes(&s.Val), ipv4Bytes(&s.Mask)
		case ib.FlowSpecIPv6:
			value, mask, val, bits = &m.ipv6, &m.ipv6Mask, ipv6Bytes(&s.Val), ipv6Bytes(&s.Mask)
		case ib.FlowSpecTCP:
			value, mask, val, bits = &m.ports, &m.portsMask, portBytes(s.Val), portBytes(s.Mask)
			m.proto = ether.ProtoTCP
		case ib.FlowSpecUDP:
			value, mask, val, bits = &m.ports, &m.portsMask, portBytes(s.Val), portBytes(s.Mask)
			m.proto = ether.ProtoUDP
		default:
			return m, fmt.Errorf("spec %d is of an unknown type", i)
		}
		if *mask != nil {
			return m, fmt.Errorf("spec %d is the second of its header", i)
		}
		for k := range val {
			val[k] &= bits[k]
		}
		*value, *mask = val, bits
	}
	return m, nil
}

func ethBytes(f *ib.FlowEth) []byte {
	b := append(append(make([]byte, 0, 14), f.DstMAC[:]...), f.SrcMAC[:]...)
	return binary.BigEndian.AppendUint16(b, f.EtherType)
}

func ipv4Bytes(f *ib.FlowIPv4) []byte {
	b := make([]byte, 20)
	b[1], b[8], b[9] = f.TOS, f.TTL, f.Proto
	b[6] = f.Flags << 5 & 0x40 // don't fragment
	b[6] |= f.Flags << 3 & 0x20
	copy(b[12:], f.SrcIP[:])
	copy(b[16:], f.DstIP[:])
	return b
}

func ipv6Bytes(f *ib.FlowIPv6) []byte {
	b := make([]byte, 40)
	binary.BigEndian.PutUint32(b, uint32(f.TrafficClass)<<20|f.FlowLabel&0xfffff)
	b[6], b[7] = f.NextHdr, f.HopLimit
	copy(b[8:], f.SrcIP[:])
	copy(b[24:], f.DstIP[:])
	return b
}

func portBytes(f ib.FlowPorts) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, f.SrcPort), f.DstPort)
}

// matches reports whether a frame has all headers that the specs name, with these values.
func (m *matcher) matches(h *ether.Headers) bool {
	if m.ethMask != nil {
		if m.vlanMask != 0 && (!h.Tagged || h.VLAN&m.vlanMask != m.vlan) {
			return false
		}
		kind := [2]byte{byte(h.Type >> 8), byte(h.Type)}
		if !equal(h.Frame[:12], m.eth[:12], m.ethMask[:12]) ||
			!equal(kind[:], m.eth[12:], m.ethMask[12:]) {
			return false
		}
	}
	return (m.ipv4Mask == nil || equal(h.IPv4(), m.ipv4, m.ipv4Mask)) &&
		(m.ipv6Mask == nil || equal(h.IPv6(), m.ipv6, m.ipv6Mask)) &&
		(m.portsMask == nil || h.Proto == m.proto && equal(h.Ports(), m.ports, m.portsMask))
}

// equal reports whether a header is there and has a value in the bits of a mask.
func equal(header, value, mask []byte) bool {
	if len(header) != len(mask) {
		return false
	}
	for i, bits := range mask {
		if header[i]&bits != value[i] {
			return false
		}
	}
	return true
}

// same reports whether two flows match the same frames.
func (m *matcher) same(o *matcher) bool {
	return m.vlan == o.vlan && m.vlanMask == o.vlanMask && m.proto == o.proto &&
		string(m.eth) == string(o.eth) && string(m.ethMask) == string(o.ethMask) &&
		string(m.ipv4) == string(o.ipv4) && string(m.ipv4Mask) == string(o.ipv4Mask) &&
		string(m.ipv6) == string(o.ipv6) && string(m.ipv6Mask) == string(o.ipv6Mask) &&
		string(m.ports) == string(o.ports) && string(m.portsMask) == string(o.portsMask)
}
