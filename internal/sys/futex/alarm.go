// SPDX-License-Identifier: BSD-2-Clause

package futex

import (
	"container/heap"
	"sync"
	"time"
)

// Alarm has a function called later, as time.AfterFunc does. All alarms are
// called by one goroutine, one after the other, which is there while any is set:
// a goroutine that sleeps takes a thread.
type Alarm struct {
	f     func()
	due   time.Time // guarded by clock.mu
	place int       // guarded by clock.mu: in clock.set, from 1; 0: it is not set
}

var clock struct {
	sleeper Sleeper

	mu      sync.Mutex
	set     alarms // guarded by mu
	running bool   // guarded by mu
}

// NewAlarm returns an alarm that is not set. f must not block for long.
func NewAlarm(f func()) *Alarm { return &Alarm{f: f} }

// Set has the function called once, when d has passed, and not when a Set before
// wanted it.
func (a *Alarm) Set(d time.Duration) {
	clock.mu.Lock()
	defer clock.mu.Unlock()
	a.due = time.Now().Add(d)
	if a.place == 0 {
		heap.Push(&clock.set, a)
	} else {
		heap.Fix(&clock.set, a.place-1)
	}
	switch {
	case !clock.running:
		clock.running = true
		go tick()
	case clock.set[0] == a:
		clock.sleeper.Wake()
	}
}

// Stop takes the last Set back. The function may be running.
func (a *Alarm) Stop() {
	clock.mu.Lock()
	defer clock.mu.Unlock()
	if a.place != 0 {
		heap.Remove(&clock.set, a.place-1)
	}
}

// tick calls due alarms, until no alarm is set.
func tick() {
	clock.mu.Lock()
	defer clock.mu.Unlock()
	for len(clock.set) > 0 {
		a := clock.set[0]
		wait := time.Until(a.due)
		if wait <= 0 {
			heap.Pop(&clock.set)
		}
		clock.mu.Unlock()
		if wait > 0 {
			clock.sleeper.Wait(wait)
		} else {
			a.f()
		}
		clock.mu.Lock()
	}
	clock.running = false
}

// alarms is a heap by time.
type alarms []*Alarm

func (s alarms) Len() int           { return len(s) }
func (s alarms) Less(i, j int) bool { return s[i].due.Before(s[j].due) }

func (s alarms) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].place, s[j].place = i+1, j+1
}

func (s *alarms) Push(x any) {
	a := x.(*Alarm)
	*s = append(*s, a)
	a.place = len(*s)
}

func (s *alarms) Pop() any {
	last := len(*s) - 1
	a := (*s)[last]
	a.place = 0
	(*s)[last] = nil
	*s = (*s)[:last]
	return a
}
