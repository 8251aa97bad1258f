// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"verbena/ib"
	"verbena/internal/core"
	"verbena/internal/engine"
	"verbena/internal/monotime"
	"verbena/internal/sys/entropy"
	transportroce "verbena/internal/transport/roce"
	"verbena/verbs"
)

// manager is the connection manager of this process: its identifiers and devices, the protocols by
// which they connect, and the goroutine that serves them.
//
// The goroutine reads MADs, hands events to identifiers, and runs the timers. A thread that waits
// for an event does so in its place: see turn and waiter.
//
// Lock order: serveMu → ID.mu → manager.mu.
type manager struct {
	// immutable after newManager
	svc     gsi
	ib      *ibManager
	iw      *iwManager
	trp     *trpManager
	ntb     *ntbManager
	servers map[Kind]server // immutable
	bell    *engine.Bell    // rings when the goroutine has something to do
	done    chan struct{}   // closed when the goroutine has ended
	random  func() uint64
	unlink  func() // set by start: ends watchDevices

	due     atomic.Bool  // there is work for serve
	turning atomic.Int32 // threads in turn, which look at due afterwards
	// when serve is to be called next, and until when the goroutine sleeps
	next, planned atomic.Int64

	serveMu sync.Mutex // held by the thread in serve

	mu      sync.Mutex
	ids     map[*ID]struct{}         // guarded by mu; those that are not destroyed
	changed []engine.InterfaceChange // guarded by mu; of deviceEvents, for the goroutine
	// guarded by mu; for the goroutine
	refusals refusals
	refs     int  // guarded by mu; identifiers that are not destroyed
	ended    bool // guarded by mu; no identifier may join any more
	// guarded by mu; link-local addresses as the system wants them
	zoned map[netip.Addr]netip.Addr
	found map[portKey]localAddr // guarded by mu; where addresses were found last

	devMu   sync.Mutex                // held while devices are opened
	devices map[string]*verbs.Context // guarded by devMu
}

var (
	managerMu  sync.Mutex
	theManager *manager // guarded by managerMu
	endTally   func()   // guarded by managerMu; has the engine take theManager's last counts

	// theBell is that of the process's managers, one after the other. It is never taken down: a
	// manager that ends cannot know when the last ring was.
	theBell *engine.Bell // guarded by managerMu
)

// acquireManager returns the process's manager for one more identifier,
// starting it for the first.
func acquireManager() (*manager, error) {
	managerMu.Lock()
	defer managerMu.Unlock()
	if theManager != nil && theManager.join() {
		return theManager, nil
	}
	c, err := anyContext()
	if err != nil {
		return nil, err
	}
	if theBell == nil {
		if theBell, err = engine.NewBell(); err != nil {
			c.Close()
			return nil, err
		}
	}
	m := newManager(transportroce.Of((*core.Context)(c).Engine()),
		(*core.Context)(c).Engine().Slot(),
		c.Info().GUID, theBell)
	m.devices[c.Info().Name] = c
	m.refs = 1
	m.start()
	serving.Store(m)
	theManager, endTally = m, (*core.Context)(c).Engine().CountCM(counterNames(), m.counts)
	(*core.Context)(c).ShowIdentifiers(m.identifiers)
	return m, nil
}

// anyContext opens a device of any kind: all devices of a process share their engine. The process's
// faults may be such as only some kinds can have.
func anyContext() (*verbs.Context, error) {
	c, err := verbs.Open("")
	if !errors.Is(err, syscall.EINVAL) {
		return c, err
	}
	all, _ := verbs.Devices()
	for _, info := range all {
		if c, err := verbs.Open(info.Name); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// newManager returns a manager. slot is the process's slot in shared-memory hubs, which svc need
// not know.
func newManager(svc gsi, slot int, guid ib.GUID, b *engine.Bell) *manager {
	m := &manager{
		svc: svc, bell: b, done: make(chan struct{}), random: entropy.Uint64,
		ids: map[*ID]struct{}{}, devices: map[string]*verbs.Context{},
		zoned: map[netip.Addr]netip.Addr{}, found: map[portKey]localAddr{},
	}
	m.ib, m.iw, m.trp, m.ntb = newIBManager(m, RoCE, svc,
		guid), newIWManager(m), &trpManager{m: m}, newNTBManager(m, slot, guid)
	m.servers = map[Kind]server{RoCE: m.ib, IWARP: m.iw, TRP: m.trp, NTB: m.ntb}
	return m
}

// start begins to serve, once the manager has its first identifier.
func (m *manager) start() {
	m.ib.start()
	m.ntb.start()
	m.unlink = m.watchDevices()
	if s, ok := m.svc.(madSource); ok {
		for _, set := range append([]int{m.bell.FD()}, waiterSets...) {
			_ = s.WatchMADs(set) // without it the engine reads
		}
	}
	go m.run()
}

// join counts one more identifier; false if the manager has ended.
func (m *manager) join() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return false
	}
	m.refs++
	return true
}

