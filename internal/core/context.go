// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/engine"
	"verbena/internal/mem"
)

// Context is an open device: ibv_context.
type Context struct {
	// immutable after Open
	info     device.Info
	host     *host
	eng      *engine.Engine
	back     backing
	number   uint32 // of the process
	keys     *mem.Table
	pds      *atomic.Uint32 // last PD number given out
	events   *eventQueue
	log      Log // nil without one
	counters *engine.DeviceCounters

	closed atomic.Bool

	watching sync.Once
	unwatch  func() // set under watching

	mu       sync.Mutex
	qps      map[*QP]struct{}
	leavers  map[leaver]struct{}
	channels map[*CompChannel]struct{}
	buffers  map[*Buffer]struct{} // of the backing's memory
	domains  map[mem.PD]*PD       // not deallocated
	cqs      map[*CQ]struct{}
	srqs     map[*SRQ]struct{}
}

// Open opens a device by name, or with an empty name the first of RoCEv2 whose port is active. opts
// is nil where the caller has none.
func Open(name string, opts *Options) (*Context, error) {
	info, err := device.Find(name)
	if err != nil {
		return nil, err
	}
	h, err := acquireHost(info.Kind, opts)
	if err != nil {
		return nil, err
	}
	counters := h.counters(info)
	back, info, err := h.back(info)
	if err != nil {
		return nil, errors.Join(err, h.release())
	}
	log := logOf(h.log, info.Name)
	c := &Context{info: info, host: h, eng: h.engine, counters: counters, back: back, log: log,
		events: newEventQueue(log), qps: map[*QP]struct{}{}, leavers: map[leaver]struct{}{},
		channels: map[*CompChannel]struct{}{}, buffers: map[*Buffer]struct{}{},
		domains: map[mem.PD]*PD{}, cqs: map[*CQ]struct{}{}, srqs: map[*SRQ]struct{}{},
		number: h.numbers.Add(1)}
	c.keys, c.pds = back.tables()
	h.mu.Lock()
	h.contexts[c] = struct{}{}
	h.mu.Unlock()
	c.logCall("ibv_open_device", nil)
	return c, nil
}

// Close destroys everything created on the context and closes it.
func (c *Context) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.mu.Lock() // objects are added under it, unless closed
	qps, leavers, channels := slices.Collect(maps.Keys(c.qps)),
		slices.Collect(maps.Keys(c.leavers)), slices.Collect(maps.Keys(c.channels))
	c.mu.Unlock()
	if len(qps) > 0 {
		c.eng.TakeArrived()
	}
	for _, q := range qps {
		q.destroy()
	}
	for _, l := range leavers {
		l.leave()
	}
	for _, ch := range channels {
		ch.close()
	}
	c.unwatchPort()
	c.events.close()
	c.host.mu.Lock()
	delete(c.host.contexts, c)
	c.host.mu.Unlock()
	err := errors.Join(c.back.close(c), c.host.release())
	c.logCall("ibv_close_device", err)
	return err
}

// Engine returns the engine that the context runs on.
func (c *Context) Engine() *engine.Engine { return c.eng }

// NumberedQP returns the queue pair of a number in this process, nil if there is none. If several
// QPs stand for an XRC target it returns any.
func (c *Context) NumberedQP(n ib.QPN) *QP {
	q, _ := c.host.numbered.Load(n)
	found, _ := q.(*QP)
	return found
}

// Info returns the device's name, interface and GUID.
func (c *Context) Info() device.Info { return c.info }

// Query returns the device's attributes and limits: ibv_query_device(3).
func (c *Context) Query() ib.DeviceAttr { return c.info.Attr() }

// QueryPort returns the attributes of a port, which count from 1: ibv_query_port(3).
func (c *Context) QueryPort(port int) (ib.PortAttr, error) {
	if err := checkPort(port); err != nil {
		return ib.PortAttr{}, err
	}
	a := c.info.PortAttr()
	c.back.port(&a)
	a.BadPKeyCntr, a.QKeyViolCntr = c.counters.Violations()
	return a, nil
}

// GIDTable returns the entries of a port's GID table that are in use: ibv_query_gid_table(3).
func (c *Context) GIDTable(port int) ([]ib.GIDEntry, error) {
	if err := checkPort(port); err != nil {
		return nil, err
	}
	return c.info.GIDs()
}

// QueryGID returns one entry of a port's GID table, all zero if the entry is not in use:
// ibv_query_gid(3).
func (c *Context) QueryGID(port, index int) (ib.GID, error) {
	if err := checkPort(port); err != nil {
		return ib.GID{}, err
	}
	a := c.info.PortAttr()
	if err := device.CheckRange("index", index, 0, a.GIDTblLen-1); err != nil {
		return ib.GID{}, err
	}
	t, err := c.info.GIDs()
	for _, g := range t {
		if g.Index == index {
			return g.GID, err
		}
	}
	return ib.GID{}, err
}

// QueryPKey returns an entry of a port's P_Key table: ibv_query_pkey(3).
func (c *Context) QueryPKey(port, index int) (ib.PKey, error) {
	if err := checkPort(port); err != nil {
		return 0, err
	}
	return ib.DefaultPKey, device.CheckRange("index", index, 0, 0)
}

// Counters returns the counts of this process on the device: traffic, retries, NAKs. It also
// returns, for all devices, each kind of packet that reached no queue pair.
func (c *Context) Counters() []engine.Counter { return c.eng.Counters(c.counters) }

func checkPort(port int) error { return device.CheckRange("port", port, 1, 1) }

// limits returns the bounds for address vectors and modifications with these attributes. It asks
// the system for the port's addresses only where they matter.
func (c *Context) limits(mask ib.QPAttrMask) (l device.Limits, err error) {
	l = device.Limits{MaxRdAtomic: device.MaxRdAtomic, PKeys: 1, Ports: 1}
	if mask&(ib.QPAV|ib.QPAltPath) != 0 {
		l.GIDs, err = c.info.AddrTable()
		l.Peers = c.back.peers()
	}
	return l, err
}

// listenAt makes the context's UD queue pairs able to use an entry of the GID table. It was not
// there, or was another address, when they became ready.
func (c *Context) listenAt(index int, a netip.Addr) error {
	c.mu.Lock()
	var late []*QP
	for q := range c.qps {
		if q.init.Type == ib.QPTypeUD {
			late = append(late, q)
		}
	}
	c.mu.Unlock()
	for _, q := range late {
		if err := q.listenAt(index, a); err != nil {
			return err
		}
	}
	return nil
}

func (c *Context) alive() error {
	if c.closed.Load() {
		return fail(syscall.EBADF, "context", "is closed")
	}
	return nil
}
