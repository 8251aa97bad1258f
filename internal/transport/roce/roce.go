// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"

	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/engine"
	"verbena/internal/mem"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/sys/portshare"
	"verbena/internal/sys/udp"
	"verbena/internal/sys/xsk"
	"verbena/internal/transport/frames"
	"verbena/internal/transport/shm"
	wire "verbena/internal/wire/roce"
)

// Options say how a process takes part.
type Options struct {
	Dir  string // where this user's processes meet; empty is rundir.Dir's
	Solo bool   // do without sharing: this process alone has the port
	// NoLocal has packets between queue pairs of this host go through sockets too.
	// Faults and a capture imply it.
	NoLocal bool
	// Congestion is the congestion control of RC.
	Congestion congestion.Algorithm
	// Frames are the interfaces whose packets go past the kernel's IP stack. Faults and a capture
	// do without.
	Frames []portshare.Interface
	// Attach is used where this process is the keeper.
	Attach portshare.Attach
	// LookUp replaces the kernel's tables of routes and neighbours for Frames; nil does not.
	LookUp xsk.LookUp
}

// Transport holds RoCEv2's part of an engine: sockets, rings to other processes of the host, and
// the process's share of port 4791, with its share of the queue pair numbers.
type Transport struct {
	engine.BaseComponent

	// immutable after Component
	eng    *engine.Engine
	member portshare.Member
	solo   bool // processes do not find each other
	rings  *shm.Rings
	// Reorder is the memory of all queue pairs for requests that arrive before their turn.
	Reorder    *mem.Budget
	congestion congestion.Algorithm
	seats      *frames.Set
	lookUp     xsk.LookUp
	framePorts []*framePort

	count counters

	mu      sync.Mutex
	pools   map[netip.Addr]*udp.SourcePool
	sources map[*udp.Source]*source
	overMTU uint64 // bursts that were lost as longer than the MTU allows, by sources that are gone
	opened  map[netip.Addr]*Port
	stopped bool // guarded by mu: no port is added any more

	received map[netip.Addr]bool // guarded by mu: addresses of Listen

	// ours has the addresses of opened, true, and the others of received, false. It is replaced
	// under mu, and read without it for each datagram in a ring.
	ours atomic.Pointer[map[netip.Addr]bool]

	groups groups
	relays relays
	gsi    gsi
	pace   pace // of the queue pairs that send by sockets
}

// counters count packets that never reached a queue pair.
type counters struct {
	malformed [wire.NumMalformed]atomic.Uint64
	badICRC   atomic.Uint64
	unknownQP atomic.Uint64
	badMAD    atomic.Uint64
	badMADKey atomic.Uint64
	paced     atomic.Uint64 // time-outs put off by pace
}

// Component returns the function for engine.Options.Components.
//
// Errors: this user's processes cannot meet in Dir, or all slots are taken.
func Component(o Options) func(*engine.Engine) (engine.Component, error) {
	return func(e *engine.Engine) (engine.Component, error) {
		t := &Transport{
			eng:        e,
			Reorder:    mem.NewBudget(rc.ReorderBytes),
			congestion: o.Congestion,
			opened:     map[netip.Addr]*Port{},
			received:   map[netip.Addr]bool{},
			pools:      map[netip.Addr]*udp.SourcePool{},
			sources:    map[*udp.Source]*source{},
			seats:      frames.Of(e),
			lookUp:     o.LookUp,
		}
		t.ours.Store(&map[netip.Addr]bool{})
		t.groups.members, t.groups.ports = map[group][]*Conn{}, map[group]*Port{}
		d := rules()
		d.Route = t.route
		var err error
		t.member, err = portshare.Join(o.Dir,
			portshare.Options{MADRules: d, OnMAD: t.takeMAD, OnKeeper: t.lostMADs, Solo: o.Solo,
				Attach: o.Attach})
		if err != nil {
			return nil, err
		}
		t.solo = t.member.Meeting(0) == ""
		n := engine.Numbers{Slot: t.member.Slot(), Name: t.member.Name()}
		n.First, n.Last = t.member.QPNRange()
		if e.Capture() == nil { // a capture shows all packets, also those for nobody
			n.Pass = t.pass
		}
		e.Allot(n)
		if o.NoLocal || e.Tapped() { // faults and captures are of packets on the wire
			t.rings = shm.Off(e, n.Slot)
		} else {
			t.rings = shm.Open(e, shm.Config{
				Slot:       n.Slot,
				Path:       t.member.Meeting,
				NewReader:  t.newReader,
				OnEnd:      t.peersEnded,
				Unanswered: t.relays.unanswered,
			})
		}
		if !e.Tapped() {
			if err := t.openFrames(o.Frames); err != nil {
				t.closeFrames()
				return nil, errors.Join(err, t.member.Close())
			}
		}
		return t, nil
	}
}

// Of returns the engine's Transport; the engine has the component.
func Of(e *engine.Engine) *Transport {
	return engine.ComponentOf(e, func(*engine.Engine) *Transport {
		panic("roce: the engine was made without the component")
	})
}

