// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
	"verbena/internal/sys/fdtrack"
	"verbena/internal/sys/futex"
	"verbena/internal/sys/numa"
	"verbena/internal/sys/udp"
)

// background is the engine's one goroutine: it waits for sockets and timers
// while no application thread polls.
type background struct {
	// immutable after start
	eng     *Engine
	backoff monotime.Duration // of sleep
	poller  *udp.Poller       // sockets, and a wake-up
	nap     futex.Nap         // of sleep

	polls    atomic.Uint64 // calls of Engine.Poll
	wakeAt   atomic.Int64  // until when it sleeps or waits
	stopping atomic.Bool
	kicked   atomic.Bool           // somebody stopped polling
	napping  atomic.Bool           // leaves the sockets to those who poll
	nodes    atomic.Pointer[[]int] // the NUMA nodes where it is to run from now on
	done     sync.WaitGroup
	ready    [16]uint64
	services []func()          // by number of their descriptor's id; immutable after start
	linger   monotime.Duration // of the goroutine alone
	idle     idlePolicy        // of the goroutine alone
	checked  monotime.Time     // of the goroutine alone: when it last asked whether the descriptors are there

	woken atomic.Bool // the application was given an event since the last read
}

func (g *background) open(e *Engine, backoff monotime.Duration) (err error) {
	g.eng, g.backoff = e, backoff
	g.poller, err = udp.NewPoller()
	return err
}

func (g *background) start() {
	g.done.Add(1)
	go g.run()
}

// run is the loop of the background goroutine, the only one on the data path.
func (g *background) run() {
	defer g.done.Done()
	debug.SetPanicOnFault(true) // for package mem, which would otherwise set it for each piece of memory
	var seen uint64
	for !g.stopping.Load() && !g.lost() {
		if nodes := g.nodes.Swap(nil); nodes != nil {
			runtime.LockOSThread()
			_ = numa.Run(*nodes...) // the nodes were there when the links were opened
		}
		now := monotime.Now()
		if g.eng.delayed.n.Load() > 0 {
			g.eng.flush(0)
		}
		if g.eng.timers.due(now) {
			g.readOnce() // what waits in a socket must not be taken for lost
			g.eng.FireDue(now)
		}
		n := g.polled()
		polled := n-seen > policy.IdlePolls
		seen = n
		if !g.kicked.Swap(false) && polled && !g.idle.on {
			g.sleep(now)
			g.idle.slept(monotime.Now(), g.leftLying())
			continue
		}
		g.wait(now)
		if g.lost() { // while it waited: what is under the numbers now is not ours to read
			return
		}
		k := g.read()
		if k == Busy && !g.idle.on {
			g.sleep(monotime.Now()) // readable, but somebody polls: not ours to spin on
		}
		g.idle.woke(monotime.Now(), k > 0)
	}
}

// lost reports whether the application has closed our descriptors. The goroutine
// ends then.
func (g *background) lost() bool {
	if now := monotime.Now(); now.Sub(g.checked) >= policy.CheckDescriptors {
		g.checked = now
		fdtrack.Check()
	}
	return fdtrack.Lost()
}

// polled returns the number of polls. Two looks at the board count as one poll.
func (g *background) polled() uint64 { return g.polls.Load() + g.eng.board.Looks()/2 }

// read handles what the sockets have, and lingers: in a stream the next
// datagram is nearer than a sleep and a wake-up, which also costs its sender.
func (g *background) read() (n int) {
	g.woken.Store(false)
	last := monotime.Now()
	for !g.stopping.Load() {
		k := g.readOnce()
		if k == Busy {
			return Busy
		}
		now := monotime.Now()
		if k > 0 {
			if n > 0 { // lingering paid
				g.linger = min(g.linger+now.Sub(last), policy.MaxLinger)
			}
			n, last = n+k, now
			g.eng.FireDue(now)
		} else if n == 0 || now.Sub(last) > g.linger || g.idle.on || g.woken.Load() {
			break // who is woken, or looks at memory, may need this core
		}
	}
	g.linger = max(g.linger-g.linger/4, policy.MinLinger)
	return n
}

// readOnce reads every input once.
func (g *background) readOnce() (n int) {
	for _, r := range *g.eng.rings.Load() {
		k := r.TryPoll(false)
		if k == Busy {
			return Busy
		}
		n += k
	}
	for _, in := range *g.eng.inputs.Load() {
		k := in.TryPoll(false)
		if k == Busy {
			return Busy
		}
		n += k
	}
	return n
}

// sleep leaves the sockets to the pollers for a while.
func (g *background) sleep(now monotime.Time) { g.sleepUntil(now, now.Add(g.backoff)) }

func (g *background) sleepUntil(now, until monotime.Time) {
	until = g.publish(until)
	g.napping.Store(true)
	if !g.kicked.Load() {
		g.nap.For(until.Sub(now))
	}
	g.napping.Store(false)
	g.wakeAt.Store(0)
}

// wait blocks until a socket has something, a timer is due or another thread wakes
// it.
func (g *background) wait(now monotime.Time) {
	defer g.disarm()
	look := monotime.Never
	for _, s := range *g.eng.sleepers.Load() {
		until, quiet := s.Arm(now)
		if !quiet {
			return
		}
		look = min(look, until)
	}
	until := g.publish(look)
	d := monotime.Duration(-1)
	if until != monotime.Never {
		d = max(until.Sub(now), 0)
	}
	if _, err := g.look(d); err != nil {
		g.eng.CountReadError()
	}
	g.wakeAt.Store(0)
}

// disarm ends what wait armed, but for what has gone meanwhile.
func (g *background) disarm() {
	for _, s := range *g.eng.sleepers.Load() {
		s.Disarm()
	}
}

// look waits and returns how many sockets are readable. Services it calls.
func (g *background) look(timeout monotime.Duration) (sockets int, err error) {
	n, err := g.poller.Wait(timeout, g.ready[:])
	for _, id := range g.ready[:n] {
		if i := int(^id) - 1; i >= 0 && i < len(g.services) {
			g.services[i]()
			sockets--
		}
	}
	return sockets + n, err
}

// serviceID returns the number by which the poller reports a service. Sockets have 0.
func serviceID(i int) uint64 { return ^uint64(1 + i) }

// publish tells until when the goroutine will be away: until the time given or
// the first deadline. A deadline set while it does so wakes it.
func (g *background) publish(until monotime.Time) monotime.Time {
	g.wakeAt.Store(int64(monotime.Never))
	until = min(until, g.eng.timers.deadline())
	g.wakeAt.Store(int64(until))
	return until
}

// timerMoved wakes the goroutine if it would sleep past a new deadline.
func (g *background) timerMoved(when monotime.Time) {
	if int64(when) < g.wakeAt.Load() {
		g.wake()
	}
}

func (g *background) wake() {
	g.nap.End()
	g.poller.Wake()
}

// kick ends the goroutine's sleep: nobody will poll for a while.
func (g *background) kick() {
	g.kicked.Store(true)
	if g.napping.Load() {
		g.nap.End()
	}
}

// stop ends the goroutine, unless it has lost what would wake it.
func (g *background) stop() {
	g.stopping.Store(true)
	if !g.poller.Lost() {
		g.wake()
		g.done.Wait()
	}
}

func (g *background) close() {
	if !g.poller.Lost() {
		g.poller.Close()
	}
}
