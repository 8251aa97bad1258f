// SPDX-License-Identifier: BSD-2-Clause

package ntb

import (
	"errors"
	"net/netip"
	"slices"
	"sync"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/ntb/backend"
	"verbena/internal/ntb/channel"
	"verbena/internal/ntb/rdma"
	"verbena/internal/sys/fdtrack"
)

// Device is our end of an NTB device. A back end that joins two processes has one link. A
// shared-memory hub has one link to ourselves and one to each peer process; the first queue pair or
// management datagram for a process opens its link.
//
//	PumpUnlock ─► FlushOutput ── node.PollOutput ─► link.Write      under the lock: a write is a copy
//	TryPoll ───► link.Receive, node.Handle ─► flush          or a send that does not block
//	Conn.Submit ─► QP.Quick       where the peer's window is mapped: stores, and no flush
//	TryPoll ───► node.Take        of the peer's stores
//	lost link ─► node.Detach, and a goroutine that opens the next one ─► node.Attach
//
// All queue pairs share one lock, as a node does the work of all of them: a thread with an event
// for one writes the output of all.
//
// A process that sleeps says so to its peers, which then ring its doorbell; see arm.
type Device struct {
	// immutable after Open
	eng      *engine.Engine
	counters *engine.DeviceCounters
	endpoint backend.Endpoint
	keys     *mem.Table
	opener   *backend.Opener // of two processes; else nil
	memory   appMemory
	place    *backend.Place // of any number; else nil

	mu sync.Mutex // also that of the device's Conns

	// guarded by mu
	home       *peerLink   // where queue pairs are that have no peer yet
	all        []*peerLink // those that are open, or are to be
	news       []*peerLink // those that may have events
	exposed    []exposure  // of a hub: regions that are announced to all peers
	addrs      []netip.Addr
	carrier    *peerLink // of a hub: carries our frames
	batch      *channel.Batch
	watchers   map[int]func(LinkChange)
	handlers   handlers
	delivering bool
	closed     bool
	inherited  bool       // a process before this one may still be written to in our window
	dead       bool       // there will be no link any more
	fatal      bool       // its watcher was notified
	past       linkCounts // of links that are gone
	refused    uint64     // times that the system would not open a link

	opening sync.WaitGroup
}

// Config configures a device.
type Config struct {
	Endpoint backend.Endpoint
	// WindowBytes is the size of our window; its last MemoryBytes are the application's. Where a
	// file is the window, the size is half of the file's. In a hub each link has a window, and all
	// share their last MemoryBytes.
	WindowBytes, MemoryBytes uint64
	Keys                     *mem.Table
	Counters                 *engine.DeviceCounters
}

// LinkChange is a link that came up, or one that is lost.
type LinkChange struct {
	Up    bool
	Peer  backend.Member // of a hub: the process at the other end
	Fatal bool           // there will be no other
}

// Open takes our end of a link, or our slot of a hub. Peers may come
// at any time, now or later.
//
// Errors: backend.ErrInUse if another process has our end; backend.ErrConfig; numa.ErrNode; the
// system's.
func Open(e *engine.Engine, c Config) (*Device, error) {
	l := &Device{eng: e, counters: c.Counters, endpoint: c.Endpoint, keys: c.Keys,
		batch: channel.NewBatch(), watchers: map[int]func(LinkChange){}}
	l.keys.Guard(&l.mu)
	if err := l.open(&c); err != nil {
		return nil, err
	}
	if err := e.Closed(); err != nil {
		return nil, errors.Join(err, l.leaveEnd())
	}
	e.AddInput(l)
	devicesOf(e).add(l)
	l.reopen()
	return l, nil
}

func (l *Device) open(c *Config) (err error) {
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
	l.all = []*peerLink{l.home}
	return nil
}

// Close gives our end up. Queue pairs on it must have been closed, and nobody may
// use its memory any more.
func (l *Device) Close() error {
	devicesOf(l.eng).remove(l)
	l.eng.RemoveInput(l)
	return nil
}

