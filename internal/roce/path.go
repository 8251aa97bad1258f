// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"net/netip"

	"verbena/ib"
	wire "verbena/internal/wire/roce"
)

// UDPPort is the destination port of every RoCEv2 packet. Spec: IBTA A17.3.1.
const UDPPort = 4791

// Path is a queue pair's address vector resolved to IP. It does not change once made; a modified
// queue pair gets another.
type Path struct {
	Src, Dst  netip.Addr
	SrcPort   uint16 // flow entropy: the same for the life of the queue pair
	SGIDIndex uint8
	TClass    uint8
	HopLimit  uint8
	FlowLabel uint32
	Pseudo    wire.Pseudo
}

// NewPath resolves an address vector: src is the address of its GID index.
func NewPath(src netip.Addr, srcPort uint16, g *ib.GRH) *Path {
	hop := g.HopLimit
	if hop == 0 {
		hop = 64
	}
	dst := g.DGID.Addr()
	return &Path{
		Src: src, Dst: dst, SrcPort: srcPort, SGIDIndex: g.SGIDIndex,
		TClass: g.TrafficClass, HopLimit: hop, FlowLabel: g.FlowLabel,
		Pseudo: wire.NewPseudo(src, dst, srcPort, UDPPort),
	}
}

// isThatOf reports whether packets of p and q differ in nothing but their queue pairs.
func (p *Path) isThatOf(q *Path) bool {
	return p == q || p.Dst == q.Dst && p.Src == q.Src && p.SrcPort == q.SrcPort &&
		p.TClass == q.TClass && p.HopLimit == q.HopLimit
}

// reaches reports whether a packet came by the path. p may be nil, which no packet comes by.
func (p *Path) reaches(m *Meta) bool { return p != nil && m.Src == p.Dst && m.Dst == p.Src }

// ECN codepoints: the low two bits of a traffic class. Spec: RFC 3168, section 5.
const (
	NotECT  = 0
	ECT0    = 2
	ecnMask = 3
	marked  = 3
)

// WithECN returns the same path with an ECN codepoint. The DSCP stays.
func (p *Path) WithECN(codepoint uint8) *Path {
	q := *p
	q.TClass = p.TClass&^ecnMask | codepoint
	return &q
}

// Meta holds a packet's addresses and marks, which do not stand in its headers.
type Meta struct {
	Src, Dst netip.Addr
	SrcPort  uint16
	TOS      uint8 // IPv4 TOS or IPv6 traffic class; the low two bits are ECN
	HopLimit uint8 // IPv4 TTL or IPv6 hop limit; 0 if the system does not report it
	Long     bool  // the packet came by memory and may be a long one: see Burst.Payload
}

// Packets returns how many packets of the path MTU p stands for, as its sender says.
func (m *Meta) Packets(p *wire.Packet) uint32 {
	if !m.Long {
		return 1
	}
	return StandsFor(p)
}

// StandsFor returns the argument of Burst.StandsFor for a packet that came by memory.
func StandsFor(p *wire.Packet) uint32 { return min(p.ICRC, longPayload) + 1 }

// CE reports whether a router marked the packet: congestion experienced.
func (m *Meta) CE() bool { return m.TOS&ecnMask == marked }
