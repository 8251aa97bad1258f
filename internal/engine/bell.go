// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"verbena/internal/monotime"
	"verbena/internal/sys/udp"
)

// Bell wakes a goroutine that waits for a time. A channel and a timer would start the Go runtime's
// poller. The runtime ends a process that closes all its descriptors, those of the poller too.
type Bell struct{ poller *udp.Poller }

// NewBell returns a bell, which is there as long as the process.
func NewBell() (*Bell, error) {
	p, err := udp.NewPoller()
	if err != nil {
		return nil, err
	}
	return &Bell{p}, nil
}

// FD returns the epoll set that Wait waits for, -1 where there is none.
func (b *Bell) FD() int { return b.poller.FD() }

// Close takes down a bell that no thread rings any more.
func (b *Bell) Close() error { return b.poller.Close() }

// Ring makes the current or the next Wait return.
func (b *Bell) Ring() { b.poller.Wake() }

// Wait blocks until the bell rings, a descriptor of the set of FD is ready, or the time has come.
// It reports whether a descriptor is ready. One goroutine may wait. Wait fails, slowly, if the
// application has closed the descriptors.
func (b *Bell) Wait(until monotime.Time) (ready bool, err error) {
	d := monotime.Duration(-1)
	if until != monotime.Never {
		d = max(until.Sub(monotime.Now()), 0)
	}
	var one [1]uint64
	n, err := b.poller.Wait(d, one[:])
	return n > 0, err
}
