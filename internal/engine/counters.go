// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/qp"
)

// DeviceCounters sums the counters of one device's queue pairs, past ones included.
type DeviceCounters struct {
	names []string // immutable: those of the machines' counts

	violations [2]atomic.Uint32 // of a P_Key, of a Q_Key

	mu     sync.Mutex
	counts []uint64 // guarded by mu: of those that ended
}

// Violation counts a packet with a wrong Q_Key or else a wrong P_Key, at once: a machine's counts
// are not summed for it.
func (a *DeviceCounters) Violation(qkey bool) {
	i := 0
	if qkey {
		i = 1
	}
	a.violations[i].Add(1)
}

// Violations returns how many packets had a wrong key.
func (a *DeviceCounters) Violations() (pkey, qkey uint32) {
	return a.violations[0].Load(), a.violations[1].Load()
}

// NewDeviceCounters returns the counters of queue pairs whose machines' counts have
// these names.
func NewDeviceCounters(names []string) *DeviceCounters {
	return &DeviceCounters{names: names, counts: make([]uint64, len(names))}
}

func (a *DeviceCounters) add(counts []uint64) {
	a.mu.Lock()
	Accumulate(a.counts, counts)
	a.mu.Unlock()
}

// Accumulate adds counts to a sum.
func Accumulate(sum, counts []uint64) {
	for i, v := range counts {
		sum[i] += v
	}
}

// Counter is a named count.
type Counter struct {
	Name  string
	Value uint64
}

// Counters returns the counts of a device's queue pairs and, for the whole
// process, of packets that reached none and of connection managers.
func (e *Engine) Counters(a *DeviceCounters) []Counter {
	a.mu.Lock()
	sum := slices.Clone(a.counts)
	a.mu.Unlock()
	var one []uint64
	e.conns.each(func(c *Conn) {
		if c.counters != a {
			return
		}
		c.mu.Lock()
		one = c.machine.AppendCounts(one[:0])
		c.mu.Unlock()
		Accumulate(sum, one)
	})
	var out []Counter
	for i, v := range sum {
		out = append(out, Counter{a.names[i], v})
	}
	for _, p := range *e.components.Load() {
		out = p.AppendCounts(a, out)
	}
	out = e.cm.append(out)
	return append(out, Counter{"read_errors", e.readErrors.Load()},
		Counter{"unmapped_bytes", mem.Unplaced()})
}

// PeerLocked returns where packets go by IP; no address of UD and of closed connections. The caller
// has locked the connection.
func (c *Conn) PeerLocked() netip.AddrPort {
	if c.closed {
		return netip.AddrPort{}
	}
	return c.transport.Route().Peer
}

// Look returns the queue pair's attributes, its route, and those counts that are not 0.
func (c *Conn) Look() (ib.QPAttr, Route, []Counter) {
	var a ib.QPAttr
	c.mu.Lock()
	c.machine.Query(&a)
	var r Route
	if !c.closed {
		r = c.transport.Route()
		if m, ok := c.machine.(qp.Flowing); ok && r.Via != "" {
			f := m.Flow()
			r.Flow = &f
		}
	}
	counts := c.machine.AppendCounts(nil)
	c.mu.Unlock()
	var list []Counter
	for i, v := range counts {
		if v != 0 {
			list = append(list, Counter{c.counters.names[i], v})
		}
	}
	return a, r, list
}
