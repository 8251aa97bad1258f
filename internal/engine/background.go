// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"errors"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
	"verbena/internal/sys/cputime"
	"verbena/internal/sys/fdtrack"
	"verbena/internal/sys/futex"
	"verbena/internal/sys/numa"
	"verbena/internal/sys/udp"
)

// background is the engine's one goroutine. It does the work that no thread of the application
// waits for: one-sided requests to a process that computes, timers, services. While threads poll or
// call Collect it naps and looks again. While they sleep it sleeps too, until the next timer. With
// threads in BeginWait it does not wait for arrivals at all (deep). With an epoll set of the
// application's it is woken too, and naps first. The next thread that collects ends that sleep,
// once.
type background struct {
	// immutable after start
	eng     *Engine
	backoff monotime.Duration // of the naps
	poller  *udp.Poller       // its wake-ups, services, and arrivals unless it is deaf to them
	sleeper futex.Sleeper     // of the naps

	polls     atomic.Uint64         // calls of Engine.Collect
	looks     atomic.Uint64         // of them: those that read the sockets
	wakeAt    atomic.Int64          // until when it sleeps or waits
	stopping  atomic.Bool           // it is to end, or has ended without its descriptors
	kicked    atomic.Bool           // a thread stopped polling
	roused    atomic.Bool           // a sleep is to end before its time
	napping   atomic.Bool           // leaves the sockets to threads that poll
	away      atomic.Bool           // sleeps; the next thread that collects wakes it
	nodes     atomic.Pointer[[]int] // the NUMA nodes where it is to run from now on
	done      sync.WaitGroup
	ready     [16]uint64
	services  []func()          // by number of their descriptor's id; immutable after start
	linger    monotime.Duration // of the goroutine alone
	idle      idlePolicy        // of the goroutine alone
	pollers   pollers           // of the goroutine alone
	deaf      bool              // of the goroutine alone: poller ignores arrivals
	collected uint64            // of the goroutine alone: arrival.collects, when it last looked
	absent    bool              // of the goroutine alone: sleeping threads did not answer the bell
	rounds    uint              // of the goroutine alone: of run
	usage     usage             // of the goroutine alone: when leaveToReaders last looked

	woken atomic.Bool // the application was given an event since the last read
}

func (g *background) open(e *Engine, backoff monotime.Duration) (err error) {
	g.eng, g.backoff = e, backoff
	if g.poller, err = udp.NewPoller(); err != nil {
		return err
	}
	set, err := udp.NewSet()
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		e.arrival.set = g.poller
		return nil
	case err == nil:
		e.arrival.set = set
		if err = g.poller.AddFD(set.WakeFD(), arrivalID); err == nil {
			err = g.poller.AddFD(set.FD(), arrivalID)
		}
	}
	if err != nil {
		e.closePollers()
	}
	return err
}

// arrivalID identifies arrivals in the poller's reports.
const arrivalID = 0

// listen has the poller report arrivals, or ignore them.
func (g *background) listen(on bool) {
	set := g.eng.arrival.set
	if g.deaf != on || set == g.poller {
		return
	}
	g.deaf = !on
	for _, fd := range []int{set.WakeFD(), set.FD()} {
		_ = g.poller.PauseFD(fd, arrivalID, !on) // they are there, unless the descriptors are lost
	}
}

// roundsPerCall is the number of rounds of the background goroutine between two calls of the
// function of OnRound: some milliseconds while threads poll or collect.
const roundsPerCall = 8

// OnRound sets a function that the background goroutine calls at times, while threads of the
// application poll or wait for arrivals. It must not block.
func (e *Engine) OnRound(f func()) { e.onRound.Store(&f) }

// OnStir sets a function that the background goroutine calls at each of its passes: soon after
// anything that the process does, and not while it does nothing. It must not block.
func (e *Engine) OnStir(f func()) { e.onStir.Store(&f) }

func (g *background) start() {
	g.done.Add(1)
	go g.run()
}

// run is the loop of the background goroutine, the only one on the data path.
func (g *background) run() {
	defer g.done.Done()
	a := &g.eng.arrival
	debug.SetPanicOnFault(true) // or package mem would set it for each piece of memory
	for !g.stopping.Load() && !fdtrack.Check() {
		if nodes := g.nodes.Swap(nil); nodes != nil {
			runtime.LockOSThread()
			_ = numa.Run(*nodes...) // the nodes were there when the links were opened
		}
		if g.rounds++; g.rounds%roundsPerCall == 0 {
			if f := g.eng.onRound.Load(); f != nil {
				(*f)()
			}
		}
		if f := g.eng.onStir.Load(); f != nil {
			(*f)()
		}
		now := monotime.Now()
		g.eng.Settle()
		g.fireDue(now)
		polls := g.polled()
		kicked := g.kicked.Swap(false)
		collected := a.collects.Load()
		attended := collected != g.collected
		g.collected = collected
		g.absent = g.absent && !attended
		polling := g.pollers.there(now, polls, kicked, attended)
		if !kicked && attended {
			g.leaveToReaders(now)
			g.serve()
			continue
		}
		if polling && !g.idle.on {
			g.leaveToPollers(now)
			continue
		}
		g.wait(now, kicked)
		if fdtrack.Check() { // meanwhile the numbers may have become the application's descriptors
			break
		}
		watched := !kicked && a.asleep()
		if watched && !g.absent && g.leaveToSleepers() {
			continue
		}
		a.silence()
		k := g.read()
		g.absent = watched && k > 0
		if k == Busy { // another thread reads, and may need this core to get done
			futex.Yield()
		}
		g.idle.woke(monotime.Now(), k > 0)
	}
	if !g.stopping.Swap(true) { // the descriptors are lost
		g.eng.Settle() // what guards was to guard; it may leave by rings
	}
}