// leave counts one less. With the last identifier the manager ends as soon as
// nothing is to be repeated any more.
func (m *manager) leave() {
	m.mu.Lock()
	m.refs--
	m.mu.Unlock()
	m.kick()
}

// kick has serve called: by a thread in turn, else by the goroutine.
func (m *manager) kick() {
	m.due.Store(true)
	if m.turning.Load() == 0 {
		m.bell.Ring()
	}
}

// localLocked returns a local address as sockets need it: a link-local one with its zone.
func (m *manager) localLocked(a netip.Addr) netip.Addr {
	if z, ok := m.zoned[a.WithZone("")]; ok {
		return z
	}
	return a
}

// run serves the protocols until the manager has no identifier and nothing to repeat.
func (m *manager) run() {
	defer close(m.done)
	for {
		more, ended := m.turn(true)
		if ended {
			return
		}
		if more {
			continue
		}
		until := monotime.Time(m.next.Load())
		m.planned.Store(int64(until))
		if !m.due.Load() && m.next.Load() >= int64(until) {
			_, _ = m.bell.Wait(until) // fails if the application has closed the descriptors, slowly
		}
	}
}

// take is turn of a thread that waits for events: it has found that MADs have come. The goroutine
// reads the MADs that turn leaves: the thread may be about to leave with its event.
func (m *manager) take() {
	more, _ := m.turn(false)
	if more || m.due.Load() || m.next.Load() < m.planned.Load() {
		m.bell.Ring() // the goroutine would sleep, or sleep too long
	}
}

// turn reads MADs, and serves the protocols until they have nothing to do. It reports whether there
// may be more MADs. The goroutine may end the manager, and turn then says so.
func (m *manager) turn(mayEnd bool) (more, ended bool) {
	m.turning.Add(1)
	defer m.turning.Add(-1)
	if s, ok := m.svc.(madSource); ok {
		more = s.ReadMADs()
	}
	m.serveMu.Lock()
	defer m.serveMu.Unlock()
	for {
		m.due.Store(false)
		next, busy := m.serve(monotime.Now())
		m.mu.Lock()
		changed := m.changed
		m.changed = nil
		idle := !busy && m.idleLocked()
		m.mu.Unlock()
		if idle && mayEnd && m.end() {
			return false, true
		}
		for _, change := range changed {
			m.deviceChanged(change)
		}
		if !busy { // else identifiers have answered
			m.next.Store(int64(next))
			if idle && !mayEnd {
				m.due.Store(true) // for the goroutine
			}
			return more, false
		}
	}
}

// serve makes every protocol do its due work.
func (m *manager) serve(now monotime.Time) (next monotime.Time, busy bool) {
	next = monotime.Never
	for _, s := range m.servers {
		at, did := s.serve(now)
		next, busy = min(next, at), busy || did
	}
	m.logRefusals()
	return next, busy
}

func (m *manager) idleLocked() bool {
	for _, s := range m.servers {
		if !s.idleLocked() {
			return false
		}
	}
	return m.refs == 0 && len(m.refusals.list) == 0
}

// end releases the manager's resources, unless an identifier joined in the last moment. While
// managerMu is held no other manager begins, which would take the engine's MADs before this one
// gives them up.
func (m *manager) end() bool {
	managerMu.Lock()
	defer managerMu.Unlock()
	m.mu.Lock()
	m.ended = m.idleLocked()
	m.mu.Unlock()
	if !m.ended {
		return false
	}
	if s, ok := m.svc.(madSource); ok {
		for _, set := range append([]int{m.bell.FD()}, waiterSets...) {
			s.UnwatchMADs(set)
		}
	}
	m.ib.stop()
	m.ntb.stop()
	m.unlink()
	if theManager == m {
		theManager = nil
		serving.Store(nil)
		endTally()
	}
	m.devMu.Lock()
	defer m.devMu.Unlock()
	for _, c := range m.devices {
		c.Close()
	}
	clear(m.devices)
	return true
}
