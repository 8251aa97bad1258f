// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"syscall"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/engine"
	"verbena/internal/mem"
	"verbena/internal/queue"
)

// CQ is a completion queue: ibv_cq.
type CQ struct {
	ctx      *Context
	number   uint32 // immutable: of the process
	ring     *queue.CQ
	lane     atomic.Pointer[engine.Lane]
	channel  *CompChannel // immutable: the application's; nil for Wait, and in C
	notifies bool         // immutable: RequestNotify is allowed
	users    atomic.Int32 // queue pairs; -1 once destroyed
	overrun  atomic.Bool  // EventCQErr was raised

	own     sync.Once    // makes waitOn, or prevents that once the queue is destroyed
	waitOn  *CompChannel // of Wait; set under own
	waiters atomic.Int32 // goroutines in Wait

	moderated sync.Once     // makes alarm, or prevents that once the queue is destroyed
	alarm     *engine.Alarm // of Moderate; set under moderated
}

// CreateCQ creates a queue for depth completions: ibv_create_cq(3).
func (c *Context) CreateCQ(depth int, channel *CompChannel) (q *CQ, err error) {
	defer func() { c.logCall("ibv_create_cq", err, "depth", depth) }()
	if err := c.alive(); err != nil {
		return nil, err
	}
	if err := device.CheckRange("depth", depth, 1, device.MaxCQE); err != nil {
		return nil, err
	}
	if channel != nil && channel.ctx != c {
		return nil, invalid("channel", "belongs to another context")
	}
	q = &CQ{ctx: c, ring: queue.NewCQ(depth), channel: channel, notifies: channel != nil}
	q.lane.Store(c.eng.NewLane())
	if channel != nil {
		if err := use(&channel.users, "channel"); err != nil {
			return nil, err
		}
	}
	q.ring.OnEvent = func() { c.eng.Woken(); q.events().put(q) }
	q.enter()
	return q, nil
}

// enter numbers the queue and adds it to those of its context.
func (q *CQ) enter() {
	q.number = q.ctx.host.numbers.Add(1)
	q.ctx.mu.Lock()
	q.ctx.cqs[q] = struct{}{}
	q.ctx.mu.Unlock()
}

// events returns the channel that an armed queue tells of completions.
func (q *CQ) events() *CompChannel {
	if q.channel != nil {
		return q.channel
	}
	return q.waitOn // Wait has set it before it armed the queue
}

// CreateTimedCQ is CreateCQ for a queue that PollTimed polls: ibv_create_cq_ex(3).
func (c *Context) CreateTimedCQ(depth int, channel *CompChannel) (*CQ, error) {
	q, err := c.CreateCQ(depth, channel)
	if err == nil {
		q.ring.KeepTimes(engine.Clock)
	}
	return q, err
}

// CreateCQIn is CreateCQ over the C library's memory, which the library polls by itself: see
// queue.NewCQIn. notify is called for every event that RequestNotify asked for, and next as
// AwaitNext says. Both may be nil, and must not block nor call back. armed, which may be nil,
// counts the queues that are to notify.
func (c *Context) CreateCQIn(r *queue.Ring, slots []ib.WC, times []ib.WCTime, depth int,
	notify, next func(), armed *atomic.Int32) (q *CQ, err error) {
	defer func() { c.logCall("ibv_create_cq", err, "depth", depth) }()
	if err := c.alive(); err != nil {
		return nil, err
	}
	if err := device.CheckRange("depth", depth, 1, device.MaxCQE); err != nil {
		return nil, err
	}
	ring, err := queue.NewCQIn(r, slots, times, depth)
	if err != nil {
		return nil, invalid("slots", "%v", err)
	}
	if notify != nil {
		ring.OnEvent = func() { c.eng.Woken(); notify() }
		ring.OnNext = func() { c.eng.Woken(); next() }
	}
	ring.Armed = armed
	if times != nil {
		ring.Clock = engine.Clock
	}
	q = &CQ{ctx: c, ring: ring, notifies: notify != nil}
	q.lane.Store(c.eng.NewLane())
	q.enter()
	return q, nil
}

// Lane returns the engine's for the queue. A thread that polls the queue by itself polls it.
func (q *CQ) Lane() *engine.Lane { return q.lane.Load() }

