// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"net/netip"

	"verbena/internal/sys/ifwatch"
	"verbena/internal/sys/tcp"
	"verbena/internal/sys/udp"
)

// SourceFor returns the address that datagrams to dst leave from, by the system's routes.
func SourceFor(dst netip.AddrPort) (netip.Addr, error) { return udp.SourceFor(dst) }

// Descriptors returns the number of descriptors that the process may have.
func Descriptors() int { return tcp.Descriptors() }

// InterfaceChange is an event of a network interface.
type InterfaceChange = ifwatch.Change

// InterfaceEvent is a kind of InterfaceChange.
type InterfaceEvent = ifwatch.Event

// Events of network interfaces.
const (
	InterfaceUp       = ifwatch.Up
	InterfaceDown     = ifwatch.Down
	InterfaceGone     = ifwatch.Gone
	InterfaceAddrs    = ifwatch.Addrs
	InterfaceHardware = ifwatch.Hardware
)

// WatchInterfaces calls f with each change of a network interface until stop is called. It fails
// where the system does not report them.
func WatchInterfaces(f func(InterfaceChange)) (stop func(), err error) { return ifwatch.Watch(f) }
