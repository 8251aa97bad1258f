// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"fmt"
	"net/netip"
)

// Slots bounds the processes of a side of a hub.
const Slots = 1024

// A Member is a process of a hub: its side is one of the two nodes, its slot the number among that
// node's processes.
type Member struct{ Side, Slot int }

func (m Member) String() string { return fmt.Sprintf("%d-%d", m.Side, m.Slot) }

// before orders the members of a place.
func (m Member) before(o Member) bool { return m.number() < o.number() }

func (m Member) number() int { return m.Side*Slots + m.Slot }

func memberOf(number int) Member { return Member{number / Slots, number % Slots} }

// A Presence is a member that is there, with the addresses that it says its port
// has.
type Presence struct {
	Member
	Addrs []netip.Addr
}

// PlaceConfig configures a process that joins a hub.
type PlaceConfig struct {
	Endpoint Endpoint // of kind Shm
	Slot     int      // which of its side's processes it is
	// SessionBytes is the length of the part of its window that each link has for itself.
	// MemoryBytes is the length of the part behind it that all share: the application's.
	SessionBytes, MemoryBytes uint64
}
