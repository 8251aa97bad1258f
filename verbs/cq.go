// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"context"
	"iter"
	"runtime/trace"
	"time"

	"verbena/ib"
	"verbena/internal/core"
)

// CQ is a completion queue: ibv_cq.
type CQ core.CQ

// CreateCQ creates a queue for depth completions: ibv_create_cq(3). Events that RequestNotify
// asks for go to channel. With nil the queue has none, and goroutines may block in its Wait.
func (c *Context) CreateCQ(depth int, channel *CompChannel) (*CQ, error) {
	v, err := (*core.Context)(c).CreateCQ(depth, (*core.CompChannel)(channel))
	return (*CQ)(v), err
}

// Poll moves up to len(wc) completions into wc and returns their number: ibv_poll_cq(3). It
// never blocks and does not allocate. If it finds no completion it reads the network once.
//
// Errors: ENOMEM after an overrun, which has lost completions; EINVAL once the queue is destroyed,
// EBADF once its context is closed.
func (q *CQ) Poll(wc []ib.WC) (int, error) { return (*core.CQ)(q).Poll(wc) }

// Wait is Poll, and blocks while the queue is empty: it returns at least one completion, or an
// error. Any number of goroutines may wait for one queue, which was created without a channel.
//
// Errors: those of Poll; EINVAL if the queue has a channel; that of ctx if ctx ends first. While
// there are completions Wait returns them, even if ctx has ended.
func (q *CQ) Wait(ctx context.Context, wc []ib.WC) (int, error) {
	if trace.IsEnabled() {
		defer trace.StartRegion(ctx, "verbs.CQ.Wait").End()
	}
	return (*core.CQ)(q).Wait(ctx, wc)
}

// Await blocks until the queue has a completion, and leaves it there: for a program in which any of
// several goroutines takes the completions of all. It may return early. The queue was created
// without a channel. Call Poll or Take until it returns 0 before.
//
// Errors: EINVAL if the queue has a channel or is destroyed; that of ctx if ctx ends first.
func (q *CQ) Await(ctx context.Context) error { return (*core.CQ)(q).Await(ctx) }

// Take is Poll of the completions that are there: it does not read the network. A goroutine that
// finds none goes on to Await.
//
// Errors: those of Poll.
func (q *CQ) Take(wc []ib.WC) (int, error) { return (*core.CQ)(q).Take(wc) }

// Wake ends an Await. If no goroutine is there, the next Await returns at once.
func (q *CQ) Wake() { (*core.CQ)(q).Wake() }

// Completions returns an iterator over the queue's completions, failed ones too, which blocks
// while there is none. It ends behind the first error of Wait, that of ctx among others. A loop
// that breaks leaves the completions that it has not seen in the queue.
func (q *CQ) Completions(ctx context.Context) iter.Seq2[ib.WC, error] {
	return func(yield func(ib.WC, error) bool) {
		wc := make([]ib.WC, 1)
		for {
			if _, err := q.Wait(ctx, wc); err != nil {
				yield(ib.WC{}, err)
				return
			}
			if !yield(wc[0], nil) {
				return
			}
		}
	}
}

// Batches returns an iterator like that of Completions. It yields as many completions at once as
// there are, up to len(wc). They are a part of wc, which the next batch overwrites.
func (q *CQ) Batches(ctx context.Context, wc []ib.WC) iter.Seq2[[]ib.WC, error] {
	return func(yield func([]ib.WC, error) bool) {
		for {
			n, err := q.Wait(ctx, wc)
			if !yield(wc[:n], err) || err != nil {
				return
			}
		}
	}
}

// CreateTimedCQ creates a queue that keeps the time of each completion, which PollTimed returns:
// ibv_create_cq_ex(3) with completion timestamps. The clock is read for each completion.
func (c *Context) CreateTimedCQ(depth int, channel *CompChannel) (*CQ, error) {
	v, err := (*core.Context)(c).CreateTimedCQ(depth, (*core.CompChannel)(channel))
	return (*CQ)(v), err
}

// PollTimed is Poll, and stores in times when the device completed each work request. It has room
// for as many elements as wc. The times are zero unless CreateTimedCQ created the queue.
func (q *CQ) PollTimed(wc []ib.WC, times []ib.WCTime) (int, error) {
	return (*core.CQ)(q).PollTimed(wc, times)
}

// RequestNotify asks for one event on the channel at the next completion: ibv_req_notify_cq(3).
// With solicitedOnly it asks for one at the next completion that is solicited or failed.
//
// A completion that arrived since the last event and was not polled yet raises the event at
// once. Completions from before the last event raise none. So call RequestNotify first, then
// poll until the queue is empty, then wait.
func (q *CQ) RequestNotify(solicitedOnly bool) error {
	err := (*core.CQ)(q).RequestNotify(solicitedOnly)
	(*core.CQ)(q).LogNotify(err)
	return err
}

// Depth returns the number of completions that the queue can hold.
func (q *CQ) Depth() int { return (*core.CQ)(q).Depth() }

// Resize changes the depth: ibv_resize_cq(3). Errors: EINVAL if the queue holds more completions
// than that.
func (q *CQ) Resize(depth int) error { return (*core.CQ)(q).Resize(depth) }

// Moderate makes one event of count completions, or of fewer once period has passed since the
// first: ibv_modify_cq(3). Only completions that RequestNotify asked for count. With a count of 0
// or 1, or a period of 0, each completion makes an event, as at first. Wait and Await of a queue
// without a channel return with the event too.
//
// Errors: EINVAL for a count or a period beyond DeviceAttr.CQModeration; EINVAL once the queue is
// destroyed, EBADF once its context is closed.
func (q *CQ) Moderate(count int, period time.Duration) error {
	return (*core.CQ)(q).Moderate(count, period)
}

// Destroy removes the queue: ibv_destroy_cq(3). Errors: EBUSY while a queue pair uses it.
func (q *CQ) Destroy() error { return (*core.CQ)(q).Destroy() }

// CompChannel announces completions of any number of completion queues to an application that
// waits instead of polling: ibv_comp_channel.
type CompChannel core.CompChannel

// CreateCompChannel creates a completion channel: ibv_create_comp_channel(3).
func (c *Context) CreateCompChannel() (*CompChannel, error) {
	v, err := (*core.Context)(c).CreateCompChannel()
	return (*CompChannel)(v), err
}

// Wait blocks until a completion queue on the channel has an event, and returns that queue:
// ibv_get_cq_event(3). Call RequestNotify again before polling the queue until it is empty.
// Events need no acknowledgement.
//
// Errors: that of ctx if ctx ends first; EBADF once the channel is closed.
func (c *CompChannel) Wait(ctx context.Context) (*CQ, error) {
	if trace.IsEnabled() {
		defer trace.StartRegion(ctx, "verbs.CompChannel.Wait").End()
	}
	v, err := (*core.CompChannel)(c).Wait(ctx)
	return (*CQ)(v), err
}

// Close removes the channel and wakes goroutines in Wait: ibv_destroy_comp_channel(3). Errors:
// EBUSY while a completion queue uses it.
func (c *CompChannel) Close() error { return (*core.CompChannel)(c).Close() }
