// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"verbena/ib"
	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/shmring"
	"verbena/internal/sys/udp"
)

// Options configure an engine.
type Options struct {
	// Faults are injected into all sent packets.
	Faults faultcap.Faults
	// Capture takes every packet sent and received; nil is none.
	Capture *faultcap.Capture
	// Components makes the first components, before the background goroutine runs. Others come with
	// ComponentOf.
	Components []func(*Engine) (Component, error)
	// Nap limits how long the background goroutine sleeps while other threads poll; 0 is
	// policy.Nap.
	Nap monotime.Duration
}

// Engine runs the queue pairs of one process.
type Engine struct {
	// immutable after New
	faults  faultcap.Faults
	capture *faultcap.Capture
	slot    int
	name    string
	board   *shmring.Board // shows the rings; nil: nothing does
	conns   connTable
	lanes   [MaxLanes]Lane

	lanesGiven atomic.Uint32
	waitLane   struct {
		once sync.Once
		lane *Lane
	}

	timers     *timers
	readErrors atomic.Uint64

	// all inputs; replaced under inputsMu
	inputs   atomic.Pointer[[]laneInput]
	rings    atomic.Pointer[[]laneRing]
	sleepers atomic.Pointer[[]Sleeper] // inputs that are memory, and no rings
	frames   atomic.Bool               // a ring has the packets of an interface
	hidden   atomic.Int32              // rings and other sleepers that the board does not show
	quiet    atomic.Bool               // the last poll of inputs that are no rings found nothing
	lull     atomic.Bool               // … the last one before a wait
	long     atomic.Int32              // waits that sleep at once: NoteMessage
	inputsMu sync.Mutex

	streams atomic.Uint64 // taps so far: each has random numbers of its own

	mu         sync.Mutex
	components atomic.Pointer[[]Component] // replaced under mu
	closed     bool                        // guarded by mu

	onStranger atomic.Pointer[func()] // nil: not set
	onRound    atomic.Pointer[func()] // nil: not set
	onStir     atomic.Pointer[func()] // nil: not set
	cm         cmCounters
	arrival    arrival
	readToken  ReadToken
	bg         background
}

// New starts an engine.
//
// Errors: those of the components; the system has no descriptor left.
func New(o Options) (*Engine, error) {
	e := &Engine{faults: o.Faults, capture: o.Capture, timers: newTimers()}
	e.makeLanes()
	e.inputs.Store(&[]laneInput{})
	e.rings.Store(&[]laneRing{})
	e.sleepers.Store(&[]Sleeper{})
	e.components.Store(&[]Component{})
	e.conns.allot(Numbers{First: ib.QP1 + 1, Last: ib.QPMulticast - 1})
	nap := o.Nap
	if nap == 0 {
		nap = policy.Nap
	}
	if err := e.bg.open(e, nap); err != nil {
		return nil, err
	}
	for _, make := range o.Components {
		p, err := make(e)
		if err != nil {
			e.stopInputs()
			e.closePollers()
			return nil, errors.Join(err, e.closeComponents())
		}
		e.mu.Lock()
		e.addComponentLocked(p)
		e.mu.Unlock()
	}
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
	for _, p := range *e.components.Load() {
		p.BeforeClose()
	}
	e.closeReadToken()
	e.bg.stop()
	e.stopInputs()
	e.closePollers()
	return e.closeComponents()
}

// stopInputs stops the components, and the inputs that are left then.
func (e *Engine) stopInputs() {
	for _, p := range *e.components.Load() {
		p.Stop()
	}
	for _, in := range *e.inputs.Load() {
		in.Stop()
	}
}

func (e *Engine) closeComponents() (err error) {
	for _, p := range *e.components.Load() {
		err = errors.Join(err, p.Close())
	}
	return err
}

// Withdraw hides this process, which is about to end without Close, from all others.
func (e *Engine) Withdraw() {
	for _, p := range *e.components.Load() {
		p.Withdraw()
	}
}

func (e *Engine) addComponentLocked(p Component) {
	next := append(slices.Clone(*e.components.Load()), p)
	e.components.Store(&next)
}

// ErrClosed is returned by calls of an engine that is closed.
var ErrClosed = errors.New("engine: closed")

// Closed returns ErrClosed once Close was called.
func (e *Engine) Closed() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	return nil
}

// Name identifies this process among those of its user, in all containers. It is empty if the
// process shares nothing with others.
func (e *Engine) Name() string { return e.name }

// Slot returns the top ten bits of the queue pair numbers and communication ids of this process.
func (e *Engine) Slot() int { return e.slot }

// Allot sets the numbers that queue pairs get. It is for a component of Options.
func (e *Engine) Allot(n Numbers) {
	e.slot, e.name = n.Slot, n.Name
	e.conns.allot(n)
}

// ShowOn makes the board show the rings, and count the polls of a C program. It is for a
// component of Options.
func (e *Engine) ShowOn(b *shmring.Board) { e.board = b }

