package rdmacm

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"sync"
	"time"

	"verbena/ib"
	"verbena/internal/backdoor"
	"verbena/internal/cm/ibcm"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/verbs"
)

// manager is the connection manager of this process: one protocol agent for
// all identifiers, and the goroutine that serves it.
//
// Whoever has something for the agent takes mu, calls it and kicks the
// goroutine, which alone polls the agent: it sends what is to be sent and takes
// events to identifiers, both without mu. Lock order: ID.mu → manager.mu.
type manager struct {
	// immutable after newManager
	svc    gsi
	ports  *portTable
	wake   chan struct{} // holds a token while the goroutine has something to do
	done   chan struct{} // closed when the goroutine has ended
	random func() uint64
	unlink func() // set by start: ends watchDevices

	mu        sync.Mutex
	agent     *ibcm.Agent               // guarded by mu
	ids       map[*ID]struct{}          // guarded by mu; those that are not destroyed
	removed   []string                  // guarded by mu; interfaces that went away, for the goroutine
	conns     map[ibcm.ConnID]*ID       // guarded by mu
	listeners map[ibcm.ListenerID]*ID   // guarded by mu
	refs      int                       // guarded by mu; identifiers that are not destroyed
	ended     bool                      // guarded by mu; no identifier may join any more
	devices   map[string]*verbs.Context // guarded by devMu
	zoned     map[netip.Addr]netip.Addr // guarded by mu; link-local addresses as the system wants them
	places    map[netip.Addr]place      // guarded by mu; where addresses were found last
	devMu     sync.Mutex                // held while devices are opened
}

var (
	managerMu  sync.Mutex
	theManager *manager // guarded by managerMu
)

// acquireManager returns the process's manager for one more identifier,
// starting it for the first.
func acquireManager() (*manager, error) {
	managerMu.Lock()
	defer managerMu.Unlock()
	if theManager != nil && theManager.join() {
		return theManager, nil
	}
	c, err := verbs.Open("")
	if err != nil {
		return nil, err
	}
	m := newManager(backdoor.Engine(c), c.Info().GUID)
	m.devices[c.Info().Name] = c
	m.refs = 1
	m.start()
	theManager = m
	return m, nil
}

func newManager(svc gsi, guid ib.GUID) *manager {
	m := &manager{
		svc: svc, wake: make(chan struct{}, 1), done: make(chan struct{}), random: cryptoRandom,
		ids: map[*ID]struct{}{}, conns: map[ibcm.ConnID]*ID{}, listeners: map[ibcm.ListenerID]*ID{}, devices: map[string]*verbs.Context{},
		zoned: map[netip.Addr]netip.Addr{}, places: map[netip.Addr]place{},
	}
	m.ports = &portTable{svc: svc, random: m.random, bound: map[serviceID][]*binding{}}
	m.agent = ibcm.New(ibcm.Config{GUID: guid, Slot: uint8(svc.Slot()), Random: m.random, ACKDelay: ackDelay})
	return m
}

// start begins to serve, once the manager has its first identifier.
func (m *manager) start() {
	m.svc.OnMAD(m.handleMAD)
	m.svc.OnLoss(m.handleLoss)
	m.unlink = m.watchDevices()
	go m.run()
}

// ackDelay is how long this side takes to acknowledge, as a time code: the
// device attribute LocalCAAckDelay, 134 ms.
const ackDelay = 15

func cryptoRandom() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand.Read
	return binary.NativeEndian.Uint64(b[:])
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
// the agent has nothing to repeat any more.
func (m *manager) leave() {
	m.mu.Lock()
	m.refs--
	m.mu.Unlock()
	m.kick()
}

func (m *manager) kick() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// handleMAD takes a MAD from the engine.
func (m *manager) handleMAD(meta *roce.Meta, mad []byte) {
	m.mu.Lock()
	path := ibcm.Path{Local: m.localLocked(meta.Dst), Remote: meta.Src}
	m.agent.HandleMAD(monotime.Now(), path, mad)
	m.mu.Unlock()
	m.kick()
}

// handleLoss has unanswered messages repeated at once: MADs may have been lost.
func (m *manager) handleLoss() {
	m.mu.Lock()
	m.agent.Repeat()
	m.mu.Unlock()
	m.kick()
}

// localLocked returns a local address as sockets want it: link-local ones with
// their zone.
func (m *manager) localLocked(a netip.Addr) netip.Addr {
	if z, ok := m.zoned[a.WithZone("")]; ok {
		return z
	}
	return a
}

// run serves the agent until nobody needs it.
func (m *manager) run() {
	defer close(m.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var out []ibcm.Datagram
	var events []ibcm.Event
	for {
		m.mu.Lock()
		m.agent.HandleTimeout(monotime.Now())
		out, events = m.collectLocked(out[:0], events[:0])
		next, timed := m.agent.NextTimeout()
		removed := m.removed
		m.removed = nil
		idle := len(out)+len(events) == 0 && m.idleLocked()
		m.mu.Unlock()
		if idle && m.end() {
			return
		}
		m.send(out)
		for _, ev := range events {
			m.dispatch(ev)
		}
		for _, netdev := range removed {
			m.deviceRemoved(netdev)
		}
		if len(events) > 0 {
			continue // identifiers have answered
		}
		timer.Stop()
		if timed {
			timer.Reset(next.Sub(monotime.Now()))
		}
		select {
		case <-m.wake:
		case <-timer.C:
		}
	}
}

func (m *manager) collectLocked(out []ibcm.Datagram, events []ibcm.Event) ([]ibcm.Datagram, []ibcm.Event) {
	for ev, ok := m.agent.PollEvent(); ok; ev, ok = m.agent.PollEvent() {
		events = append(events, ev)
	}
	return m.outputLocked(out), events
}

func (m *manager) outputLocked(out []ibcm.Datagram) []ibcm.Datagram {
	var d ibcm.Datagram
	for m.agent.PollOutput(&d) {
		out = append(out, d)
	}
	return out
}

// send sends MADs. What cannot be sent is as good as lost: it is repeated.
func (m *manager) send(out []ibcm.Datagram) {
	for i := range out {
		d := &out[i]
		_ = m.svc.SendMAD(d.Path.Local, d.Path.Remote, d.MAD[:])
	}
}

func (m *manager) idleLocked() bool { return m.refs == 0 && m.agent.Pending() == 0 }

// end gives back what the manager held, unless an identifier came in the last
// moment. As long as managerMu is held no other manager begins, which would
// take the engine's MADs before this one gives them up.
func (m *manager) end() bool {
	managerMu.Lock()
	defer managerMu.Unlock()
	m.mu.Lock()
	m.ended = m.idleLocked()
	m.mu.Unlock()
	if !m.ended {
		return false
	}
	m.svc.OnMAD(nil)
	m.svc.OnLoss(nil)
	m.unlink()
	if theManager == m {
		theManager = nil
	}
	m.devMu.Lock()
	defer m.devMu.Unlock()
	for _, c := range m.devices {
		c.Close()
	}
	clear(m.devices)
	return true
}

// command runs f on the agent and sends what comes of it, before it returns: a
// process may end right after it disconnected.
func (m *manager) command(f func(a *ibcm.Agent, now monotime.Time) error) error {
	m.mu.Lock()
	err := f(m.agent, monotime.Now())
	out := m.outputLocked(nil)
	m.mu.Unlock()
	m.send(out)
	m.kick()
	return err
}
