// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"verbena/internal/cm/ibcm"
	"verbena/internal/monotime"
	"verbena/internal/sys/futex"
)

// leaveTimeout bounds the time of an exit. To release connections takes microseconds, but the
// holder of a lock may wait for another process.
const leaveTimeout = 500 * time.Millisecond

// leaveBatch is the number of connections that are released at a time: the agent does not keep any
// number of messages.
const leaveBatch = 1024

// Leave releases connections and refuses requests, as the kernel does when a process ends. It is
// for a program that is about to end without Destroy, by os.Exit say; its identifiers are not to be
// used any more. Leave does not wait for answers.
func Leave() {
	var done atomic.Bool
	var sleeper futex.Sleeper
	go func() {
		leaveAll()
		done.Store(true)
		sleeper.Wake()
	}()
	for end := time.Now().Add(leaveTimeout); !done.Load() && time.Now().Before(end); {
		sleeper.Wait(time.Until(end))
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

// releaseAll releases all connections. Streams are closed by the system.
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
	all := slices.SortedFunc(maps.Values(b.conns),
		func(x, y *ibConnector) int { return cmp.Compare(x.conn, y.conn) })
	conns := make([]ibcm.ConnID, len(all))
	for i, c := range all {
		conns[i] = c.conn
	}
	b.m.mu.Unlock()
	for some := range slices.Chunk(conns, leaveBatch) {
		_ = b.command(func(a *ibcm.Agent, now monotime.Time) error {
			for _, c := range some {
				a.Destroy(now, c)
			}
			return nil
		})
		b.flushAll()
	}
	_ = b.command(func(a *ibcm.Agent, now monotime.Time) error {
		a.Close(now) // requests that are on their way to the application
		return nil
	})
	b.flushAll()
}

// flushAll waits until there was room for all output, for leaveTimeout at most.
func (b *ibManager) flushAll() {
	for end := time.Now().Add(leaveTimeout); b.flush(nil) && time.Now().Before(end); {
		futex.Sleep(sendPause)
	}
}
