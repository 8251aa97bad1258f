// SPDX-License-Identifier: BSD-2-Clause

package xsk

// Counters of a Socket, since it was opened.
type Counters struct {
	Sent, Received uint64 // datagrams
	Bad            uint64 // frames received that are no whole datagram for the port
	Blocked        uint64 // writes cut short: too many frames were under way
	Elsewhere      uint64 // datagrams, and bursts of them, that went by the kernel's socket
	KernelDropped  uint64 // frames for which there was no room
}

// Add adds the counts of another Socket.
func (c *Counters) Add(o Counters) {
	c.Sent += o.Sent
	c.Received += o.Received
	c.Bad += o.Bad
	c.Blocked += o.Blocked
	c.Elsewhere += o.Elsewhere
	c.KernelDropped += o.KernelDropped
}
