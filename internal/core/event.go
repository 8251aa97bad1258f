// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"context"
	"sync"
	"syscall"

	"verbena/ib"
)

// AsyncEvent is an asynchronous event: ibv_async_event.
type AsyncEvent struct {
	Type ib.EventType
	QP   *QP
	CQ   *CQ
	SRQ  *SRQ
	Port int // of port events; ports count from 1
}

// AsyncEvent waits for the next asynchronous event: ibv_get_async_event(3).
func (c *Context) AsyncEvent(ctx context.Context) (AsyncEvent, error) {
	c.watchPort()
	c.eng.Wake()
	return c.events.get(ctx)
}

// maxEvents bounds the events that an application has not fetched. Beyond it the oldest are
// dropped.
const maxEvents = 4096

// eventQueue keeps events until AsyncEvent fetches them.
type eventQueue struct {
	ready chan struct{} // holds a token while there is something
	log   Log           // nil without one

	mu     sync.Mutex
	list   []AsyncEvent
	closed bool
}

func newEventQueue(log Log) *eventQueue {
	return &eventQueue{ready: make(chan struct{}, 1), log: log}
}

func (q *eventQueue) put(e AsyncEvent) {
	if q.log != nil {
		q.log.raised(&e)
	}
	q.mu.Lock()
	// A machine may raise its last event while the queue pair is being destroyed; forget came first
	// then, or comes.
	if gone := e.QP != nil && e.QP.gone.Load(); !q.closed && !gone {
		if len(q.list) == maxEvents {
			q.list = q.list[1:]
		}
		q.list = append(q.list, e)
	}
	q.mu.Unlock()
	q.signal()
}

func (q *eventQueue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

func (q *eventQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

// forget drops events of an object that is being destroyed.
func (q *eventQueue) forget(of func(*AsyncEvent) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	kept := q.list[:0]
	for i := range q.list {
		if !of(&q.list[i]) {
			kept = append(kept, q.list[i])
		}
	}
	q.list = kept
}

func (q *eventQueue) get(ctx context.Context) (AsyncEvent, error) {
	for {
		select {
		case <-ctx.Done():
			return AsyncEvent{}, ctx.Err()
		case <-q.ready:
		}
		q.mu.Lock()
		if len(q.list) > 0 {
			e := q.list[0]
			q.list = q.list[1:]
			more := len(q.list) > 0 || q.closed
			q.mu.Unlock()
			if more {
				q.signal()
			}
			return e, nil
		}
		closed := q.closed
		q.mu.Unlock()
		if closed {
			q.signal() // for the next waiter
			return AsyncEvent{}, fail(syscall.EBADF, "context", "is closed")
		}
	}
}
