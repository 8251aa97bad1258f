// SPDX-License-Identifier: BSD-2-Clause

package shm

import (
	"slices"
	"sync"
	"sync/atomic"

	"verbena/internal/engine"
	"verbena/internal/monotime"
	"verbena/internal/sys/shmring"
)

// Config configures Rings.
type Config struct {
	Slot int // of this process among those of its user on this host
	// Path returns the Unix socket where the process of a slot is found; empty where
	// processes do not find each other.
	Path func(slot int) string
	// NewReader makes the reader of a ring from the process of a slot, which counts the packets.
	NewReader func(slot int, rcvd *atomic.Uint64) Reader
	// Unanswered reports whether packets of the process of a slot, which were handled, wait for
	// another process. Its questions are answered afterwards. It may be nil.
	Unanswered func(slot int) bool
	// OnEnd is called when the process at the other end has ended, after the last that it
	// had written was read. The background goroutine calls it.
	OnEnd func(*Out)
}

// A Reader handles the packets of a ring. Its methods are called by one thread at a time.
type Reader interface {
	// Ahead has the bursts that come next, at most MaxAhead, so that the reader can ask for the
	// memory that they are about. They are without addresses. The process at the other end may
	// write them meanwhile.
	Ahead(bursts [][]byte)
	// Burst handles a burst of packets. With mayDelayAck acknowledgements that can wait are
	// left to Engine.Flush. The process at the other end may write m.Data meanwhile.
	Burst(now monotime.Time, m *shmring.Message, mayDelayAck bool)
	// EndTurn sends pending output of the bursts since the last EndTurn. now is theirs.
	EndTurn(now monotime.Time, mayDelayAck bool)
}

// Rings are those of a process: one from and one to each process that it has connections
// with, and one within it for each Lane.
type Rings struct {
	// immutable after Open
	eng      *engine.Engine
	config   Config
	on       bool
	self     shmring.Identity
	listener *shmring.Listener // nil: there are no rings to others
	board    *shmring.Board    // shows the rings; nil: nothing does

	// Count counts packets.
	Count Counters

	rings  atomic.Pointer[[]*In] // being read; replaced under mu
	waking atomic.Int32          // connections that may have something to send and are not locked

	dialMu sync.Mutex // one at a time

	mu sync.Mutex
	// guarded by mu: when Offer may dial again, by slot, after a failure or a ring's end
	again map[int]monotime.Time
	out   map[int]*Out          // guarded by mu: by slot of another process, the one to use
	loop  [engine.MaxLanes]*Out // guarded by mu: within this process, by the Lane that reads
	ends  map[*shmring.Out]*Out // guarded by mu: all that are not closed; nil after Stop
}

// Counters count packets between queue pairs of this host, which went through memory.
type Counters struct {
	lanes                          [engine.MaxLanes]laneCounters
	Refused, Lost, Corrupt, Behind atomic.Uint64
}

// laneCounters count the packets of a ring within the process; those of the first Lane also of
// rings from and to others.
type laneCounters struct {
	sent, rcvd atomic.Uint64
	_          [112]byte // threads of several Lanes count at once
}

// Append appends the counts.
func (c *Counters) Append(list []engine.Counter) []engine.Counter {
	var sent, rcvd atomic.Uint64
	for i := range c.lanes {
		sent.Add(c.lanes[i].sent.Load())
		rcvd.Add(c.lanes[i].rcvd.Load())
	}
	for _, n := range []struct {
		name  string
		value *atomic.Uint64
	}{{"local_sent_pkts", &sent}, {"local_rcvd_pkts", &rcvd}, {"local_refused", &c.Refused},
		{"local_lost", &c.Lost}, {"local_corrupt", &c.Corrupt}, {"local_behind", &c.Behind}} {
		list = append(list, engine.Counter{Name: n.name, Value: n.value.Load()})
	}
	return list
}

// dialTimeout is the age of a ring up to which queue pairs that go to RTR wait for the background
// goroutine of the other process. That is back from a nap within a fraction of a millisecond if it
// gets a core. A process that refuses rings does so in that time. A process that says nothing is
// taken to be held up, and gets a ring. All queue pairs together wait that long.
const dialTimeout = 50 * monotime.Millisecond

