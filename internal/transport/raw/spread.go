// SPDX-License-Identifier: BSD-2-Clause

package raw

import (
	"verbena/internal/engine"
	"verbena/internal/steer"
)

// spread has the work queues of a queue pair, a power of two of them.
type spread struct {
	hash steer.Hash
	to   []*Conn
}

// Receiver is a work queue: a Conn that sends nothing.
type Receiver *Conn

// ReceiverOf returns the work queue of a Conn that this package made.
func ReceiverOf(c *engine.Conn) Receiver { return c.Transport().(*Conn) }

// Spread has the frames of c, which has no flow yet, go to work queues: a power of two of them.
func Spread(c *engine.Conn, h steer.Hash, to []Receiver) {
	s := &spread{hash: h}
	for _, r := range to {
		s.to = append(s.to, r)
	}
	c.Transport().(*Conn).spread = s
}