func (t *Transport) pass(numbers iter.Seq[ib.QPN]) {
	var n portshare.Numbers
	for q := range numbers {
		n.Add(q)
	}
	t.member.Pass(&n)
}

// Stop implements engine.Component.
func (t *Transport) Stop() {
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	t.rings.Stop()
	t.closeFrames()
}

// Withdraw implements engine.Component.
func (t *Transport) Withdraw() { t.rings.Withdraw() }

// Close implements engine.Component.
func (t *Transport) Close() error {
	t.mu.Lock()
	for _, p := range t.pools {
		p.Close()
	}
	t.mu.Unlock()
	return t.member.Close()
}

// AppendCounts implements engine.Component.
func (t *Transport) AppendCounts(_ *engine.DeviceCounters, list []engine.Counter) []engine.Counter {
	t.mu.Lock()
	overMTU := t.overMTU
	for u := range t.sources {
		overMTU += u.Counters().TooBig
	}
	t.mu.Unlock()
	frames := t.seats.Counters()
	c := &t.count
	for i := wire.TooShort; i < wire.NumMalformed; i++ {
		list = append(list,
			engine.Counter{Name: "malformed_" + i.String(), Value: c.malformed[i].Load()})
	}
	return t.rings.Count.Append(append(list,
		engine.Counter{Name: "bad_icrc", Value: c.badICRC.Load()},
		engine.Counter{Name: "unknown_qp", Value: c.unknownQP.Load()},
		engine.Counter{Name: "bad_mad", Value: c.badMAD.Load()},
		engine.Counter{Name: "bad_mad_qkey", Value: c.badMADKey.Load()},
		engine.Counter{Name: "over_mtu", Value: overMTU},
		engine.Counter{Name: "kernel_dropped", Value: t.member.Dropped() + frames.KernelDropped},
		engine.Counter{Name: "keeper_dropped", Value: t.member.KeeperDropped()},
		engine.Counter{Name: "paced_timeouts", Value: c.paced.Load()},
		engine.Counter{Name: "xdp_sent", Value: frames.Sent},
		engine.Counter{Name: "xdp_received", Value: frames.Received},
		engine.Counter{Name: "xdp_malformed", Value: frames.Bad}))
}

// Listen makes MADs to a local address arrive. It costs this process no descriptor where
// another one has the port open. It may be called again for the same address.
func (t *Transport) Listen(addr netip.Addr) error {
	if t.eng.Tapped() { // captures and faults have the MADs that are sent, too
		return t.open(addr)
	}
	t.mu.Lock()
	known := t.opened[addr] != nil || t.received[addr]
	t.mu.Unlock()
	if known {
		return t.eng.Closed()
	}
	err := t.member.Receive(addr)
	if errors.Is(err, errors.ErrUnsupported) {
		return t.open(addr)
	}
	if err == nil {
		t.mu.Lock()
		t.received[addr] = true
		t.showOursLocked()
		t.mu.Unlock()
	}
	return err
}

// open makes the engine receive packets to a local address, for queue pairs too. It may be called
// again for the same address.
func (t *Transport) open(addr netip.Addr) error {
	if err := t.eng.Closed(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.opened[addr] != nil {
		return nil
	}
	s, err := t.member.Socket(addr)
	if err != nil {
		return err
	}
	p, err := t.addPort(addr, s, group{}, &division{lanes: engine.AllLanes},
		engine.AllLanes)
	if err == nil {
		t.opened[addr] = p
		t.showOursLocked()
	}
	return err
}

// showOursLocked renews ours.
func (t *Transport) showOursLocked() {
	ours := maps.Clone(t.received)
	for a := range ours {
		ours[a] = false
	}
	for a := range t.opened {
		ours[a] = true
		ours[a.WithZone("")] = true // packets have no zone
	}
	t.ours.Store(&ours)
}

// identify finds the IPv4 identification of a datagram received.
func identify(src netip.AddrPort, dst netip.Addr, b []byte, index uint16) uint16 {
	pseudo := wire.NewPseudo(src.Addr(), dst, src.Port(), roce.UDPPort)
	if id, ok := pseudo.Verify(b, index); ok {
		return id
	}
	return index
}

// addPort starts reading a socket, of a multicast group if k is not zero. It is for queue pairs of
// some Lanes; if not of all, nothing is read yet.
func (t *Transport) addPort(addr netip.Addr, s *udp.Socket, k group, d *division,
	lanes engine.LaneSet) (*Port, error) {
	p := &Port{division: d, roce: t, addr: addr, group: k, raw: s, sock: t.eng.Tap(s, identify),
		rx: udp.NewRxBatch()}
	p.held.Store(lanes != engine.AllLanes)
	if err := t.eng.Poller().Add(s, 0); err != nil {
		engine.Untap(p.sock)
		return nil, fmt.Errorf("roce: read %v: %w", addr, err)
	}
	t.eng.AddInputOf(p, lanes)
	return p, nil
}
