// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"verbena/ib"
)

// MaxCounters bounds the values of a Counters.
const MaxCounters = 256

// Counters counts the frames of flows: ibv_counters.
type Counters struct {
	ctx   *Context
	users atomic.Int32 // flows that were made with it; -1 once destroyed

	mu     sync.Mutex
	points []counterPoint      // guarded by mu: for flows that are made with it
	bound  []boundPoint        // guarded by mu: of flows
	past   [MaxCounters]uint64 // guarded by mu: of flows that are gone
}

// counterPoint is a count, and the value that it is added to.
type counterPoint struct {
	what  ib.CounterKind
	index uint32
}

// boundPoint is a point of a flow, from a count on.
type boundPoint struct {
	counterPoint
	flow *Flow
	base uint64
}

func (p *boundPoint) value() uint64 { return p.flow.flow.Count(p.what) - p.base }

// CreateCounters makes counters without a value: ibv_create_counters(3).
func (c *Context) CreateCounters() (n *Counters, err error) {
	defer func() { c.logCall("ibv_create_counters", err) }()
	if err := c.alive(); err != nil {
		return nil, err
	}
	if !c.hasRaw() {
		return nil, fail(syscall.EOPNOTSUPP, "counters", "devices of kind %v have no flows",
			c.info.Kind)
	}
	return &Counters{ctx: c}, nil
}

// Attach adds a count to a value: ibv_attach_counters_point_flow(3). Without a flow it is of those
// that are made with the counters.
func (n *Counters) Attach(what ib.CounterKind, index uint32, flow *Flow) (err error) {
	defer func() { n.ctx.logCall("ibv_attach_counters_point_flow", err, "index", index) }()
	switch {
	case what > ib.CounterBytes:
		return fail(syscall.ENOTSUP, "what", "%d: CounterPackets or CounterBytes", what)
	case index >= MaxCounters:
		return invalid("index", "%d: must be below %d", index, MaxCounters)
	case flow != nil && (flow.qp.ctx != n.ctx || flow.gone.Load()):
		return invalid("flow", "must be one of this context")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := counterPoint{what, index}
	switch {
	case n.users.Load() < 0:
		return invalid("Counters", "was destroyed")
	case flow != nil:
		if !flow.counted(n) {
			return invalid("flow", "was destroyed")
		}
		n.bound = append(n.bound, boundPoint{p, flow, flow.flow.Count(what)})
	case n.users.Load() > 0:
		return fail(syscall.EBUSY, "Counters", "a flow was made with it")
	default:
		n.points = append(n.points, p)
	}
	return nil
}

// bind begins to count a new flow.
func (n *Counters) bind(f *Flow) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.points {
		n.bound = append(n.bound, boundPoint{p, f, 0})
	}
}

// leave keeps the counts of a flow that is gone.
func (n *Counters) leave(f *Flow) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bound = slices.DeleteFunc(n.bound, func(p boundPoint) bool {
		if p.flow != f {
			return false
		}
		n.past[p.index] += p.value()
		return true
	})
}

// Read stores the values: ibv_read_counters(3).
func (n *Counters) Read(values []uint64) error {
	if len(values) > MaxCounters {
		return invalid("values", "%d: there are up to %d", len(values), MaxCounters)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	copy(values, n.past[:])
	for i := range n.bound {
		if p := &n.bound[i]; int(p.index) < len(values) {
			values[p.index] += p.value()
		}
	}
	return nil
}

// LogRead writes a call of Read.
func (n *Counters) LogRead(err error) { n.ctx.LogQuery("ibv_read_counters", err) }

// Destroy removes the counters: ibv_destroy_counters(3).
func (n *Counters) Destroy() (err error) {
	defer func() { n.ctx.logCall("ibv_destroy_counters", err) }()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.bound) > 0 {
		return fail(syscall.EBUSY, "Counters", "is attached to flows")
	}
	return retire(&n.users, "Counters")
}
