// SPDX-License-Identifier: BSD-2-Clause

package rdma

import (
	"net/netip"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/ntb/channel"
	"verbena/internal/ntb/window"
	wire "verbena/internal/wire/ntb"
)

// A Node is one end of a link, and the queue pairs on it.
type Node struct {
	Count [NumNodeCounters]uint64

	ch   *channel.Channel
	mem  *mem.Table
	near window.Far // the peer's, where it is mapped here

	// of the session, from HelloSend or LinkUp on
	own    layout
	peer   wire.Resources
	prep   wire.Prepare
	bells  bells
	arena  *arena // of the peer's window: data on its way
	cmds   commander
	server server
	rmrs   map[rkey]*rmr
	rmr    *rmr         // looked up last; nil if rmrs has changed since
	rqps   map[qpn]*rqp // by the peer's number
	work   []*rqp       // with requests to look at, in turn
	ready  []*QP        // that may have something to send, in turn

	mads      datagrams
	frames    datagrams
	peerAddrs []netip.Addr

	serial uint32 // of the last far half

	turn int // whose the last one was: see PollOutput

	appMemory
	told []*QP // that raised events

	qps     []*QP // in the order of their making: runs must not depend on a map's
	byQPN   map[qpn]*QP
	regions []*region
	addrs   []netip.Addr // of our port
	events  []ib.EventType
	last    source
	scanned uint32 // the signal word at the last scan
	rescan  bool
	wake    monotime.Time // no queue pair's retryAt is earlier; nor is roomPause over
	faults  []fault       // answers owed
	wqes    []byte        // room for the WQEs of a batch
	used    int           // bytes of the last of them that count
	spans   []mem.Span    // room for one
	scratch [scratchBytes]byte
	line    [wire.LineBytes]byte
	wqe     wire.WQE // of a line

	watched []*rqp // whose rings are looked at without a doorbell
	takes   uint64 // looks at the rings that found something
}

// source is the origin of the last batch.
type source struct {
	qp   *QP
	rqp  *rqp
	from wire.Index
}

// New returns a node of a device with its key table. seed gives the random
// numbers of sessions.
func New(table *mem.Table, seed func() uint64) *Node {
	n := &Node{
		mem: table, byQPN: map[qpn]*QP{}, wake: monotime.Never,
		mads:   datagrams{counts: int(SentMADs), backlog: madBacklog},
		frames: datagrams{counts: int(SentFrames)},
	}
	n.ch = channel.New(n, seed)
	return n
}

// Attach gives the node its back end: the peer writes own, and peerBytes is the length of the
// window that the node writes.
func (n *Node) Attach(now monotime.Time, own *window.Window, peerBytes uint64) {
	n.ch.Attach(now, own, peerBytes)
}

// Reach gives the node the peer's window where it is mapped here, so that stores
// reach it before any batch does: before Attach, and none when it is mapped no more.
func (n *Node) Reach(peer window.Far) { n.near = peer }

// Detach handles the loss of the back end.
func (n *Node) Detach(now monotime.Time) {
	n.near = window.Far{}
	n.ch.Detach(now)
}

// Reset begins the link afresh; all that is connected is flushed.
func (n *Node) Reset(now monotime.Time) { n.ch.Reset(now) }

// Channel returns the link, for its state, its counters, and sleeping.
func (n *Node) Channel() *channel.Channel { return n.ch }

// Handle reads the peer's writes: after a signal, or when polling.
func (n *Node) Handle(now monotime.Time) {
	if n.ch.Handle(now) && (n.rescan || n.ch.Seen() != n.scanned) {
		n.scan(now)
	}
	n.Take()
}

// PollOutput fills b with the writes of one source; false if there are none. b
// is carried out and reset before the next call.
func (n *Node) PollOutput(now monotime.Time, b *channel.Batch) (busy bool) {
	n.last = source{}
	if n.ch.PollOutput(b) {
		return true
	}
	if n.ch.State() != channel.Up {
		return false
	}
	if n.pollCommands(b) {
		return true
	}
	if n.pollFaults(b) {
		return true
	}
	// By turns: a peer that asks and asks does not keep us from asking, and frames
	// keep no queue pair from it.
	for range turns {
		n.turn = (n.turn + 1) % turns
		switch n.turn {
		case 0:
			busy = n.pollAnswers(now, b)
		case 1:
			busy = n.pollRequests(now, b)
		case 2:
			if busy = n.pollDatagrams(now, b); busy && !n.Up() {
				return n.ch.PollOutput(b)
			}
		}
		if busy {
			return true
		}
	}
	return false
}