// Stop implements engine.Input.
func (l *Device) Stop() {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed = true
	now := monotime.Now()
	for _, x := range l.all {
		x.flush(now) // the peer is to learn of destroyed objects
		x.detach(now)
		x.node.Detach(now)
		x.free()
	}
	l.watchers, l.handlers = nil, handlers{}
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
		l.eng.EndAlarm(&x.alarm)
	}
	l.mu.Unlock()
	if lost { // with the descriptor that wakes the goroutine, which ends when its wait is over
		return
	}
	// The path of a socket that somebody has removed is no loss.
	_ = l.leaveEnd()
}

// leaveEnd undoes open.
func (l *Device) leaveEnd() error {
	if l.opener != nil {
		return l.opener.Close()
	}
	return l.place.Close()
}

// Side returns which end of the link ours is, 0 or 1.
func (l *Device) Side() int {
	if l.opener != nil {
		return l.opener.Side()
	}
	return l.place.Self().Side
}

// Shared reports whether this is a shared-memory hub: any number of processes of both sides.
func (l *Device) Shared() bool { return l.place != nil }

// Up reports whether the port is active: the link is up. In a hub it always is, as a process finds
// itself there.
func (l *Device) Up() bool {
	if l.Shared() {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.home.node.Up()
}

// WasUp reports whether the port has ever been active.
func (l *Device) WasUp() bool {
	if l.Shared() {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.home.node.Channel().Count[channel.LinkUps] > 0
}

// Reset begins all links afresh: connected queue pairs are flushed at both ends.
func (l *Device) Reset() {
	l.mu.Lock()
	now := monotime.Now()
	for _, x := range l.all {
		x.node.Reset(now)
		x.turn(now)
	}
	l.deliverUnlock()
}

// SetAddrs sets the addresses of our port; peers are notified.
func (l *Device) SetAddrs(list []netip.Addr) {
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
	l.deliverUnlock()
}

// Watch has f called, without locks, when a link comes up and when one is lost, and
// when the device is lost for good. stop ends that.
func (l *Device) Watch(f func(LinkChange)) (stop func()) {
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

// deliverUnlock hands out events and datagrams, and releases the lock. One thread does so
// at a time, so that they keep their order.
func (l *Device) deliverUnlock() {
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

// deliverOne delivers one event; it gives the lock back meanwhile.
func (l *Device) deliverOne() bool {
	if l.handlers.nextLate(l) {
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
			l.forget(x)
		}
	}
	return false
}

func (l *Device) deliverOf(x *peerLink) bool {
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
		c := l.eng.Find(q.QPN)
		if c == nil || c.Machine() != q || c.Closed() {
			return true
		}
		for e, ok := q.PollEvent(); ok && !c.Closed(); e, ok = q.PollEvent() {
			c.NoteCause()
			l.mu.Unlock()
			c.OnEvent(e)
			l.mu.Lock()
		}
		return true
	}
	return l.handlers.next(x)
}

// changed reports a change of a link.
func (l *Device) changed(x *peerLink, c LinkChange) {
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

// linkCounts counts the events of links themselves.
type linkCounts struct {
	node    [rdma.NumNodeCounters]uint64
	channel [channel.NumCounters]uint64
}

func (c *linkCounts) add(n *rdma.Node) {
	engine.Accumulate(c.node[:], n.Count[:])
	engine.Accumulate(c.channel[:], n.Channel().Count[:])
}

// counts returns the counts of the links.
func (l *Device) counts() (list []engine.Counter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := l.past
	for _, x := range l.all {
		sum.add(x.node)
	}
	for i := range rdma.NumNodeCounters {
		list = append(list, engine.Counter{Name: i.String(), Value: sum.node[i]})
	}
	for i := range channel.NumCounters {
		list = append(list, engine.Counter{Name: i.String(), Value: sum.channel[i]})
	}
	return append(list, engine.Counter{Name: "open_refused", Value: l.refused})
}
