// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/cm/ibcm"
	"verbena/internal/core"
	"verbena/internal/engine"
	"verbena/internal/roce"
	"verbena/verbs"
)

// fabric is QP1 without a wire: it takes MADs between the managers of a test. Each manager stands
// for a process with a slot of its own. Queue pairs are real, on the loopback device.
type fabric struct {
	t     *testing.T
	madCh chan func()
	bells []*engine.Bell // of the processes
	// linkSlot is the slot of all of them in shared-memory hubs: this process's.
	linkSlot int

	mu    sync.Mutex
	nodes map[uint16]*process // guarded by mu
	keys  map[service]uint16  // guarded by mu; → slot
	lose  func(mad []byte) bool
}

// process is a gsi of a fabric.
type process struct {
	*manager
	f    *fabric
	slot uint16
	// taken, if not nil, says which addresses somebody else has the UDP port of.
	taken func(netip.Addr) bool
	// full, if not nil, says for each MAD whether there is no room to send it.
	full func() bool

	// guarded by f.mu
	handler func(*roce.Meta, []byte)
	onLoss  func()
	wills   map[uint64]letter
}

type letter struct {
	src, dst netip.Addr
	mad      []byte
}

func newFabric(t *testing.T) *fabric {
	f := &fabric{t: t, madCh: make(chan func(), 1024), nodes: map[uint16]*process{}, keys: map[service]uint16{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for deliver := range f.madCh {
			deliver()
		}
	}()
	// Runs after the cleanup of every process, which waits for its end.
	c, err := verbs.Open("") // the engine of all of them
	check(t, err)
	f.linkSlot = (*core.Context)(c).Engine().Slot()
	t.Cleanup(func() {
		check(t, c.Close())
		close(f.madCh)
		<-done
		for _, b := range f.bells { // nobody rings any more
			b.Close()
		}
	})
	return f
}

// process starts a manager. When the test ends all its identifiers must be
// destroyed, and it must end.
func (f *fabric) process(slot uint16) *process {
	f.t.Helper()
	p := &process{f: f, slot: slot, wills: map[uint64]letter{}}
	f.mu.Lock()
	f.nodes[slot] = p
	f.mu.Unlock()
	b, err := engine.NewBell()
	check(f.t, err)
	f.bells = append(f.bells, b)
	p.manager = newManager(p, f.linkSlot, ib.GUID(slot), b)
	p.manager.join()
	p.manager.start()
	f.t.Cleanup(func() {
		p.leave()
		select {
		case <-p.done:
		case <-time.After(20 * time.Second):
			f.t.Errorf("process %d does not end: %d identifiers, %d connections", slot, p.refs, p.ib.agent.Len())
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(p.wills) > 0 || len(p.ib.ports.bound) > 0 || len(p.ib.conns)+len(p.ib.listeners)+len(p.ids) > 0 {
			f.t.Errorf("process %d left %d wills, ports %v, %d connections, %d listeners, %d identifiers", slot, len(p.wills), p.ib.ports.bound, len(p.ib.conns), len(p.ib.listeners), len(p.ids))
		}
	})
	return p
}

func (p *process) Slot() int           { return int(p.slot) }
func (p *process) Settle()             {} // its peers are told everything at once
func (p *process) ClearWill(id uint64) { p.f.mu.Lock(); delete(p.wills, id); p.f.mu.Unlock() }

func (p *process) OnMAD(h func(*roce.Meta, []byte)) {
	p.f.mu.Lock()
	p.handler = h
	p.f.mu.Unlock()
}

func (p *process) OnLoss(h func()) {
	p.f.mu.Lock()
	p.onLoss = h
	p.f.mu.Unlock()
}

func (p *process) Listen(a netip.Addr) error {
	if p.taken != nil && p.taken(a) {
		return fmt.Errorf("UDP port on %v: %w", a, syscall.EADDRINUSE)
	}
	return nil
}

// service is an id that a process listens for.
type service struct {
	id    uint64
	scope netip.Addr
}

func (p *process) ListenService(id uint64, scope netip.Addr) error {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	for k := range p.f.keys {
		if k.id == id && overlap(k.scope, scope) {
			return fmt.Errorf("service %#x: %w", id, syscall.EADDRINUSE)
		}
	}
	p.f.keys[service{id, scope}] = p.slot
	return nil
}

func (p *process) UnlistenService(id uint64, scope netip.Addr) {
	p.f.mu.Lock()
	delete(p.f.keys, service{id, scope})
	p.f.mu.Unlock()
}

func (p *process) SetWill(id uint64, src, dst netip.Addr, mad []byte) error {
	p.f.mu.Lock()
	p.wills[id] = letter{src, dst, slices.Clone(mad)}
	p.f.mu.Unlock()
	return nil
}

func (p *process) SendMAD(src, dst netip.Addr, mad []byte) error {
	if p.full != nil && p.full() {
		return syscall.EAGAIN
	}
	p.f.send(letter{src, dst, slices.Clone(mad)})
	return nil
}

// send delivers a MAD as package share would.
func (f *fabric) send(l letter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lose != nil && f.lose(l.mad) {
		return
	}
	r := ibcm.RouteOf(l.mad)
	slot := r.Slot
	if r.Target == ibcm.ToListener {
		slot = 1 // the keeper refuses requests for ports without a listener
		for k, s := range f.keys {
			if k.id == uint64(r.ServiceID) && overlap(k.scope, l.dst) {
				slot = s
			}
		}
	}
	for _, p := range f.nodes {
		if p == nil || p.handler == nil || p.slot != slot && r.Target != ibcm.ToAll {
			continue
		}
		h := p.handler
		f.madCh <- func() { h(&roce.Meta{Src: l.src, Dst: l.dst}, l.mad) }
	}
}

// kill ends a process as SIGKILL does: it says nothing more, and its wills are
// sent.
func (p *process) kill() {
	p.f.mu.Lock()
	delete(p.f.nodes, p.slot)
	p.handler = nil
	var wills []letter
	for id, w := range p.wills {
		wills = append(wills, w)
		delete(p.wills, id)
	}
	p.f.mu.Unlock()
	for _, w := range wills {
		p.f.send(w)
	}
}

// testID is an identifier of a process with helpers for tests.
type testID struct {
	*ID
	t  *testing.T
	ch *EventChannel
}

func (p *process) newID(ps PortSpace) *testID {
	p.join()
	ch := NewEventChannel()
	return p.f.own(newID(p.manager, ps, ch), ch)
}

// own destroys an identifier when the test ends, if it has not done so.
func (f *fabric) own(id *ID, ch *EventChannel) *testID {
	f.t.Cleanup(func() {
		if id.QP() != nil {
			check(f.t, id.DestroyQP())
		}
		_ = id.Destroy() // the test may have
	})
	return &testID{ID: id, t: f.t, ch: ch}
}

// want waits for an event of a type.
func (id *testID) want(typ EventType) *Event {
	id.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ev, err := id.ch.Get(ctx)
	if err != nil {
		id.t.Fatalf("waiting for %v: %v", typ, err)
	}
	if ev.Type != typ {
		id.t.Fatalf("%v (%v), want %v", ev.Type, ev.Err, typ)
	}
	return ev
}

// wantGivenUp waits until the peer of a request has given up, and finds that only Accept
// tells so.
func (id *testID) wantGivenUp() {
	id.t.Helper()
	c := id.ID.proto.(*ibConnector)
	for closed := false; !closed; time.Sleep(100 * time.Microsecond) {
		id.mgr.mu.Lock()
		s, err := c.ib.agent.State(c.conn)
		id.mgr.mu.Unlock()
		check(id.t, err)
		closed = s == ibcm.Closed
	}
	if err := id.Accept(&someParam); !errors.Is(err, syscall.ECONNRESET) {
		id.t.Errorf("Accept of what the peer has given up: %v", err)
	}
	if ev := id.ch.TryGet(); ev != nil {
		id.t.Errorf("%v (%v) before Accept", ev.Type, ev.Err)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var (
	loopback4 = netip.MustParseAddr("127.0.0.1")
	anyPort   = netip.AddrPortFrom(loopback4, 0)
)

// resolved returns an identifier that may connect to dst.
func (p *process) resolved(ps PortSpace, dst netip.AddrPort) *testID {
	p.f.t.Helper()
	id := p.newID(ps)
	check(p.f.t, id.ResolveAddr(context.Background(), netip.AddrPort{}, dst))
	id.want(AddrResolved)
	check(p.f.t, id.ResolveRoute())
	id.want(RouteResolved)
	check(p.f.t, id.SetACKTimeout(14)) // short time-waits
	return id
}

// listening returns a listener on a port of its choice.
func (p *process) listening(ps PortSpace, addr netip.Addr) *testID {
	p.f.t.Helper()
	id := p.newID(ps)
	check(p.f.t, id.BindAddr(netip.AddrPortFrom(addr, 0)))
	check(p.f.t, id.Listen(0))
	return id
}

// equipped is an identifier with a queue pair and memory.
type equipped struct {
	*testID
	buf []byte
	mr  *verbs.MR
	cq  *verbs.CQ
}

// equip gives an identifier a queue pair with one receive posted.
func (id *testID) equip(typ ib.QPType) *equipped {
	id.t.Helper()
	e := &equipped{testID: id, buf: make([]byte, 4096)}
	pd, err := id.Verbs().AllocPD()
	check(id.t, err)
	e.cq, err = id.Verbs().CreateCQ(16, nil)
	check(id.t, err)
	e.mr, err = pd.RegMR(e.buf, ib.AccessLocalWrite|ib.AccessRemoteRead|ib.AccessRemoteWrite)
	check(id.t, err)
	id.t.Cleanup(func() {
		check(id.t, e.mr.Dereg())
		check(id.t, e.cq.Destroy())
		check(id.t, pd.Dealloc())
	})
	check(id.t, id.CreateQP(pd, &verbs.QPInitAttr{
		Type: typ, SendCQ: e.cq, RecvCQ: e.cq, Cap: ib.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1},
	}))
	id.t.Cleanup(func() {
		if id.QP() != nil {
			check(id.t, id.DestroyQP())
		}
	})
	_, err = id.QP().PostRecv(verbs.RecvWR{SGList: []ib.SGE{e.mr.SGE(2048, 2048)}})
	check(id.t, err)
	return e
}

// completion polls for one completion.
func (e *equipped) completion() ib.WC {
	e.t.Helper()
	var wc [1]ib.WC
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		n, err := e.cq.Poll(wc[:])
		check(e.t, err)
		if n == 1 {
			return wc[0]
		}
		time.Sleep(10 * time.Microsecond)
	}
	e.t.Fatal("no completion")
	return ib.WC{}
}