// leaveToPollers leaves the sockets to threads that poll, for a nap. These threads may be waiting
// for a core. Where a C program sees the rings by itself, few of its polls read the sockets: if it
// polls slowly, a packet would wait for tens of milliseconds. So after a nap in which no thread has
// read the sockets the goroutine does, once.
func (g *background) leaveToPollers(now monotime.Time) {
	reads := g.eng.socketReads()
	ran := g.nap(now)
	lying := g.readable() // which calls services, too
	g.idle.slept(monotime.Now(), lying && ran && g.leftLying())
	if g.eng.socketReads() == reads {
		g.readOnce()
	}
}

// leaveToReaders leaves the inputs to threads that sleep, wake up and read. In a process that waits
// for cores it does so for longer. At the end it takes the core from no thread. A thread that
// computes would lose the rest of its slice and so come again sooner, between two messages.
func (g *background) leaveToReaders(now monotime.Time) {
	shortest := 2 * g.backoff
	d, looks := shortest, g.pollers.looks(now)
	if g.eng.arrival.shared.Swap(false) {
		d, looks = policy.MaxNap, false
	} else if looks {
		d = g.pollers.next(shortest)
		if now.Sub(g.usage.at) > 2*napsPerLook*shortest { // it did not nap since, but slept
			g.usage = usageAt(now)
		}
	}
	runtime.LockOSThread()
	cputime.Yielding(func() { g.sleepUntil(now, now.Add(d)) })
	runtime.UnlockOSThread()
	if looks {
		last := g.usage
		g.usage = usageAt(monotime.Now())
		g.pollers.slept(g.usage.at, g.usage.at.Sub(last.at), g.usage.used-last.used,
			g.usage.preemptions != last.preemptions)
	}
}

// A usage holds the processor time and the preemptions of the process up to some time.
type usage struct {
	at          monotime.Time
	used        monotime.Duration // 0 if the system does not report it
	preemptions uint64
}

func usageAt(now monotime.Time) usage {
	used, _ := cputime.Used()
	return usage{now, used, cputime.Preemptions()}
}

// leaveToSleepers leaves an arrival to threads that wait for it, which were woken too. It reports
// whether one of them has read, or answers many messages and reads then. Polls are no sign of that:
// those of another thread may read no socket.
func (g *background) leaveToSleepers() (read bool) {
	answered, woken := g.eng.answered(), monotime.Now()
	g.sleepUntil(woken, woken.Add(g.backoff))
	return g.eng.arrival.collects.Load() != g.collected || !g.readable() ||
		g.eng.answered() != answered
}

// polled returns the number of polls. Two looks at the board count as one poll.
func (g *background) polled() uint64 { return g.eng.polled() + g.eng.board.Polls()/2 }

// read drains the sockets, and lingers: in a stream the next datagram comes sooner than a sleep and
// a wake-up take, and a wake-up also costs its sender.
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
			break // a woken thread, or one that reads memory, may need this core
		}
	}
	g.linger = max(g.linger-g.linger/4, policy.MinLinger)
	return n
}

// readOnce reads every input once. It returns Busy if it read nothing and another thread reads.
func (g *background) readOnce() (n int) {
	busy := false
	for _, r := range *g.eng.rings.Load() {
		k := r.TryPoll(false)
		busy = busy || k == Busy
		n += max(k, 0)
	}
	for _, in := range *g.eng.inputs.Load() {
		k := in.TryPoll(false)
		busy = busy || k == Busy
		n += max(k, 0)
	}
	if n == 0 && busy {
		return Busy
	}
	return n
}

// nap leaves the sockets to the polling threads for a while. It reports whether the process had a
// core meanwhile. In a process that waits for cores these threads run the timers, too: deadlines
// that have moved since would end most naps.
func (g *background) nap(now monotime.Time) (ran bool) {
	before, known := cputime.Used()
	preempted := cputime.Preemptions()
	if d := g.pollers.next(g.backoff); d > g.backoff {
		g.sleep(d)
	} else {
		g.sleepUntil(now, now.Add(d))
	}
	after, _ := cputime.Used()
	end := monotime.Now()
	return !known ||
		g.pollers.slept(end, end.Sub(now), after-before, cputime.Preemptions() != preempted)
}

