// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"context"

	"verbena/ib"
	"verbena/internal/core"
)

// AsyncEvent is an asynchronous event: ibv_async_event. The object that it concerns is set. The
// others are nil or 0.
//
// EventPortActive and EventPortErr report that the network interface can or cannot carry
// packets, EventGIDChange that it got or lost an address. Linux raises them from the first call
// of Context.AsyncEvent on. Addresses that come or go together raise one event.
type AsyncEvent struct {
	Type ib.EventType
	QP   *QP
	CQ   *CQ
	SRQ  *SRQ
	Port int // of port events; ports count from 1
}

// AsyncEvent waits for the next asynchronous event: ibv_get_async_event(3). Events need no
// acknowledgement.
//
// Errors: that of ctx if ctx ends first; EBADF once the context is closed.
func (c *Context) AsyncEvent(ctx context.Context) (AsyncEvent, error) {
	e, err := (*core.Context)(c).AsyncEvent(ctx)
	return AsyncEvent{Type: e.Type, QP: (*QP)(e.QP), CQ: (*CQ)(e.CQ), SRQ: (*SRQ)(e.SRQ),
		Port: e.Port}, err
}
