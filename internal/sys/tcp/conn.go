// SPDX-License-Identifier: BSD-2-Clause

package tcp

import (
	"net/netip"
	"sync/atomic"
)

// usualDescriptors is the limit of descriptors where nobody has set one.
const usualDescriptors = 1024

// Conn is a TCP connection, or one under way.
type Conn struct {
	// immutable after Dial or Accept
	desc   int
	remote netip.AddrPort

	local atomic.Pointer[netip.AddrPort] // Dial may leave the choice to the system
}

// FD returns the descriptor.
func (c *Conn) FD() int { return c.desc }

// Remote returns the peer's address.
func (c *Conn) Remote() netip.AddrPort { return c.remote }

// Local returns our address.
func (c *Conn) Local() netip.AddrPort { return *c.local.Load() }

// Listener takes connections.
type Listener struct {
	// immutable after Listen
	desc  int
	local netip.AddrPort

	// of the caller of Accept: closed for a moment where descriptors are short; -1 if there is none
	spare int
}

// FD returns the descriptor.
func (l *Listener) FD() int { return l.desc }

// Local returns the address, with the port that the system chose if it was asked
// to.
func (l *Listener) Local() netip.AddrPort { return l.local }

// Event reports the readiness of one member of a Set.
type Event struct {
	ID       uint64
	Readable bool // or the stream has ended, or failed: a read shows which
	Writable bool // or failed
}

// Interest selects the readiness that a Set reports of a member. It reports failure in
// any case.
type Interest uint8

// Interests.
const (
	WantRead Interest = 1 << iota
	WantWrite
)