// Open finds out whether there can be rings, and takes those of other processes. It is
// called before the background goroutine runs.
func Open(e *engine.Engine, c Config) *Rings {
	l := &Rings{eng: e, config: c, out: map[int]*Out{}, ends: map[*shmring.Out]*Out{},
		again: map[int]monotime.Time{}}
	l.rings.Store(&[]*In{})
	var err error
	if l.self, err = shmring.NetNamespace(c.Slot); err != nil {
		return l
	}
	l.on = true
	path := c.Path(l.self.Slot)
	if path == "" {
		return l
	}
	listener, err := shmring.Listen(path, l.self, e.BellFD(), l.arrived, l.departed)
	if err != nil {
		return l // others do not find us and use sockets, and so do we
	}
	if e.Serve(listener.FD(), func() { listener.Serve() }) != nil {
		listener.Close()
		return l
	}
	l.listener = listener
	l.board = shmring.NewBoard()
	e.ShowOn(l.board)
	return l
}

// Off returns rings that lead nowhere.
func Off(e *engine.Engine, slot int) *Rings {
	l := &Rings{eng: e, self: shmring.Identity{Slot: slot}}
	l.rings.Store(&[]*In{})
	return l
}

// Withdraw has no process find this one any more, which is about to end without Stop.
func (l *Rings) Withdraw() {
	if l.listener != nil {
		l.listener.Withdraw()
	}
}

// Stop ends all rings. The background goroutine has stopped.
func (l *Rings) Stop() {
	if l.listener != nil {
		l.eng.EndService(l.listener.FD())
	}
	l.mu.Lock()
	ends := l.ends
	l.ends = nil
	l.mu.Unlock()
	for _, o := range ends {
		o.close()
	}
	for _, r := range *l.rings.Swap(&[]*In{}) {
		l.eng.RemoveRing(r)
		r.Stop()
	}
	if l.listener != nil {
		l.listener.Close()
	}
	l.board.End()
}

// Slot returns the slot of this process.
func (l *Rings) Slot() int { return l.self.Slot }

// Shared reports whether other processes find this one, and it them.
func (l *Rings) Shared() bool { return l.listener != nil }

// LeadTo reports whether there can be a ring to the process of a slot.
func (l *Rings) LeadTo(slot int) bool { return l.on && (slot == l.self.Slot || l.listener != nil) }

// To returns the ring to another process, of a slot, nil if there is none. It may wait for that
// process, also where Offer has made the ring.
func (l *Rings) To(slot int) *Out { return l.to(slot, dialTimeout) }

func (l *Rings) to(slot int, patience monotime.Duration) *Out {
	l.dialMu.Lock()
	defer l.dialMu.Unlock()
	o := l.back(slot)
	if o != nil && o.await(patience) {
		return o
	}
	return l.dial(slot, patience)
}

// Taken returns the ring to a process, of a slot, that the process has taken; nil if there is none.
// Then dial says that Offer is to be called. It does not wait.
func (l *Rings) Taken(slot int) (o *Out, dial bool) {
	l.mu.Lock()
	o, again := l.out[slot], l.again[slot]
	l.mu.Unlock()
	if o == nil {
		return nil, again == 0 || !monotime.Now().Before(again)
	}
	if !o.accepted() {
		return nil, false
	}
	return o, false
}

// redialAfter is the time between two rings that Offer makes to a process which does not take them,
// or is not there.
const redialAfter = monotime.Second

// Offer makes a ring to another process, of a slot, and does not wait for its answer: Taken
// returns the ring once there is one.
func (l *Rings) Offer(slot int) {
	if !l.dialMu.TryLock() {
		return // the next datagram asks again
	}
	defer l.dialMu.Unlock()
	if _, dial := l.Taken(slot); dial {
		l.dial(slot, 0)
	}
}

// Loop returns the ring within this process to queue pairs of a Lane.
func (l *Rings) Loop(lane *engine.Lane) *Out {
	if o := l.LoopMade(lane); o != nil {
		return o
	}
	l.dialMu.Lock()
	defer l.dialMu.Unlock()
	return l.makeLoop(lane)
}

// OfferLoop makes the ring of Loop. Like Offer it does not wait: To may wait for another process.
func (l *Rings) OfferLoop(lane *engine.Lane) {
	if l.dialMu.TryLock() {
		l.makeLoop(lane)
		l.dialMu.Unlock()
	}
}

// makeLoop makes the ring of Loop, unless it is there. The caller holds dialMu.
func (l *Rings) makeLoop(lane *engine.Lane) *Out {
	if o := l.LoopMade(lane); o != nil {
		return o
	}
	n := lane.Number()
	tx, rx := shmring.NewPair()
	l.add(&In{slot: l.self.Slot, rx: rx}, lane)
	o := &Out{rings: l, slot: l.self.Slot, tx: tx, sent: &l.Count.lanes[n].sent}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loop[n] = o
	return o
}

