// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"errors"
	"net/netip"
	"slices"
	"sync"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/ntb/backend"
	"verbena/internal/ntb/channel"
	"verbena/internal/ntb/rdma"
	"verbena/internal/sys/fdtrack"
)

// NTB is our end of a device of windows. A back end that joins two processes has
// one link; in a meeting place there is one to each process that we have to do with,
// opened when a queue pair or a management datagram is for it, and one to ourselves.
//
//	Conn.pump ─► flush ── node.PollOutput ─► link.Write      under the lock: a write is a copy
//	tryPoll ───► link.Receive, node.Handle ─► flush          or a send that does not block
//	Conn.Ring ─► QP.Quick         where the peer's window is mapped: stores, and no flush
//	tryPoll ───► node.Take        of what the peer stored likewise
//	lost link ─► node.Detach, and a goroutine that opens the next one ─► node.Attach
//
// All queue pairs share one lock, as a node does everything for all of its own: who
// has an event for one writes what any of them has to write.
//
// Who sleeps says so to the peers, which then ring; see arm.
type NTB struct {
	// immutable after OpenNTB
	eng      *Engine
	account  *Account
	endpoint backend.Endpoint
	keys     *mem.Table
	opener   *backend.Opener // of two processes; else nil
	memory   appMemory
	place    *backend.Place // of any number; else nil

	mu sync.Mutex // also that of the device's Conns

	// guarded by mu
	home       *ntbLink   // where queue pairs are that have no peer yet
	all        []*ntbLink // those that are open, or are to be
	news       []*ntbLink // of which there may be something to tell
	exposed    []exposure // of a meeting place: regions that all peers are told of
	addrs      []netip.Addr
	carrier    *ntbLink // of a meeting place: what frames go over
	batch      *channel.Batch
	watchers   map[int]func(LinkChange)
	takers     takers
	delivering bool
	closed     bool
	inherited  bool       // a process before this one may still be written to in our window
	dead       bool       // there will be no link any more
	fatal      bool       // and who watches was told
	past       linkCounts // of links that are gone
	refused    uint64     // times that the system would not open a link

	opening sync.WaitGroup
}

// NTBConfig says what a device is made from.
type NTBConfig struct {
	Endpoint backend.Endpoint
	// WindowBytes is the size of our window, of which the last MemoryBytes are the
	// application's. Where a file is the window, half of it is; of a meeting place each
	// link has a window whose last MemoryBytes are those of all.
	WindowBytes, MemoryBytes uint64
	Keys                     *mem.Table
	Account                  *Account
}

// LinkChange tells that a link came up, or that one is lost.
type LinkChange struct {
	Up    bool
	Peer  backend.Member // of a meeting place: who is at the other end
	Fatal bool           // there will be no other
}

// OpenNTB takes our end of a link, or our slot of a meeting place. Peers may come
// at any time, now or later.
//
// Errors: backend.ErrInUse if another process has our end; backend.ErrConfig; numa.ErrNode; the system's.
func (e *Engine) OpenNTB(c NTBConfig) (*NTB, error) {
	l := &NTB{eng: e, account: c.Account, endpoint: c.Endpoint, keys: c.Keys, batch: channel.NewBatch(), watchers: map[int]func(LinkChange){}}
	if err := l.open(&c); err != nil {
		return nil, err
	}
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		return nil, errors.Join(errClosed, l.leaveEnd())
	}
	e.addInput(l)
	e.addNTB(l)
	l.reopen()
	return l, nil
}

func (l *NTB) open(c *NTBConfig) (err error) {
	if c.Endpoint.Kind == backend.Shm {
		return l.openPlace(c)
	}
	if l.opener, err = backend.NewOpener(c.Endpoint, c.WindowBytes); err != nil {
		return err
	}
	l.inherited = l.opener.Inherited()
	l.home = l.newLink()
	size := l.opener.Own().Len()
	reserved := c.MemoryBytes
	if size != c.WindowBytes { // a file, which is as it is
		reserved = size / 2 &^ (1<<12 - 1)
	}
	if size-reserved < rdma.MinWindowBytes {
		reserved = 0
	}
	l.home.node.ReserveMemory(size, reserved)
	l.memory = appMemory{window: l.opener.Own()}
	l.all = []*ntbLink{l.home}
	return nil
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

// links returns the devices of windows.
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
	for _, x := range l.all {
		x.flush(now) // what was destroyed is to be told
		x.unplug(now)
		x.node.Detach(now)
		x.free()
	}
	l.watchers, l.takers = nil, takers{}
	l.mu.Unlock()
	if l.opener != nil {
		l.opener.Cancel()
	} else {
		l.place.Cancel()
	}
	lost := fdtrack.Check()
	if !lost {
		l.opening.Wait()
	}
	l.mu.Lock()
	for _, x := range l.all {
		l.eng.timers.remove(&x.alarm)
	}
	l.mu.Unlock()
	if lost { // with the descriptor that wakes the goroutine, which ends when its wait is over
		return
	}
	// The path of a socket that somebody has removed is no loss.
	_ = l.leaveEnd()
}

