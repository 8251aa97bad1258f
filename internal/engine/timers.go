// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"container/heap"
	"sync"
	"sync/atomic"

	"verbena/internal/monotime"
)

// timers wakes connections, and links, at their machines' deadlines. Each is in the heap at most
// once, at a time not later than its deadline. Most deadlines move on with every acknowledgement.
// Moving is free: at the old time the entry is put back.
type timers struct {
	next atomic.Int64 // deadline of the heap's first entry

	mu   sync.Mutex
	heap timerHeap
}

// Alarm is an entry of the heap: a function that is called at a time.
type Alarm struct {
	// immutable after NewAlarm, and init of a Conn
	ring  func(now monotime.Time)
	moved func(now monotime.Time) (to monotime.Time, ok bool) // see NewMovingAlarm; may be nil

	// guarded by timers.mu
	at    monotime.Time
	index int // in the heap, or one of the values below
}

// NewAlarm returns an alarm that calls ring, on the thread that runs timers.
func NewAlarm(ring func(now monotime.Time)) Alarm { return Alarm{ring: ring, index: timerIdle} }

// NewMovingAlarm is NewAlarm where most deadlines have moved on by the time that they come. moved
// returns the new one, or Never. If it has come, ok is false, and ring is called at once.
func NewMovingAlarm(ring func(now monotime.Time),
	moved func(now monotime.Time) (to monotime.Time, ok bool)) Alarm {
	return Alarm{ring: ring, moved: moved, index: timerIdle}
}

func newTimers() *timers {
	t := &timers{}
	t.next.Store(int64(monotime.Never))
	return t
}

// set makes sure that a rings at when, or earlier; it reports whether the
// heap's first deadline moved forward.
func (t *timers) set(a *Alarm, when monotime.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case a.index == timerEnded:
		return false
	case a.index < 0:
		a.at = when
		heap.Push(&t.heap, a)
	case when.Before(a.at):
		a.at = when
		heap.Fix(&t.heap, a.index)
	default:
		return false
	}
	return t.publish()
}

// Values of Alarm.index outside the heap.
const (
	timerIdle  = -1
	timerEnded = -2 // the connection is closed: set does nothing
)

// remove takes a out for good, for a connection that ends. A pump that was
// under way may still call set.
func (t *timers) remove(a *Alarm) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.index >= 0 {
		heap.Remove(&t.heap, a.index)
		t.publish()
	}
	a.index = timerEnded
}

// expired takes out the first whose time has come.
func (t *timers) expired(now monotime.Time) *Alarm {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.heap) == 0 || now.Before(t.heap[0].at) {
		return nil
	}
	a := heap.Pop(&t.heap).(*Alarm)
	t.publish()
	return a
}

// anyReal reports whether the time of an alarm has come whose deadline has not moved on. It puts
// the others back: their function moved returns the new deadline.
func (t *timers) anyReal(now monotime.Time) bool {
	for range maxFired {
		a := t.expired(now)
		if a == nil {
			break
		}
		to, ok := now, false
		if a.moved != nil {
			to, ok = a.moved(now)
		}
		if to != monotime.Never {
			t.set(a, to)
		}
		if !ok {
			return true
		}
	}
	return false
}

func (t *timers) publish() (earlier bool) {
	first := monotime.Never
	if len(t.heap) > 0 {
		first = t.heap[0].at
	}
	return int64(first) < t.next.Swap(int64(first))
}

// due reports whether a deadline has come; a few nanoseconds when none has.
func (t *timers) due(now monotime.Time) bool { return int64(now) >= t.next.Load() }

// deadline returns the first deadline.
func (t *timers) deadline() monotime.Time { return monotime.Time(t.next.Load()) }

type timerHeap []*Alarm

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *timerHeap) Push(x any) {
	a := x.(*Alarm)
	a.index = len(*h)
	*h = append(*h, a)
}
func (h *timerHeap) Pop() any {
	old := *h
	a := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	a.index = timerIdle
	return a
}
