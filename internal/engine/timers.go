package engine

import (
	"container/heap"
	"sync"
	"sync/atomic"

	"verbena/internal/monotime"
)

// timers wakes connections at their machines' deadlines. A connection is in
// the heap at most once, at a time not later than its deadline: most deadlines
// move on with every acknowledgement, and moving is free until the old time
// comes, when the connection is put back.
type timers struct {
	next atomic.Int64 // deadline of the heap's first entry

	mu   sync.Mutex
	heap timerHeap
}

func newTimers() *timers {
	t := &timers{}
	t.next.Store(int64(monotime.Never))
	return t
}

// set makes sure that c is woken at when, or earlier; it reports whether the
// heap's first deadline moved forward. c.timerAt is guarded by mu.
func (t *timers) set(c *Conn, when monotime.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case c.timerIndex == timerEnded:
		return false
	case c.timerIndex < 0:
		c.timerAt = when
		heap.Push(&t.heap, c)
	case when.Before(c.timerAt):
		c.timerAt = when
		heap.Fix(&t.heap, c.timerIndex)
	default:
		return false
	}
	return t.publish()
}

// Values of Conn.timerIndex outside the heap.
const (
	timerIdle  = -1
	timerEnded = -2 // the connection is closed: set does nothing
)

// remove takes c out for good, for a connection that ends. A pump that was
// under way may still call set.
func (t *timers) remove(c *Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.timerIndex >= 0 {
		heap.Remove(&t.heap, c.timerIndex)
		t.publish()
	}
	c.timerIndex = timerEnded
}

// expired takes out the first connection whose time has come.
func (t *timers) expired(now monotime.Time) *Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.heap) == 0 || now.Before(t.heap[0].timerAt) {
		return nil
	}
	c := heap.Pop(&t.heap).(*Conn)
	t.publish()
	return c
}

func (t *timers) publish() (earlier bool) {
	first := monotime.Never
	if len(t.heap) > 0 {
		first = t.heap[0].timerAt
	}
	return int64(first) < t.next.Swap(int64(first))
}

// due reports whether a deadline has come; a few nanoseconds when none has.
func (t *timers) due(now monotime.Time) bool { return int64(now) >= t.next.Load() }

// deadline returns the first deadline.
func (t *timers) deadline() monotime.Time { return monotime.Time(t.next.Load()) }

type timerHeap []*Conn

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].timerAt < h[j].timerAt }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timerIndex, h[j].timerIndex = i, j
}
func (h *timerHeap) Push(x any) {
	c := x.(*Conn)
	c.timerIndex = len(*h)
	*h = append(*h, c)
}
func (h *timerHeap) Pop() any {
	old := *h
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	c.timerIndex = timerIdle
	return c
}
