package engine

import (
	"errors"
	"net/netip"
	"slices"
	"sync"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/ntb/channel"
	"verbena/internal/ntb/rdma"
	"verbena/internal/osio/bridge"
	"verbena/internal/osio/entropy"
)

// NTB is our end of a link of windows, and the node on it. All its queue pairs
// share one lock, as the node does everything for all of them: who has an event
// for one writes what any of them has to write.
//
//	Conn.pump ─► flush ── node.PollOutput ─► link.Write      under the lock: a write is a copy
//	tryPoll ───► link.Receive, node.Handle ─► flush          or a send that does not block
//	Conn.Ring ─► QP.Quick         where the peer's window is mapped: stores, and no flush
//	tryPoll ───► node.Take        of what the peer stored likewise
//	lost link ─► node.Detach, and a goroutine that opens the next one ─► node.Attach
//
// Who sleeps says so to the peer, which then rings; see arm.
type NTB struct {
	// immutable after OpenNTB
	eng      *Engine
	account  *Account
	endpoint bridge.Endpoint
	opener   *bridge.Opener

	mu sync.Mutex // also that of the link's Conns

	// guarded by mu
	node       *rdma.Node
	link       bridge.Link // nil while there is none
	batch      *channel.Batch
	fds        []int         // of the link, which the poller waits for
	pending    bool          // the link has not taken all
	armed      monotime.Time // when the timer heap will wake us, at the latest
	watchers   map[int]func(ib.EventType)
	takers     takers
	delivering bool
	closed     bool
	inherited  bool          // a process before this one may still be written to in our window
	dead       bool          // there will be no link any more
	fatal      bool          // and who watches was told
	graceEnd   monotime.Time // of a link that is lost: see lossGrace
	refused    uint64        // times that the system would not open a link

	alarm   alarm
	opening sync.WaitGroup

	pause monotime.Duration // of the background goroutine alone: until it looks again
	heard uint64            // of the background goroutine alone: what it had seen come
}

// NTBConfig says what a link is made from.
type NTBConfig struct {
	Endpoint bridge.Endpoint
	// WindowBytes is the size of our window, of which the last MemoryBytes are the
	// application's. Where a file is the window, half of it is.
	WindowBytes, MemoryBytes uint64
	Keys                     *mem.Table
	Account                  *Account
}

// OpenNTB takes our end of a link. The peer may come at any time, now or later.
//
// Errors: bridge.ErrInUse if another process has our end; numa.ErrNode; the system's.
func (e *Engine) OpenNTB(c NTBConfig) (*NTB, error) {
	opener, err := bridge.NewOpener(c.Endpoint, c.WindowBytes)
	if err != nil {
		return nil, err
	}
	l := &NTB{eng: e, account: c.Account, endpoint: c.Endpoint, opener: opener, node: rdma.New(c.Keys, entropy.Uint64), batch: channel.NewBatch(),
		armed: monotime.Never, inherited: opener.Inherited(), graceEnd: monotime.Never, watchers: map[int]func(ib.EventType){}}
	l.alarm = newAlarm(l.timeout)
	size := opener.Own().Len()
	reserved := c.MemoryBytes
	if size != c.WindowBytes { // a file, which is as it is
		reserved = size / 2 &^ (1<<12 - 1)
	}
	if size-reserved < rdma.MinWindowBytes {
		reserved = 0
	}
	l.node.ReserveMemory(size, reserved)
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		return nil, errors.Join(errClosed, opener.Close())
	}
	e.addInput(l)
	e.addNTB(l)
	l.reopen()
	return l, nil
}

var errClosed = errors.New("engine: closed")

func (e *Engine) addNTB(l *NTB) {
	e.inputsMu.Lock()
	defer e.inputsMu.Unlock()
	next := append(slices.Clone(e.links()), l)
	e.ntbs.Store(&next)
	var nodes []int
	for _, l := range next {
		if l.endpoint.OnNode {
			nodes = append(nodes, l.endpoint.Node)
		}
	}
	if nodes != nil { // one goroutine works all links: where any of them is
		e.bg.nodes.Store(&nodes)
		e.bg.wake()
	}
}

// links returns the links of windows.
func (e *Engine) links() []*NTB {
	if p := e.ntbs.Load(); p != nil {
		return *p
	}
	return nil
}

// Close gives our end up. Queue pairs on it must have been closed, and nobody may
// use its memory any more.
func (l *NTB) Close() error {
	e := l.eng
	e.inputsMu.Lock()
	next := slices.DeleteFunc(slices.Clone(e.links()), func(o *NTB) bool { return o == l })
	e.ntbs.Store(&next)
	e.inputsMu.Unlock()
	e.removeInput(l)
	return nil
}

// close is the input's.
func (l *NTB) close() {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed = true
	now := monotime.Now()
	l.flush(now) // what was destroyed is to be told
	l.unplug(now)
	l.node.Detach(now)
	l.watchers, l.takers = nil, takers{}
	l.mu.Unlock()
	l.opener.Cancel()
	l.opening.Wait()
	l.eng.timers.remove(&l.alarm)
	// The path of a socket that somebody has removed is no loss.
	_ = l.opener.Close()
}

