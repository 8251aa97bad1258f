// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"context"

	"verbena/ib"
	"verbena/internal/core"
)

// CQ is a completion queue: ibv_cq.
type CQ core.CQ

// CreateCQ creates a queue for depth completions: ibv_create_cq(3). Events that RequestNotify
// asks for go to channel, which may be nil.
func (c *Context) CreateCQ(depth int, channel *CompChannel) (*CQ, error) {
	v, err := (*core.Context)(c).CreateCQ(depth, (*core.CompChannel)(channel))
	return (*CQ)(v), err
}

// Poll moves up to len(wc) completions into wc and returns their number: ibv_poll_cq(3). It
// never blocks and does not allocate. If it finds no completion it reads the network once.
//
// Errors: ENOMEM after an overrun, which has lost completions.
func (q *CQ) Poll(wc []ib.WC) (int, error) { return (*core.CQ)(q).Poll(wc) }

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
	return (*core.CQ)(q).RequestNotify(solicitedOnly)
}

// Depth returns the number of completions that the queue can hold.
func (q *CQ) Depth() int { return (*core.CQ)(q).Depth() }

// Resize changes the depth: ibv_resize_cq(3). Errors: EINVAL if the queue holds more completions
// than that.
func (q *CQ) Resize(depth int) error { return (*core.CQ)(q).Resize(depth) }

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
	v, err := (*core.CompChannel)(c).Wait(ctx)
	return (*CQ)(v), err
}

// Close removes the channel and wakes goroutines in Wait: ibv_destroy_comp_channel(3). Errors:
// EBUSY while a completion queue uses it.
func (c *CompChannel) Close() error { return (*core.CompChannel)(c).Close() }
