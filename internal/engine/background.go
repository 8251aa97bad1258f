package engine

import (
	"sync"
	"sync/atomic"

	"verbena/internal/monotime"
	"verbena/internal/osio/udp"
)

// background is the engine's one goroutine: it waits for sockets and timers
// while no application thread polls.
type background struct {
	eng    *Engine
	poller *udp.Poller // sockets, and a wake-up
	nap    *udp.Poller // the wake-up alone

	polls    atomic.Uint64 // calls of Engine.Poll
	wakeAt   atomic.Int64  // until when it sleeps or waits
	stopping atomic.Bool
	kicked   atomic.Bool // somebody stopped polling
	napping  atomic.Bool // leaves the sockets to those who poll
	done     sync.WaitGroup
	ready    [16]uint64
}

// backoff is how long the goroutine stays away from the sockets when it has
// seen somebody poll: the longest that a packet may wait after a busy poller
// has gone away without notice.
const backoff = 250 * monotime.Microsecond

func (g *background) start(e *Engine) (err error) {
	g.eng = e
	if g.poller, err = udp.NewPoller(); err != nil {
		return err
	}
	if g.nap, err = udp.NewPoller(); err != nil {
		g.poller.Close()
		return err
	}
	g.done.Add(1)
	go g.run()
	return nil
}

// run is the loop of the only `go` statement of the data path.
func (g *background) run() {
	defer g.done.Done()
	var seen uint64
	for !g.stopping.Load() {
		now := monotime.Now()
		g.eng.Flush()
		if g.eng.timers.due(now) {
			g.eng.fire(now)
		}
		n := g.polls.Load()
		polled := n != seen
		seen = n
		if !g.kicked.Swap(false) && polled {
			g.sleep(now)
			continue
		}
		g.wait(now)
		for _, p := range *g.eng.ports.Load() {
			for p.tryPoll(false) > 0 {
			}
		}
	}
}

// sleep leaves the sockets to the pollers for a while.
func (g *background) sleep(now monotime.Time) {
	g.napping.Store(true)
	if !g.kicked.Load() {
		g.block(g.nap, now, now.Add(backoff))
	}
	g.napping.Store(false)
}

// wait blocks until a socket has something, a timer is due or somebody wakes
// it.
func (g *background) wait(now monotime.Time) { g.block(g.poller, now, monotime.Never) }

func (g *background) block(p *udp.Poller, now, until monotime.Time) {
	// A deadline set from here on wakes us; one set before is seen.
	g.wakeAt.Store(int64(monotime.Never))
	until = min(until, g.eng.timers.deadline())
	g.wakeAt.Store(int64(until))
	d := monotime.Duration(-1)
	if until != monotime.Never {
		d = max(until.Sub(now), 0)
	}
	if _, err := p.Wait(d, g.ready[:]); err != nil {
		g.eng.wire.readErrors.Add(1)
	}
	g.wakeAt.Store(0)
}

// timerMoved wakes the goroutine if it would sleep past a new deadline.
func (g *background) timerMoved(when monotime.Time) {
	if int64(when) < g.wakeAt.Load() {
		g.wake()
	}
}

func (g *background) wake() {
	g.nap.Wake()
	g.poller.Wake()
}

// kick ends the goroutine's sleep: nobody will poll for a while.
func (g *background) kick() {
	g.kicked.Store(true)
	if g.napping.Load() {
		g.nap.Wake()
	}
}

func (g *background) stop() {
	g.stopping.Store(true)
	g.wake()
	g.done.Wait()
}

func (g *background) close() {
	g.poller.Close()
	g.nap.Close()
}