// Side returns which end of the link ours is, 0 or 1.
func (l *NTB) Side() int { return l.opener.Side() }

// Up reports whether the link is up: the port is active.
func (l *NTB) Up() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.node.Up()
}

// WasUp reports whether the link has ever been up.
func (l *NTB) WasUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.node.Channel().Count[channel.LinkUps] > 0
}

// Reset begins the link afresh: what is connected is flushed at both ends.
func (l *NTB) Reset() {
	l.mu.Lock()
	now := monotime.Now()
	l.node.Reset(now)
	l.leave(now)
}

// SetAddrs says which addresses our port has; the peer is told.
func (l *NTB) SetAddrs(list []netip.Addr) {
	l.mu.Lock()
	l.node.SetAddrs(list)
	l.leave(monotime.Now())
}

// PeerAddrs returns the addresses of the peer's port, none while the link is down
// and until the peer has told them.
func (l *NTB) PeerAddrs() []netip.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.node.PeerAddrs())
}

// Watch has f called, without locks, when the port becomes active and when it ceases to
// be, and when the device is lost for good. stop ends that.
func (l *NTB) Watch(f func(ib.EventType)) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := len(l.watchers)
	for l.watchers[id] != nil {
		id++
	}
	if l.watchers != nil {
		l.watchers[id] = f
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watchers, id)
	}
}

// leave writes what there is to be written, sets the timer, tells what is to be
// told and unlocks.
func (l *NTB) leave(now monotime.Time) {
	l.flush(now)
	l.setTimer()
	l.deliver()
}

// flush carries out what the node wants written, as far as the link takes it.
func (l *NTB) flush(now monotime.Time) {
	for l.link != nil {
		var err error
		if l.pending, err = l.link.Flush(); l.pending {
			return
		}
		rung := false
		if err == nil {
			if !l.node.PollOutput(now, l.batch) {
				return
			}
			rung = l.batch.Rung()
			err = l.link.Write(l.batch)
			l.batch.Reset()
		}
		switch {
		case err == channel.ErrFault:
			l.node.HandleFault(now)
		case err != nil:
			l.lose(now, err)
			return
		}
		if rung && l.node.Channel().MustWake() {
			l.link.Ring()
		}
	}
}

// flushPause is how soon a link that did not take all is asked again.
const flushPause = 100 * monotime.Microsecond

// setTimer has us woken when the node wants to be.
func (l *NTB) setTimer() {
	when := min(l.node.NextTimeout(), l.graceEnd)
	if l.pending {
		when = min(when, monotime.Now().Add(flushPause))
	}
	if when.Before(l.armed) {
		l.armed = when
		l.eng.arm(&l.alarm, when)
	}
}

// timeout is the timer heap's call.
func (l *NTB) timeout(now monotime.Time) {
	l.mu.Lock()
	l.armed = monotime.Never
	if l.closed {
		l.mu.Unlock()
		return
	}
	if l.link != nil {
		if err := l.link.Receive(); err != nil {
			l.lose(now, err)
		}
	}
	if !now.Before(l.graceEnd) {
		l.mourn(now)
	}
	if !now.Before(l.node.NextTimeout()) {
		l.node.HandleTimeout(now)
	}
	l.leave(now)
}

// deliver tells events and hands out datagrams, and unlocks. One thread does so
// at a time, so that they keep their order.
func (l *NTB) deliver() {
	if l.delivering {
		l.mu.Unlock()
		return
	}
	l.delivering = true
	for l.deliverOne() {
	}
	l.delivering = false
	l.mu.Unlock()
}

// deliverOne tells one thing; it gives the lock back meanwhile.
func (l *NTB) deliverOne() bool {
	if l.takers.nextLate(l) {
		return true
	}
	e, ok := l.node.PollLinkEvent()
	if !ok && l.dead && !l.fatal {
		e, ok, l.fatal = ib.EventDeviceFatal, true, true
	}
	if ok {
		list := make([]func(ib.EventType), 0, len(l.watchers))
		for _, f := range l.watchers {
			list = append(list, f)
		}
		l.mu.Unlock()
		for _, f := range list {
			f(e)
		}
		l.mu.Lock()
		return true
	}
	if q, ok := l.node.PollQP(); ok {
		c := l.eng.conns.find(q.QPN)
		if c == nil || c.machine != q || c.closed {
			return true
		}
		for e, ok := q.PollEvent(); ok && !c.closed; e, ok = q.PollEvent() {
			l.mu.Unlock()
			c.onEvent(e)
			l.mu.Lock()
		}
		return true
	}
	return l.takers.next(l)
}

// counts returns what was counted of the link itself.
func (l *NTB) counts() (list []Counter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range rdma.NumNodeCounters {
		list = append(list, Counter{i.String(), l.node.Count[i]})
	}
	for i := range channel.NumCounters {
		list = append(list, Counter{i.String(), l.node.Channel().Count[i]})
	}
	return append(list, Counter{"open_refused", l.refused})
}
