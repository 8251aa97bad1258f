// SPDX-License-Identifier: BSD-2-Clause

package ib

import "net/netip"

// GID is a 128-bit global identifier. RoCEv2 GIDs are IP addresses: IPv6 as it
// stands, IPv4 mapped into ::ffff:0:0/96.
//
// Spec: IBTA annex A17.4.3.
type GID [16]byte

// GIDFromAddr returns the GID of an IP address.
func GIDFromAddr(a netip.Addr) GID { return a.As16() }

// Addr returns the IP address of g, IPv4 where g is mapped.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// IsZero reports whether g is the empty entry of a GID table.
func (g GID) IsZero() bool { return g == GID{} }

// IsMulticast reports whether g names a multicast group.
func (g GID) IsMulticast() bool { return g.Addr().IsMulticast() }

// String formats g as eight groups of four hex digits, as ibv_devinfo does.
func (g GID) String() string { return netip.AddrFrom16(g).StringExpanded() }

// GIDType is the RoCE encapsulation of a GID table entry.
type GIDType uint8

// GID types, as ibv_gid_type.
const (
	GIDTypeIB GIDType = iota
	GIDTypeRoCEv1
	GIDTypeRoCEv2
)

func (t GIDType) String() string {
	switch t {
	case GIDTypeIB:
		return "IB"
	case GIDTypeRoCEv1:
		return "RoCE v1"
	case GIDTypeRoCEv2:
		return "RoCE v2"
	}
	return "unknown"
}

// GRH is the routing part of an address: ibv_global_route.
type GRH struct {
	DGID         GID
	FlowLabel    uint32 // 20 bits
	SGIDIndex    uint8
	HopLimit     uint8 // 0 stands for 64
	TrafficClass uint8
}

// AHAttr is an address vector: ibv_ah_attr. RoCE always routes by GRH, so IsGlobal must be set.
type AHAttr struct {
	GRH         GRH
	IsGlobal    bool
	DLID        uint16
	SL          uint8
	SrcPathBits uint8
	StaticRate  uint8
	PortNum     uint8
}