// laneFor returns the Lane of a new queue pair, from its queues. recv may be nil. A queue that has
// no other queue pair takes the Lane of the other queue.
func laneFor(send, recv *CQ) *engine.Lane {
	switch {
	case send == nil && recv == nil:
		return nil
	case send == nil:
		return recv.Lane()
	case recv == nil || send == recv:
	case recv.users.Load() == 1: // the new one
		recv.lane.Store(send.Lane())
	case send.users.Load() == 1:
		send.lane.Store(recv.Lane())
	default:
		return recv.Lane()
	}
	return send.Lane()
}

// Poll moves up to len(wc) completions into wc and returns how many, 0 if there are none:
// ibv_poll_cq(3).
func (q *CQ) Poll(wc []ib.WC) (int, error) { return q.PollTimed(wc, nil) }

// PollTimed is Poll, and stores when the completions were pushed in times, unless it is nil.
func (q *CQ) PollTimed(wc []ib.WC, times []ib.WCTime) (int, error) {
	if times != nil && len(times) < len(wc) {
		return 0, invalid("times", "has %d elements, wc %d", len(times), len(wc))
	}
	if n := q.ring.PollTimed(wc, times); n > 0 {
		return n, nil
	}
	lane := q.Lane()
	lane.Poll()
	if n := q.ring.PollTimed(wc, times); n > 0 {
		return n, nil
	}
	lane.Flush()
	lane.GiveWay()
	return 0, q.sound()
}

// sound returns an error if the queue has lost completions, or is not alive.
func (q *CQ) sound() error {
	if q.overrun.Load() {
		return fail(syscall.ENOMEM, "CQ", "overran its depth of %d: completions were lost",
			q.ring.Cap())
	}
	return q.alive()
}

// alive returns an error once the queue is destroyed or its context closed.
func (q *CQ) alive() error {
	if q.users.Load() < 0 {
		return invalid("CQ", "was destroyed")
	}
	return q.ctx.alive()
}

// Wait is Poll, and blocks while the queue is empty. It returns at least one completion.
func (q *CQ) Wait(ctx context.Context, wc []ib.WC) (int, error) {
	if len(wc) == 0 {
		return 0, invalid("wc", "has no room for a completion")
	}
	if q.channel != nil {
		return 0, invalid("CQ", "has a completion channel: wait for that")
	}
	if n, err := q.Poll(wc); n > 0 || err != nil {
		return n, err
	}
	ch, err := q.ownChannel()
	if err != nil {
		return 0, err
	}
	q.waiters.Add(1)
	defer q.waiters.Add(-1)
	for {
		q.ring.Arm(false)
		if n, err := q.Poll(wc); n > 0 || err != nil {
			if q.waiters.Load() > 1 {
				q.passEvent(ch)
			}
			return n, err
		}
		if _, err := ch.Wait(ctx); err != nil {
			return 0, cmp.Or(q.alive(), err)
		}
	}
}

// Await blocks until the queue has a completion, which it leaves there, or until Wake. It may
// return early.
func (q *CQ) Await(ctx context.Context) error {
	if q.channel != nil {
		return invalid("CQ", "has a completion channel: wait for that")
	}
	ch, err := q.ownChannel()
	if err != nil {
		return err
	}
	q.ring.Arm(false)
	if q.ring.Len() > 0 || q.overrun.Load() {
		return nil
	}
	if _, err := ch.Wait(ctx); err != nil {
		return cmp.Or(q.alive(), err)
	}
	return nil
}

// Wake ends an Await, the next one if no goroutine is there.
func (q *CQ) Wake() {
	if q.channel != nil {
		return
	}
	if ch, err := q.ownChannel(); err == nil {
		ch.put(q)
	}
}

// passEvent makes up for the event that a goroutine in Wait may have taken: there is one for all
// completions that came before it, and the goroutine leaves others in the queue.
func (q *CQ) passEvent(ch *CompChannel) {
	if q.ring.Len() > 0 {
		ch.put(q)
		return
	}
	q.ring.Arm(false)
}

// ownChannel returns the channel of a queue that was created without one.
func (q *CQ) ownChannel() (ch *CompChannel, err error) {
	q.own.Do(func() {
		if q.waitOn, err = q.ctx.CreateCompChannel(); err == nil {
			q.waitOn.single = true
		}
	})
	if q.waitOn == nil {
		return nil, cmp.Or(err, q.alive())
	}
	return q.waitOn, nil
}

// RequestNotify asks for one event on the channel at the next completion, or with solicitedOnly
// at the next that is solicited or failed: ibv_req_notify_cq(3).
func (q *CQ) RequestNotify(solicitedOnly bool) error {
	if err := q.alive(); err != nil {
		return err
	}
	if !q.notifies {
		return invalid("CQ", "was created without a completion channel")
	}
	q.ring.Arm(solicitedOnly)
	return nil
}