// leaveEnd gives back what open took.
func (l *NTB) leaveEnd() error {
	if l.opener != nil {
		return l.opener.Close()
	}
	return l.place.Close()
}

// Side returns which end of the link ours is, 0 or 1.
func (l *NTB) Side() int {
	if l.opener != nil {
		return l.opener.Side()
	}
	return l.place.Self().Side
}

// Shared reports whether this is a meeting place: processes of both sides, in any
// number.
func (l *NTB) Shared() bool { return l.place != nil }

// Up reports whether the port is active: the link is up. In a meeting place it
// always is, as a process finds itself there.
func (l *NTB) Up() bool {
	if l.Shared() {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.home.node.Up()
}

// WasUp reports whether the port has ever been active.
func (l *NTB) WasUp() bool {
	if l.Shared() {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.home.node.Channel().Count[channel.LinkUps] > 0
}

// Reset begins all links afresh: what is connected is flushed at both ends.
func (l *NTB) Reset() {
	l.mu.Lock()
	now := monotime.Now()
	for _, x := range l.all {
		x.node.Reset(now)
		x.turn(now)
	}
	l.deliver()
}

// SetAddrs says which addresses our port has; peers are told.
func (l *NTB) SetAddrs(list []netip.Addr) {
	if l.Shared() {
		// Without it nobody finds us by address: as if we had none.
		_ = l.place.Announce(list)
	}
	l.mu.Lock()
	l.addrs = slices.Clone(list)
	now := monotime.Now()
	for _, x := range l.all {
		x.node.SetAddrs(list)
		x.turn(now)
	}
	l.deliver()
}

// Watch has f called, without locks, when a link comes up and when one is lost, and
// when the device is lost for good. stop ends that.
func (l *NTB) Watch(f func(LinkChange)) (stop func()) {
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
	for len(l.news) > 0 {
		x := l.news[0]
		if l.deliverOf(x) {
			return true
		}
		l.news = l.news[:copy(l.news, l.news[1:])]
		x.queued = false
		if x.over {
			l.bury(x)
		}
	}
	return false
}

func (l *NTB) deliverOf(x *ntbLink) bool {
	if e, ok := x.node.PollLinkEvent(); ok {
		l.changed(x, LinkChange{Up: e == ib.EventPortActive, Peer: x.peer})
		return true
	}
	if l.dead && !l.fatal {
		l.fatal = true
		l.changed(x, LinkChange{Fatal: true})
		return true
	}
	if q, ok := x.node.PollQP(); ok {
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
	return l.takers.next(x)
}

// changed tells of a link.
func (l *NTB) changed(x *ntbLink, c LinkChange) {
	l.noteCarrier(x, c.Up)
	list := make([]func(LinkChange), 0, len(l.watchers))
	for _, f := range l.watchers {
		list = append(list, f)
	}
	l.mu.Unlock()
	for _, f := range list {
		f(c)
	}
	l.mu.Lock()
}

// linkCounts are what was counted of links themselves.
type linkCounts struct {
	node    [rdma.NumNodeCounters]uint64
	channel [channel.NumCounters]uint64
}

func (c *linkCounts) add(n *rdma.Node) {
	accumulate(c.node[:], n.Count[:])
	accumulate(c.channel[:], n.Channel().Count[:])
}

// counts returns what was counted of the links.
func (l *NTB) counts() (list []Counter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := l.past
	for _, x := range l.all {
		sum.add(x.node)
	}
	for i := range rdma.NumNodeCounters {
		list = append(list, Counter{i.String(), sum.node[i]})
	}
	for i := range channel.NumCounters {
		list = append(list, Counter{i.String(), sum.channel[i]})
	}
	return append(list, Counter{"open_refused", l.refused})
}
