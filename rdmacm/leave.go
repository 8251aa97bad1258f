// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"verbena/internal/cm/ibcm"
	"verbena/internal/monotime"
	"verbena/internal/sys/futex"
)

// leaveTimeout bounds how long an exit waits: to say that a connection is over
// takes microseconds, but a lock may be held by who waits for another process.
const leaveTimeout = 500 * time.Millisecond

// leaveBatch is how many connections are released at a time: the agent does not keep
// any number of messages.
const leaveBatch = 1024

// Leave tells the peers of this process that it ends: connections are released,
// requests refused, as the kernel does for what a process leaves behind. It is for
// a program that is about to end without Destroy, by os.Exit say; its identifiers
// are not to be used any more. It does not wait for answers.
func Leave() {
	var done atomic.Bool
	var n futex.Nap
	go func() {
		leaveAll()
		done.Store(true)
		n.End()
	}()
	for end := time.Now().Add(leaveTimeout); !done.Load() && time.Now().Before(end); {
		n.For(time.Until(end))
	}
}

func leaveAll() {
	managerMu.Lock()
	m := theManager
	managerMu.Unlock()
	if m != nil {
		m.releaseAll()
	}
}

// releaseAll tells the peers that this process ends. Streams are the system's to
// close.
func (m *manager) releaseAll() {
	m.mu.Lock()
	ids := make([]*ID, 0, len(m.ids))
	for id := range m.ids {
		ids = append(ids, id)
	}
	m.mu.Unlock()
	for _, b := range []*ibManager{m.ib, m.ntb.ibManager} {
		b.releaseAll()
	}
	for _, id := range ids {
		if c, ok := id.proto.(*trpConnector); ok {
			c.leave()
		}
	}
}

func (b *ibManager) releaseAll() {
	b.m.mu.Lock()
	conns := slices.Sorted(maps.Keys(b.conns))
	b.m.mu.Unlock()
	for some := range slices.Chunk(conns, leaveBatch) {
		_ = b.command(func(a *ibcm.Agent, now monotime.Time) error {
			for _, c := range some {
				a.Destroy(now, c)
			}
			return nil
		})
	}
	_ = b.command(func(a *ibcm.Agent, now monotime.Time) error {
		a.Close(now) // requests that are on their way to the application
		return nil
	})
}