// sleepUntil sleeps, and runs the timers that become due meanwhile. It ends early by wake and kick.
// A deadline that has moved on meanwhile wakes the thread for a moment, too.
func (g *background) sleepUntil(now, until monotime.Time) {
	for {
		g.sleep(g.publish(until).Sub(now))
		g.wakeAt.Store(0)
		now = monotime.Now()
		if now >= until || g.stopping.Load() || g.kicked.Load() || g.roused.Swap(false) {
			return
		}
		g.fireDue(now)
	}
}

// fireDue runs the timers that are due. It reads before: packets that wait in a socket must not be
// taken for lost. Most deadlines have moved on since they were set, so it looks for those first.
func (g *background) fireDue(now monotime.Time) {
	if g.eng.timers.due(now) && g.eng.timers.anyReal(now) {
		g.readOnce()
		g.eng.FireDue(now)
	}
}

// sleep ends early by wake, by a kick, and by timerMoved after publish.
func (g *background) sleep(d monotime.Duration) {
	g.napping.Store(true)
	if !g.kicked.Load() {
		g.sleeper.Wait(d)
	}
	g.napping.Store(false)
}

// wait blocks until something has come, a timer is due or another thread wakes it. A thread that
// collects does, as it may have read the bell. Where threads of the application wait, wait leaves
// arrivals to them, unless the goroutine was kicked.
func (g *background) wait(now monotime.Time, kicked bool) {
	deep := !kicked && g.eng.arrival.waiters.Load() > 0 && len(*g.eng.sleepers.Load()) == 0
	g.listen(!deep)
	g.away.Store(true)
	defer g.away.Store(false)
	if g.eng.delays() || // see guards
		!g.eng.armRings() || !kicked && g.eng.arrival.collects.Load() != g.collected {
		return
	}
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

// guards reports whether the goroutine will send the output that is listed as delayed: it naps, or
// does not sleep. It sets away before it looks at the lists, and sleeps only if they are empty. It
// sets stopping likewise before it empties them and ends.
func (g *background) guards() bool {
	return g.napping.Load() || !g.away.Load() && !g.stopping.Load()
}

// serve calls the services that are ready, and leaves arrivals alone.
func (g *background) serve() {
	g.listen(false)
	if _, err := g.look(0); err != nil {
		g.eng.CountReadError()
	}
}

// attended ends a sleep without a limit. A thread has just collected, and may not do so again for
// long.
func (g *background) attended() {
	if g.away.Load() && g.away.Swap(false) {
		g.poller.Wake()
	}
}

// look waits and returns the number of readable sockets. It calls the services that are ready.
func (g *background) look(timeout monotime.Duration) (sockets int, err error) {
	n, err := g.poller.Wait(timeout, g.ready[:])
	for _, id := range g.ready[:n] {
		if i := int(^id) - 1; i >= 0 && i < len(g.services) { // else it is an arrival
			g.services[i]()
			sockets--
		}
	}
	return sockets + n, err
}

// serviceID returns the number that identifies a service in the poller's reports. Sockets have 0.
func serviceID(i int) uint64 { return ^uint64(1 + i) }

// publish announces until when the goroutine will be away: until the given time or the first
// deadline. A deadline that is set meanwhile wakes it.
func (g *background) publish(until monotime.Time) monotime.Time {
	g.wakeAt.Store(int64(monotime.Never))
	until = min(until, g.eng.timers.deadline())
	g.wakeAt.Store(int64(until))
	return until
}

// timerMoved wakes the goroutine if it would sleep past a new deadline.
func (g *background) timerMoved(when monotime.Time) {
	if int64(when) < g.wakeAt.Load() {
		g.rouse()
	}
}

// wake ends the goroutine's sleep.
func (g *background) wake() {
	g.roused.Store(true)
	g.rouse()
}

func (g *background) rouse() {
	g.sleeper.Wake()
	g.poller.Wake()
}

// kick ends the goroutine's sleep: no thread will poll for a while.
func (g *background) kick() {
	g.kicked.Store(true)
	if g.napping.Load() {
		g.sleeper.Wake()
	}
}

// stop ends the goroutine, unless it has lost the descriptors that would wake it.
func (g *background) stop() {
	g.stopping.Store(true)
	if !g.poller.Lost() {
		g.rouse()
		g.done.Wait()
	}
}

// closePollers closes both pollers.
func (e *Engine) closePollers() {
	g := &e.bg
	if g.poller.Lost() {
		return
	}
	e.arrival.closed.Store(true)
	g.poller.Close()
	if set := e.arrival.set; set != nil && set != g.poller {
		set.Close()
	}
}
