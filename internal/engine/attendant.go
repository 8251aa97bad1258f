// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"runtime"
	"sync"
	"sync/atomic"

	"verbena/internal/engine/policy"
	"verbena/internal/sys/fdtrack"
	"verbena/internal/sys/udp"
)

// An Attendant is the right to read the network for goroutines that wait. One goroutine has it at a
// time: it sleeps until packets come, reads them, and leaves with its own event. The others wait
// for their events, or for the right:
//
//	goroutine 1 ─ Attendant: Collect ─► Sleep ─► Collect ─► its event ─► EndAttend ─┐
//	goroutine 2 ─ waits for its event, or ◄──────────────────────────────────────────┘
//
// So a packet wakes the goroutine that waits for it, and the background goroutine has no part.
type Attendant struct {
	eng    *Engine // immutable
	free   chan *Attendant
	once   sync.Once
	poller *udp.Poller  // immutable after once: the bell, the sockets, and Wake; nil without
	ready  [1]uint64    // of the goroutine that has the right
	polls  uint64       // of the goroutine that has the right: polls of the process when it began
	asleep atomic.Bool  // it is in Sleep, or about to be
	wakers atomic.Int32 // threads in WakeAttendant
}

// Attendance returns a channel from which a goroutine that waits receives the right to read. It is
// nil if the background goroutine is to read: the system has no such descriptors, or an input needs
// it. The receiver calls EndAttend.
func (e *Engine) Attendance() <-chan *Attendant {
	a := &e.attendant
	a.once.Do(func() { a.open(e) })
	if a.poller == nil || fdtrack.Lost() || len(*e.sleepers.Load()) > 0 {
		return nil
	}
	return a.free
}

// open leaves poller nil if it fails.
func (a *Attendant) open(e *Engine) {
	a.eng, a.free = e, make(chan *Attendant, 1)
	bell, sockets := e.ArrivalFDs()
	if e.arrival.set == e.bg.poller || bell < 0 {
		return
	}
	p, err := udp.NewPoller()
	if err != nil {
		return
	}
	for _, fd := range []int{bell, sockets} {
		if err == nil {
			err = p.AddFD(fd, arrivalID)
		}
	}
	if err != nil {
		p.Close()
		return
	}
	a.poller = p
	a.free <- a
}

// Begin is to be called by a goroutine that has received the right.
func (a *Attendant) Begin() { a.polls = a.eng.polled() }

// EndAttend returns the right.
func (a *Attendant) EndAttend() { a.free <- a }

// Collect is Engine.Collect. It sends delayed acknowledgements if nothing has arrived.
func (a *Attendant) Collect(waits bool) (messages int) {
	a.polls++ // Engine.Collect counts as a poll
	if messages = a.eng.Collect(waits); messages == 0 {
		a.eng.Flush()
	}
	return messages
}

// Sleep blocks until something has arrived or WakeAttendant is called. It does not block if
// something is there already, or if stay, which it calls first, reports false. It returns false if
// the goroutine is to return the right: threads poll, which read sooner, or the descriptors are
// lost.
func (a *Attendant) Sleep(stay func() bool) (ok bool) {
	if a.eng.polled()-a.polls > policy.OthersPolls {
		return false
	}
	if !a.eng.BeginWait() {
		runtime.Gosched() // another thread may be reading, and need this core
		return true
	}
	a.asleep.Store(true)
	ok = true
	if stay() {
		if _, err := a.poller.Wait(-1, a.ready[:]); err != nil {
			ok = !fdtrack.Check()
		}
	}
	a.asleep.Store(false)
	a.eng.EndWait()
	return ok
}

// WakeAttendant ends Sleep, if a goroutine is there.
func (e *Engine) WakeAttendant() {
	a := &e.attendant
	a.wakers.Add(1)
	if a.asleep.Load() {
		a.poller.Wake()
	}
	a.wakers.Add(-1)
}

// closeAttendant closes the descriptors, once no goroutine has the right. All channels are closed.
// If the descriptors are lost, a goroutine may sleep for ever.
func (e *Engine) closeAttendant() {
	a := &e.attendant
	a.once.Do(func() {}) // none are opened from now on
	if a.poller == nil || a.poller.Lost() {
		return
	}
	<-a.free
	for a.wakers.Load() > 0 { // its descriptor must not be another file's by then
		runtime.Gosched()
	}
	a.poller.Close()
}
