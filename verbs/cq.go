// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"context"

	"verbena/ib"
	"verbena/internal/core"
)

// CQ is a completion queue: ibv_cq.
type CQ core.CQ

// CreateCQ creates a queue for depth completions: ibv_create_cq(3). channel,
// which may be nil, is where RequestNotify's events go.
func (c *Context) CreateCQ(depth int, channel *CompChannel) (*CQ, error) {
	v, err := (*core.Context)(c).CreateCQ(depth, (*core.CompChannel)(channel))
	return (*CQ)(v), err
}

// Poll moves up to len(wc) completions into wc and returns how many, 0 if
// there are none: ibv_poll_cq(3). It never blocks and does not allocate. Where
// it finds nothing it reads the network once.
//
// Errors: ENOMEM after an overrun, when completions were lost.
func (q *CQ) Poll(wc []ib.WC) (int, error) { return (*core.CQ)(q).Poll(wc) }

// RequestNotify asks for one event on the channel at the next completion, or
// with solicitedOnly at the next that is solicited or failed:
// ibv_req_notify_cq(3). A completion that came since the last event and was not
// polled yet makes it at once, as on devices; those of before the last event
// make none: ask first, then poll until the queue is empty, then wait.
func (q *CQ) RequestNotify(solicitedOnly bool) error {
	return (*core.CQ)(q).RequestNotify(solicitedOnly)
}

// Depth returns how many completions the queue holds.
func (q *CQ) Depth() int { return (*core.CQ)(q).Depth() }

// Resize changes the depth: ibv_resize_cq(3). Errors: EINVAL if more
// completions wait than fit.
func (q *CQ) Resize(depth int) error { return (*core.CQ)(q).Resize(depth) }

// Destroy removes the queue: ibv_destroy_cq(3). Errors: EBUSY while a queue
// pair uses it.
func (q *CQ) Destroy() error { return (*core.CQ)(q).Destroy() }

// CompChannel is where completion queues announce completions to an
// application that waits instead of polling: ibv_comp_channel.
type CompChannel core.CompChannel

// CreateCompChannel creates a completion channel: ibv_create_comp_channel(3).
func (c *Context) CreateCompChannel() (*CompChannel, error) {
	v, err := (*core.Context)(c).CreateCompChannel()
	return (*CompChannel)(v), err
}

// Wait blocks until a completion queue on the channel has an event and returns
// that queue: ibv_get_cq_event(3). Ask again with RequestNotify before polling
// it empty. Events need no acknowledgement. It returns ctx's error if ctx ends
// first and EBADF once the channel is closed.
func (c *CompChannel) Wait(ctx context.Context) (*CQ, error) {
	v, err := (*core.CompChannel)(c).Wait(ctx)
	return (*CQ)(v), err
}

// Close removes the channel and wakes who waits: ibv_destroy_comp_channel(3).
// Errors: EBUSY while a completion queue uses it.
func (c *CompChannel) Close() error { return (*core.CompChannel)(c).Close() }
