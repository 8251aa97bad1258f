// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
// #include <netinet/in.h>
import "C"

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"unsafe"
)

var noAddr netip.AddrPort

// addrOf reads a socket address.
//
// Errors: EINVAL for NULL, EAFNOSUPPORT for an address that is not IP.
func addrOf(sa *C.struct_sockaddr) (netip.AddrPort, error) {
	if sa == nil {
		return noAddr, invalid("no address")
	}
	switch sa.sa_family {
	case C.AF_INET:
		in := (*C.struct_sockaddr_in)(unsafe.Pointer(sa))
		ip := *(*[4]byte)(unsafe.Pointer(&in.sin_addr))
		return netip.AddrPortFrom(netip.AddrFrom4(ip), portOf(&in.sin_port)), nil
	case C.AF_INET6:
		in := (*C.struct_sockaddr_in6)(unsafe.Pointer(sa))
		ip := netip.AddrFrom16(*(*[16]byte)(unsafe.Pointer(&in.sin6_addr)))
		if in.sin6_scope_id != 0 && (ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast()) {
			ip = ip.WithZone(zoneName(int(in.sin6_scope_id)))
		}
		return netip.AddrPortFrom(ip, portOf(&in.sin6_port)), nil
	}
	return noAddr, syscall.EAFNOSUPPORT
}

func portOf(p *C.in_port_t) uint16 {
	return binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(p))[:])
}

func setPort(p *C.in_port_t, port uint16) {
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(p))[:], port)
}

// zoneName returns the zone of an interface, or its number if it does not exist.
func zoneName(index int) string {
	if i, err := net.InterfaceByIndex(index); err == nil {
		return i.Name
	}
	return strconv.Itoa(index)
}

// putAddr writes a socket address. An invalid one leaves zeros.
func putAddr(to *C.struct_sockaddr_storage, a netip.AddrPort) {
	switch ip := a.Addr(); {
	case ip.Is4():
		in := (*C.struct_sockaddr_in)(unsafe.Pointer(to))
		in.sin_family = C.AF_INET
		*(*[4]byte)(unsafe.Pointer(&in.sin_addr)) = ip.As4()
		setPort(&in.sin_port, a.Port())
	case ip.Is6():
		in := (*C.struct_sockaddr_in6)(unsafe.Pointer(to))
		in.sin6_family = C.AF_INET6
		*(*[16]byte)(unsafe.Pointer(&in.sin6_addr)) = ip.As16()
		setPort(&in.sin6_port, a.Port())
		if i, err := net.InterfaceByName(ip.Zone()); ip.Zone() != "" && err == nil {
			in.sin6_scope_id = C.uint32_t(i.Index)
		}
	}
}

func (o *cmID) route(route *C.struct_vb_cm_route) error {
	*route = C.struct_vb_cm_route{}
	putAddr(&route.src, o.rdma.LocalAddr())
	putAddr(&route.dst, o.rdma.PeerAddr())
	dev := o.rdma.Verbs()
	if dev == nil {
		return nil
	}
	name := unsafe.Slice((*byte)(unsafe.Pointer(&route.device[0])), len(route.device)-1)
	copy(name, dev.Info().Name)
	r := o.rdma.Route()
	route.port_num, route.gid_index, route.pkey = 1, C.uint8_t(r.SGIDIndex), C.uint16_t(r.PKey)
	route.sgid, route.dgid = C.union_ibv_gid(r.SGID), C.union_ibv_gid(r.DGID)
	route.traffic_class = C.uint8_t(r.TrafficClass)
	// iWARP has no path records. Source: ucma_copy_iw_route in Linux.
	if r.Resolved && !dev.Info().Kind.IsIWARP() {
		route.have_path, route.mtu = 1, C.uint8_t(r.MTU)
		route.packet_life_time = C.uint8_t(r.PacketLifeTime)
	}
	return nil
}