const turns = 3

// pollAnswers has one far half execute requests and answer them.
func (n *Node) pollAnswers(now monotime.Time, b *channel.Batch) bool {
	for len(n.work) > 0 {
		r := n.work[0]
		n.work = n.work[:copy(n.work, n.work[1:])]
		r.queued = false
		if r.run(now, b) {
			return true
		}
	}
	return false
}

// pollRequests has one queue pair send.
func (n *Node) pollRequests(now monotime.Time, b *channel.Batch) bool {
	for len(n.ready) > 0 {
		q := n.ready[0]
		n.ready = n.ready[:copy(n.ready, n.ready[1:])]
		q.queued = false
		if q.output(now, b) {
			return true
		}
	}
	return false
}

// HandleFault handles a batch that could not be carried out to its end, because memory that it
// reads is not mapped any more.
func (n *Node) HandleFault(now monotime.Time) {
	switch l := n.last; {
	case l.qp != nil:
		l.qp.handleFault(now)
	case l.rqp != nil:
		l.rqp.handleFault(now, l.from)
	}
}

// NextTimeout returns when HandleTimeout is due.
func (n *Node) NextTimeout() monotime.Time {
	return min(n.ch.NextTimeout(), n.wake)
}

// HandleTimeout does due work.
func (n *Node) HandleTimeout(now monotime.Time) {
	n.ch.HandleTimeout(now)
	if n.ch.State() == channel.Up {
		n.scan(now)
		n.Take()
		n.Settle()
	}
	if n.ch.State() == channel.Up && n.cmds.overdue(now) {
		n.Count[CommandLate]++
		n.ch.Reset(now)
	}
	if now.Before(n.wake) {
		return
	}
	n.wake = monotime.Never
	for _, q := range n.qps {
		q.HandleTimeout(now)
		n.wake = min(n.wake, q.retryAt)
	}
}

// kick has PollOutput look at q.
func (n *Node) kick(q *QP) {
	if !q.queued {
		q.queued = true
		n.ready = append(n.ready, q)
	}
}

// LinkUp announces addresses, regions and queue pairs.
func (n *Node) LinkUp(now monotime.Time) {
	// perhaps behind a PORT_ERR, which is reported in any case
	n.events = append(n.events, ib.EventPortActive)
	n.rescan = true
	if len(n.addrs) > 0 {
		n.announceAddrs()
	}
	for _, r := range n.regions {
		if !r.withdrawn {
			n.announceRegion(r)
		}
	}
	for _, q := range n.qps {
		q.announce(now)
	}
}

// LinkDown flushes connected queue pairs.
func (n *Node) LinkDown(now monotime.Time) {
	n.events = append(n.events[:0], ib.EventPortErr)
	n.rqps, n.rmrs, n.rmr, n.work, n.faults, n.watched, n.last = nil, nil, nil, n.work[:0],
		n.faults[:0], n.watched[:0], source{}
	n.cmds.abandon()
	n.cmds, n.server = commander{}, server{}
	n.mads.waiting, n.frames.waiting, n.peerAddrs = n.mads.waiting[:0], n.frames.waiting[:0], nil
	for _, r := range n.regions {
		r.announced = false
	}
	for _, q := range n.qps {
		q.linkDown(now)
	}
}

// Up reports whether the link is up: the port is active.
func (n *Node) Up() bool { return n.ch.State() == channel.Up }

// PollLinkEvent returns the next PORT_ACTIVE or PORT_ERR.
func (n *Node) PollLinkEvent() (ib.EventType, bool) {
	if len(n.events) == 0 {
		return 0, false
	}
	e := n.events[0]
	n.events = n.events[:copy(n.events, n.events[1:])]
	return e, true
}
