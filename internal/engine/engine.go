// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/sys/entropy"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/fdtrack"
	"verbena/internal/sys/portshare"
	"verbena/internal/sys/shmring"
	"verbena/internal/sys/udp"
	wire "verbena/internal/wire/roce"
)

// Options configure an engine.
type Options struct {
	Dir  string // where this user's processes meet; empty is rundir.Dir's
	Solo bool   // do without sharing: this process alone has the port
	// Faults are what happens to everything sent.
	Faults faultcap.Faults
	// NoLocal has packets between queue pairs of this host go through sockets too.
	// Faults and Capture imply it.
	NoLocal bool
	// Capture takes every packet sent and received; nil is none.
	Capture *faultcap.Capture
}

// Engine runs the queue pairs of one process.
type Engine struct {
	// immutable after New
	member  portshare.Member
	faults  faultcap.Faults
	capture *faultcap.Capture
	conns   connTable

	timers *timers
	wire   wireCounters

	inputs   atomic.Pointer[[]input] // those being read; replaced under inputsMu
	inputsMu sync.Mutex

	mu      sync.Mutex
	pools   map[netip.Addr]*udp.SourcePool
	sources map[*udp.Source]*source
	overMTU uint64        // trains that were lost as longer than the MTU allows, by sources that are gone
	streams atomic.Uint64 // taps so far: each has random numbers of its own
	opened  map[netip.Addr]*Port
	tcp     *tcpInput // nil until a stream is wanted
	closed  bool

	trp           *trpInput // guarded by mu; nil until a port is wanted
	trpListeners  trpListeners
	repeatingFINs atomic.Int32 // associations without queue pairs whose FIN is not answered

	ntbs atomic.Pointer[[]*NTB] // links of windows; replaced under inputsMu

	groups groups
	late   lateConns

	onStranger atomic.Pointer[func()] // nil: nobody wants to know

	gsi   gsi
	tally tally

	local local
	bg    background
}

// New starts an engine.
//
// Errors: this user's processes cannot meet in Dir, or all slots are taken.
func New(o Options) (*Engine, error) { return newEngine(o, defaultBackoff) }

func newEngine(o Options, backoff monotime.Duration) (*Engine, error) {
	e := &Engine{faults: o.Faults, capture: o.Capture, timers: newTimers(), opened: map[netip.Addr]*Port{},
		pools: map[netip.Addr]*udp.SourcePool{}, sources: map[*udp.Source]*source{}}
	e.groups.members, e.groups.ports = map[group][]*roceConn{}, map[group]*Port{}
	d := duty()
	d.Route = e.route
	var err error
	if e.member, err = portshare.Join(o.Dir, portshare.Options{Duty: d, OnMAD: e.takeMAD, OnKeeper: e.lostMADs, Solo: o.Solo}); err != nil {
		return nil, err
	}
	lo, hi := e.member.QPNRange()
	e.conns.base = lo &^ (slotQPNs - 1)
	e.conns.limit = min(uint32(hi-e.conns.base)+1, slotQPNs)
	// A process that takes over a slot should not be met by what was sent to the
	// numbers of the last owner, nor by what strangers guess.
	e.conns.order.key, e.conns.next = entropy.Uint64(), rand.Uint32N(slotQPNs)
	if o.Capture == nil { // which shows what comes, whomever it is for
		e.conns.pass = e.member.Pass
		e.conns.tell()
	}
	e.inputs.Store(&[]input{})
	if err := e.bg.open(e, backoff); err != nil {
		e.member.Close()
		return nil, err
	}
	e.local.start(e, o.NoLocal)
	e.bg.start()
	return e, nil
}

// Close stops the engine. Connections must have been closed.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	e.mu.Unlock()
	e.awaitFINs()
	e.bg.stop()
	e.local.close()
	for _, in := range *e.inputs.Load() {
		in.close()
	}
	e.bg.close()
	e.mu.Lock()
	for _, p := range e.pools {
		p.Close()
	}
	e.mu.Unlock()
	return e.member.Close()
}

// arm sets a's timer and sees to it that somebody is awake at that time.
func (e *Engine) arm(a *alarm, when monotime.Time) {
	if e.timers.set(a, when) {
		e.bg.timerMoved(when)
	}
}

// fireDue runs every timer that has come due; a few nanoseconds when none has.
func (e *Engine) fireDue(now monotime.Time) {
	if !e.timers.due(now) {
		return
	}
	for range maxFire {
		a := e.timers.expired(now)
		if a == nil {
			return
		}
		a.ring(now)
	}
}

// maxFire bounds one round of timers so that receiving is not starved.
const maxFire = 256

// Listen makes the engine receive what is sent to a local address. It may be
// called again for the same address.
func (e *Engine) Listen(addr netip.Addr) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fmt.Errorf("engine: closed")
	}
	if e.opened[addr] != nil {
		return nil
	}
	s, err := e.member.Socket(addr)
	if err != nil {
		return err
	}
	p, err := e.addPort(addr, s, group{})
	if err == nil {
		e.opened[addr] = p
	}
	return err
}

// tapped puts faults and capture before a socket where they are asked for.
func (e *Engine) tapped(s *udp.Socket) faultcap.Socket { return e.tappedAs(s, identify) }