// LogNotify writes a RequestNotify to the log.
func (q *CQ) LogNotify(err error) { q.ctx.LogQuery("ibv_req_notify_cq", err) }

// Gather has the queue's Lane be that of all queues for which goroutines wait: their answers leave
// together. It is to be called before the queue has a queue pair.
func (q *CQ) Gather() { q.lane.Store(q.ctx.eng.WaitLane()) }

// beside adds what a completion goes through to the objects that a connection preloads.
func (q *CQ) beside(c *engine.Conn) {
	c.Near.Beside(mem.LinesOf(q))
	for _, l := range q.ring.Lines() {
		c.Near.Beside(l)
	}
}

// Take is Poll of the completions that are there already: it does not read the network. It is for
// a goroutine that goes on to Await.
func (q *CQ) Take(wc []ib.WC) (int, error) {
	if n := q.ring.PollTimed(wc, nil); n > 0 {
		return n, nil
	}
	return 0, q.sound()
}

// AwaitNext asks for a call at the next completion, as queue.CQ.AwaitNext does.
func (q *CQ) AwaitNext(n int) bool { return q.ring.AwaitNext(n) }

// Len returns the number of completions in the queue.
func (q *CQ) Len() int { return q.ring.Len() }

// Depth returns how many completions the queue holds.
func (q *CQ) Depth() int { return q.ring.Cap() }

// Resize changes the depth: ibv_resize_cq(3).
func (q *CQ) Resize(depth int) (err error) {
	defer func() { q.ctx.logCall("ibv_resize_cq", err, "depth", depth) }()
	if q.users.Load() < 0 {
		return invalid("CQ", "was destroyed")
	}
	if err := device.CheckRange("depth", depth, 1, device.MaxCQE); err != nil {
		return err
	}
	if err := q.ring.Resize(depth); err != nil {
		return invalid("depth", "%v", err)
	}
	return nil
}

// ResizeIn is Resize of a queue that CreateCQIn made, moving it to other memory.
func (q *CQ) ResizeIn(depth int, slots []ib.WC, times []ib.WCTime) (err error) {
	defer func() { q.ctx.logCall("ibv_resize_cq", err, "depth", depth) }()
	if q.users.Load() < 0 {
		return invalid("CQ", "was destroyed")
	}
	if err := device.CheckRange("depth", depth, 1, device.MaxCQE); err != nil {
		return err
	}
	if err := q.ring.ResizeIn(depth, slots, times); err != nil {
		return invalid("depth", "%v", err)
	}
	return nil
}

// Destroy removes the queue: ibv_destroy_cq(3).
func (q *CQ) Destroy() (err error) {
	defer func() { q.ctx.logCall("ibv_destroy_cq", err, "depth", q.Depth()) }()
	if err := retire(&q.users, "CQ"); err != nil {
		return err
	}
	q.ctx.mu.Lock()
	delete(q.ctx.cqs, q)
	q.ctx.mu.Unlock()
	q.ctx.events.forget(func(e *AsyncEvent) bool { return e.CQ == q })
	q.ring.Disarm()
	q.closeAlarm()
	if q.channel != nil {
		q.channel.forget(q)
		q.channel.users.Add(-1)
		return nil
	}
	q.own.Do(func() {}) // a Wait from now on makes no channel
	if q.waitOn != nil {
		return q.waitOn.Close()
	}
	return nil
}

// push adds a completion of a machine.
func (q *CQ) push(wc *ib.WC, solicited bool) bool {
	if q.ctx.log != nil {
		q.ctx.log.completed(q.ctx, wc)
	}
	if wc.Status != ib.WCSuccess && wc.Status != ib.WCWRFlushErr {
		q.ctx.host.record(true, "WR %d of QP %v: %v", wc.WRID, wc.QPN, wc.Status)
	}
	if q.ring.Push(wc, solicited) {
		return true
	}
	if !q.overrun.Swap(true) {
		q.ctx.events.put(AsyncEvent{Type: ib.EventCQErr, CQ: q})
	}
	return false
}

// completer is a CQ as machines see it.
type completer struct{ cq *CQ }

func (c completer) Push(wc *ib.WC, solicited bool) bool { return c.cq.push(wc, solicited) }

// Clock returns the time of the device now: ibv_query_rt_values_ex(3).
func (c *Context) Clock() ib.WCTime { return engine.Clock() }
