// SPDX-License-Identifier: BSD-2-Clause

package cm

import "fmt"

// ServiceID names the service that a REQ asks for. Those of IP port spaces are 0x0000000001, the
// protocol and the port.
//
// Spec: IBTA vol. 1, annex A11 (RDMA IP CM service).
type ServiceID uint64

// PortSpace is a space of port numbers: rdma_port_space. The last byte is the
// IP protocol.
type PortSpace uint16

// Port spaces.
const (
	PortSpaceIPoIB PortSpace = 0x0002
	PortSpaceTCP   PortSpace = 0x0106
	PortSpaceUDP   PortSpace = 0x0111
	PortSpaceIB    PortSpace = 0x013f
)

var portSpaceNames = map[PortSpace]string{PortSpaceIPoIB: "IPOIB", PortSpaceTCP: "TCP",
	PortSpaceUDP: "UDP", PortSpaceIB: "IB"}

func (p PortSpace) String() string {
	if s, ok := portSpaceNames[p]; ok {
		return s
	}
	return fmt.Sprintf("port space 0x%04x", uint16(p))
}

// NewServiceID returns the service id of a port.
func NewServiceID(ps PortSpace, port uint16) ServiceID {
	return ServiceID(uint64(ps)<<16 | uint64(port))
}

// PortSpace returns the port space of s, false if s is of none.
func (s ServiceID) PortSpace() (PortSpace, bool) {
	if s>>32 != 0 {
		return 0, false
	}
	_, ok := portSpaceNames[PortSpace(s>>16)]
	return PortSpace(s >> 16), ok
}

// Port returns the port in a service id of a port space.
func (s ServiceID) Port() uint16 { return uint16(s) }

func (s ServiceID) String() string { return fmt.Sprintf("0x%016x", uint64(s)) }
