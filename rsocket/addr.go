// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"net"
	"net/netip"

	"verbena/rdmacm"
)

// Addr is the address of an end of a Conn, or of a Listener.
type Addr struct {
	Kind rdmacm.Kind
	netip.AddrPort
}

// Network returns the name of the kind of devices, which Dial takes.
func (a *Addr) Network() string { return string(a.Kind) }

// network has the devices and addresses for which the name of a network stands.
type network struct {
	kind rdmacm.Kind
	ip   string // of net.Resolver.LookupNetIP
}

var networks = map[string]network{
	"roce":  {rdmacm.RoCE, "ip"},
	"tcp":   {rdmacm.RoCE, "ip"},
	"tcp4":  {rdmacm.RoCE, "ip4"},
	"tcp6":  {rdmacm.RoCE, "ip6"},
	"iwarp": {rdmacm.IWARP, "ip"},
	"trp":   {rdmacm.TRP, "ip"},
	"ntb":   {rdmacm.NTB, "ip"},
}

// packetNetworks are those of datagrams: the service is UD of RoCEv2.
var packetNetworks = map[string]network{
	"roce": {rdmacm.RoCE, "ip"},
	"udp":  {rdmacm.RoCE, "ip"},
	"udp4": {rdmacm.RoCE, "ip4"},
	"udp6": {rdmacm.RoCE, "ip6"},
}

func parseNetwork(name string) (network, error) {
	n, ok := networks[name]
	if !ok {
		return network{}, net.UnknownNetworkError(name)
	}
	return n, nil
}

func parsePacketNetwork(name string) (network, error) {
	n, ok := packetNetworks[name]
	if !ok {
		return network{}, net.UnknownNetworkError(name)
	}
	return n, nil
}