// Board shows a C program that polls by itself when to call PollFor. Its memory stays valid as long
// as the process lives.
func (e *Engine) Board() *shmring.Board { return e.board }

// Poller holds the descriptors of sockets, for threads that sleep.
func (e *Engine) Poller() *udp.Poller { return e.arrival.set }

// Serve makes the background goroutine call f when a descriptor has something to read. It is for a
// component of Options, which calls EndService when it stops.
func (e *Engine) Serve(fd int, f func()) error {
	e.bg.services = append(e.bg.services, f)
	return e.bg.poller.AddFD(fd, serviceID(len(e.bg.services)-1))
}

// EndService ends Serve. The background goroutine has stopped.
func (e *Engine) EndService(fd int) { _ = e.bg.poller.RemoveFD(fd) } // it is there

// RunOn makes the background goroutine run on these NUMA nodes from now on.
func (e *Engine) RunOn(nodes []int) {
	e.bg.nodes.Store(&nodes)
	e.bg.wake()
}

// WakeBackground ends the background goroutine's sleep: there is a peer that it has not armed.
func (e *Engine) WakeBackground() { e.bg.wake() }

// laneInput is an input that is no ring. Threads that poll one of the Lanes read it.
type laneInput struct {
	Input
	lanes LaneSet
}

// AddInput adds an input, which is read from now on.
func (e *Engine) AddInput(in Input) { e.AddInputOf(in, AllLanes) }

// AddInputOf adds an input, which is read from now on. Its packets are for queue pairs of some
// Lanes.
func (e *Engine) AddInputOf(in Input, lanes LaneSet) {
	e.inputsMu.Lock()
	defer e.inputsMu.Unlock()
	next := append(slices.Clone(*e.inputs.Load()), laneInput{in, lanes})
	e.inputs.Store(&next)
	e.listSleepersLocked()
}

// SetLanes has threads that poll other Lanes read an input.
func (e *Engine) SetLanes(in Input, lanes LaneSet) {
	e.inputsMu.Lock()
	defer e.inputsMu.Unlock()
	next := slices.Clone(*e.inputs.Load())
	for i := range next {
		if next[i].Input == in {
			next[i].lanes = lanes
		}
	}
	e.inputs.Store(&next)
}

// RemoveInput removes an input, and stops it.
func (e *Engine) RemoveInput(in Input) {
	e.inputsMu.Lock()
	next := slices.DeleteFunc(slices.Clone(*e.inputs.Load()),
		func(o laneInput) bool { return o.Input == in })
	e.inputs.Store(&next)
	e.listSleepersLocked()
	e.inputsMu.Unlock()
	in.Stop()
}

// laneRing is a ring. Threads that poll one of the Lanes read it.
type laneRing struct {
	Ring
	lanes LaneSet
}

// AddRing adds a ring, which is read from now on.
func (e *Engine) AddRing(r Ring) { e.addRing(r, AllLanes) }

// AddRing adds a ring, which is read from now on. Its packets are for queue pairs of l.
func (l *Lane) AddRing(r Ring) { l.eng.addRing(r, 1<<l.number) }

func (e *Engine) addRing(r Ring, l LaneSet) {
	e.inputsMu.Lock()
	defer e.inputsMu.Unlock()
	next := append(slices.Clone(*e.rings.Load()), laneRing{r, l})
	e.rings.Store(&next)
	e.listSleepersLocked()
	e.arrival.mayRing.Store(true)
	if !r.Arm() { // all threads may be asleep, without having armed this ring
		e.RingBell()
	}
}

// RemoveRing removes a ring. The caller stops it.
func (e *Engine) RemoveRing(r Ring) {
	e.inputsMu.Lock()
	defer e.inputsMu.Unlock()
	next := slices.DeleteFunc(slices.Clone(*e.rings.Load()),
		func(o laneRing) bool { return o.Ring == r })
	e.rings.Store(&next)
	e.listSleepersLocked()
}

// listSleepersLocked is called with inputsMu held.
func (e *Engine) listSleepersLocked() {
	var list []Sleeper
	var hidden int32
	frames := false
	for _, r := range *e.rings.Load() {
		if !r.Shown() {
			hidden++
		}
		frames = frames || r.Frames()
	}
	for _, in := range *e.inputs.Load() {
		if s, ok := in.Input.(Sleeper); ok {
			list = append(list, s)
			hidden++
		}
	}
	e.sleepers.Store(&list)
	e.hidden.Store(hidden)
	e.frames.Store(frames)
}

// CountReadError counts an input that the system could not read.
func (e *Engine) CountReadError() { e.readErrors.Add(1) }

// Find returns the connection of a queue pair number, or nil. It takes no lock.
func (e *Engine) Find(q ib.QPN) *Conn { return e.conns.find(q) }

// EachConn calls f for every connection.
func (e *Engine) EachConn(f func(*Conn)) { e.conns.each(f) }

// errNumbers reports that no queue pair number is left.
func (e *Engine) errNumbers() error {
	return fmt.Errorf("engine: all %d queue pair numbers of this process are in use",
		e.conns.limit-firstQPN)
}
