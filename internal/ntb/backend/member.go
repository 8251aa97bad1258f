// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"fmt"
	"net/netip"
)

// Slots is how many processes a side of a meeting place has at most.
const Slots = 64

// A Member is a process of a meeting place: which of the two nodes it is of, and which of
// that node's processes it is.
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

// PlaceConfig says how a process joins a meeting place.
type PlaceConfig struct {
	Endpoint Endpoint // of kind Shm
	Slot     int      // which of its side's processes it is
	// SessionBytes is how long the part of its window is that each link has for
	// itself, MemoryBytes the part behind it that all have in common: the application's.
	SessionBytes, MemoryBytes uint64
}