// LoopMade returns the ring of Loop if it is there already, else nil.
func (l *Rings) LoopMade(lane *engine.Lane) *Out {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loop[lane.Number()]
}

// backFull reports whether a ring to the process of a slot, which is there already, is full.
func (l *Rings) backFull(slot int) bool {
	if slot != l.self.Slot {
		o := l.back(slot)
		return o != nil && o.full()
	}
	l.mu.Lock()
	loop := l.loop
	l.mu.Unlock()
	for _, o := range loop {
		if o != nil && o.full() {
			return true
		}
	}
	return false
}

// back returns the ring to the process of a slot that is there already.
func (l *Rings) back(slot int) *Out {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out[slot]
}

// dial makes a ring to another process, of a slot, and uses it from now on. It returns nil if that
// is not possible. The caller holds dialMu.
func (l *Rings) dial(slot int, patience monotime.Duration) *Out {
	made := monotime.Now()
	out, err := l.listener.Dial(l.config.Path(slot), slot, patience)
	if err != nil {
		l.mu.Lock()
		l.again[slot] = monotime.Now().Add(redialAfter)
		l.mu.Unlock()
		return nil
	}
	o := &Out{rings: l, slot: slot, tx: out.Producer, out: out, sent: &l.Count.lanes[0].sent,
		made: made}
	l.mu.Lock()
	open := l.ends != nil
	if open {
		l.ends[out] = o
	}
	l.mu.Unlock()
	if !open || l.listener.Watch(out) != nil {
		l.drop(out)
		out.Close()
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ends[out] != nil { // the background goroutine has not dropped it since
		l.out[slot] = o
	}
	return o
}

// drop forgets a ring to another process and returns it, nil if it is not known.
func (l *Rings) drop(out *shmring.Out) *Out {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.ends[out]
	delete(l.ends, out)
	if o == nil {
		return nil
	}
	if l.out[o.slot] == o {
		delete(l.out, o.slot)
	}
	l.again[o.slot] = monotime.Now().Add(redialAfter)
	return o
}

// add adds a ring, which is read from now on. Its packets are for queue pairs of a Lane; of any if
// that is nil.
func (l *Rings) add(r *In, lane *engine.Lane) {
	n := 0
	if lane != nil {
		n = lane.Number()
	}
	r.rings, r.reader = l, l.config.NewReader(r.slot, &l.Count.lanes[n].rcvd)
	r.shown = r.in != nil && l.board.Show(r.rx) // Go's memory is not shown
	l.mu.Lock()
	next := append(slices.Clone(*l.rings.Load()), r)
	l.rings.Store(&next)
	l.mu.Unlock()
	if lane != nil {
		lane.AddRing(r)
	} else {
		l.eng.AddRing(r)
	}
}

// arrived takes a ring that another process made to this one.
func (l *Rings) arrived(in *shmring.In) {
	l.add(&In{slot: in.Peer.Slot, rx: in.Consumer, in: in}, nil)
}

// departed ends a ring whose other end has gone. It is called by the background
// goroutine.
func (l *Rings) departed(end any) {
	switch end := end.(type) {
	case *shmring.In:
		i := slices.IndexFunc(*l.rings.Load(), func(r *In) bool { return r.in == end })
		r := (*l.rings.Load())[i]
		r.TakeAll() // while TakeArrived can see it
		l.mu.Lock()
		next := slices.DeleteFunc(slices.Clone(*l.rings.Load()), func(o *In) bool { return o == r })
		l.rings.Store(&next)
		l.mu.Unlock()
		l.eng.RemoveRing(r)
		r.Stop()
	case *shmring.Out:
		if o := l.drop(end); o != nil {
			o.close()
			for _, r := range *l.rings.Load() { // its last words
				if r.slot == o.slot {
					r.TakeAll()
				}
			}
			l.config.OnEnd(o)
		}
	}
}

// Unread reports whether something of a process waits to be read, or is being read.
func (l *Rings) Unread(slot int) bool {
	return slices.ContainsFunc(*l.rings.Load(), func(r *In) bool {
		if r.slot != slot {
			return false
		}
		if !r.rxMu.TryLock() {
			return true
		}
		defer r.rxMu.Unlock()
		return !r.closed && r.rx.Waiting()
	})
}

// BeginWake says that a connection may have something to send and is not locked, EndWake
// that it is locked again. No question of a peer is answered in between.
func (l *Rings) BeginWake() { l.waking.Add(1) }

// EndWake ends BeginWake.
func (l *Rings) EndWake() { l.waking.Add(-1) }