// tappedAs is tapped where something else, or nothing, tells the identification
// of what is received.
func (e *Engine) tappedAs(s *udp.Socket, identify func(netip.AddrPort, netip.Addr, []byte, uint16) uint16) faultcap.Socket {
	if e.faults.None() && e.capture == nil {
		return s
	}
	t := faultcap.New(s, faultcap.Options{Faults: e.faults, Stream: e.streams.Add(1), Capture: e.capture, Identify: identify})
	t.Drive()
	return t
}

// identify finds the IPv4 identification of a datagram received.
func identify(src netip.AddrPort, dst netip.Addr, b []byte, index uint16) uint16 {
	pseudo := wire.NewPseudo(src.Addr(), dst, src.Port(), roce.UDPPort)
	if id, ok := pseudo.Verify(b, index); ok {
		return id
	}
	return index
}

// detach ends a tap; its socket is closed by its owner.
func detach(s faultcap.Socket) {
	if t, ok := s.(*faultcap.Tap); ok {
		t.Detach()
	}
}

// addPort starts reading a socket, of a multicast group if k is not zero.
func (e *Engine) addPort(addr netip.Addr, s *udp.Socket, k group) (*Port, error) {
	p := &Port{eng: e, addr: addr, group: k, raw: s, sock: e.tapped(s), rx: udp.NewRxBatch()}
	if err := e.bg.poller.Add(s, 0); err != nil {
		detach(p.sock)
		return nil, err
	}
	e.addInput(p)
	return p, nil
}

// An input is what a transport's packets or bytes come by: a port of RoCEv2, for
// one. Its owner has its descriptor watched by the engine's poller.
type input interface {
	// tryPoll handles what has arrived unless somebody else is at it. With patience,
	// what is owed for it and can wait stays behind for Flush. It never blocks, and
	// returns the number of messages, or busy.
	tryPoll(patience bool) int
	// close ends reading; it waits for who is at it.
	close()
}

// busy says that another thread is reading.
const busy = -1

// addInput has everybody read an input who reads.
func (e *Engine) addInput(in input) {
	e.inputsMu.Lock()
	defer e.inputsMu.Unlock()
	next := append(slices.Clone(*e.inputs.Load()), in)
	e.inputs.Store(&next)
}

// removeInput ends what addInput began, and closes it.
func (e *Engine) removeInput(in input) {
	e.inputsMu.Lock()
	next := slices.DeleteFunc(slices.Clone(*e.inputs.Load()), func(o input) bool { return o == in })
	e.inputs.Store(&next)
	e.inputsMu.Unlock()
	in.close()
}

// Poll makes progress on the caller's thread: it reads what has arrived and
// runs timers that are due. It never blocks. Acknowledgements may stay behind:
// a caller that found no completion calls Flush, one that did returns to the
// application first, whose answer may carry them. It returns how many messages
// it read.
func (e *Engine) Poll() (messages int) { return e.PollFor(1) }

// PollFor is Poll of a caller that has looked at the Board meanwhile: it stands for
// so many polls, at least one.
func (e *Engine) PollFor(polls uint64) (messages int) {
	n := e.bg.polls.Add(polls)
	messages, others := e.local.poll(n, polls)
	if others {
		k := 0
		for _, in := range *e.inputs.Load() {
			k += max(in.tryPoll(true), 0)
		}
		e.local.quiet.Store(k == 0)
		messages += k
	}
	if passed(n, polls, timerPolls) {
		if passed(n, polls, heldPolls) {
			fdtrack.Check()
		}
		e.fireDue(monotime.Now())
	}
	return messages
}

// TakeArrived handles what has arrived: all that other processes of the host have written
// so far, for which it may wait until another thread has handled some of it, and of other
// inputs what they hold unless somebody else is at it.
func (e *Engine) TakeArrived() {
	for _, r := range *e.local.rings.Load() {
		r.readAll()
	}
	for _, in := range *e.inputs.Load() {
		in.tryPoll(false)
	}
}

// heldPolls is how many empty polls pass between looks at whether the descriptors
// are ours still: the background goroutine, which looks more often, may be waiting
// for sockets that are closed.
const heldPolls = 256

// passed reports whether of so many polls, of which the last one has this number,
// one is an every-th.
func passed(last, polls, every uint64) bool { return last/every != (last-polls)/every }

// Board shows a program outside Go that polls by itself when to call PollFor. Its
// memory is there for as long as the process is.
func (e *Engine) Board() *shmring.Board { return e.local.board }

// ShowPatience tells on the Board how often such a program is to call. It is
// called after each PollFor.
func (e *Engine) ShowPatience() {
	e.local.board.Let(e.local.patient() && e.late.n.Load() == 0 && len(e.links()) == 0)
}

// timerPolls is how many empty polls pass between looks at the clock: a poll
// costs well below a microsecond, the finest timer is ten.
const timerPolls = 16

// Wake makes the background goroutine take over at once: the caller is about
// to stop polling and wait for an event.
func (e *Engine) Wake() {
	e.Flush()
	e.bg.kick()
}

// Woken says that the application was given an event that it may be waiting
// for, and has something to do.
func (e *Engine) Woken() { e.bg.woken.Store(true) }
