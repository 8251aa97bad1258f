// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"verbena/internal/monotime"
	"verbena/internal/sys/udp"
)

// bell wakes the manager's goroutine. A channel and a timer would start the Go
// runtime's poller, and the runtime ends a process that closes all its
// descriptors, those of the poller too.
type bell struct{ poller *udp.Poller }

func newBell() (*bell, error) {
	p, err := udp.NewPoller()
	if err != nil {
		return nil, err
	}
	return &bell{p}, nil
}

// ring makes the current or the next wait return.
func (b *bell) ring() { b.poller.Wake() }

// wait blocks until the bell rings or the time has come. Only the goroutine calls
// it.
func (b *bell) wait(until monotime.Time) {
	d := monotime.Duration(-1)
	if until != monotime.Never {
		d = max(until.Sub(monotime.Now()), 0)
	}
	b.poller.Wait(d, make([]uint64, 1)) // fails if the application has closed the descriptors, slowly
}
