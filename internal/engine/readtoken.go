// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"

	"verbena/internal/engine/policy"
	"verbena/internal/sys/fdtrack"
	"verbena/internal/sys/udp"
)

// A ReadToken is the right to read the network for goroutines that wait. One goroutine has it at a
// time: it sleeps until packets come, reads them, and leaves with its own event. The others wait
// for their events, or for the right:
//
//	goroutine 1 ─ ReadToken: Collect ─► Sleep ─► Collect ─► its event ─► Release ────┐
//	goroutine 2 ─ waits for its event, or ◄──────────────────────────────────────────┘
//
// So a packet wakes the goroutine that waits for it, and the background goroutine has no part.
type ReadToken struct {
	eng    *Engine // immutable
	free   chan *ReadToken
	once   sync.Once
	poller *udp.Poller  // immutable after once: the bell, the sockets, and Wake; nil without
	ready  [1]uint64    // of the goroutine that has the right
	polls  uint64       // of the goroutine that has the right: polls of the process when it began
	asleep atomic.Bool  // it is in Sleep, or about to be
	yields atomic.Bool  // it lets others run
	wakers atomic.Int32 // threads in WakeTokenHolder
	due    atomic.Int32 // goroutines that were woken for their events and have not run since
	spin   Spin         // of the goroutine that has the right

	runnable [1]metrics.Sample // of the goroutine that has the right: what LetRun asks for
}

// ReadTokens returns a channel from which a goroutine that waits receives the right to read. It is
// nil if the background goroutine is to read: the system has no such descriptors, or an input needs
// it. The receiver calls Release.
func (e *Engine) ReadTokens() <-chan *ReadToken {
	t := &e.readToken
	t.once.Do(func() { t.open(e) })
	if t.poller == nil || fdtrack.Lost() || len(*e.sleepers.Load()) > 0 {
		return nil
	}
	return t.free
}

// open leaves poller nil if it fails.
func (t *ReadToken) open(e *Engine) {
	t.eng, t.free = e, make(chan *ReadToken, 1)
	t.runnable[0].Name = "/sched/goroutines/runnable:goroutines"
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
	t.poller = p
	t.free <- t
}

// Begin is to be called by a goroutine that has received the right.
func (t *ReadToken) Begin() { t.polls = t.eng.polled() }

// Release returns the right.
func (t *ReadToken) Release() { t.free <- t }

// Collect is Engine.Collect. It sends delayed acknowledgements if nothing has arrived.
func (t *ReadToken) Collect(waits bool) (messages int) {
	t.polls++ // Engine.Collect counts as a poll
	if messages = t.eng.Collect(waits); messages == 0 {
		t.eng.Flush()
	}
	return messages
}

// Spin is Spin.Wait before Sleep. Where the process has one processor other goroutines need it.
func (t *ReadToken) Spin(read func() bool) bool {
	return runtime.GOMAXPROCS(0) > 1 && t.spin.Wait(t.eng, read)
}

// Sleep blocks until something has arrived or WakeTokenHolder is called. It does not block if
// something is there already, or if stay, which it calls first, reports false. It returns false if
// the goroutine is to return the right: threads poll, which read sooner, or the descriptors are
// lost.
func (t *ReadToken) Sleep(stay func() bool) (ok bool) {
	if t.eng.polled()-t.polls > policy.OthersPolls {
		return false
	}
	t.asleep.Store(true) // before BeginWait, which settles: see SettleBehindReader
	if !t.eng.BeginWait() {
		t.asleep.Store(false)
		t.Gosched() // another thread may be reading, and need this core
		return true
	}
	ok = true
	if stay() {
		if _, err := t.poller.Wait(-1, t.ready[:]); err != nil {
			ok = !fdtrack.Check()
		}
		t.spin.Woke(t.eng)
	}
	t.asleep.Store(false)
	t.eng.EndWait()
	return ok
}

// Yield lets the goroutines run that were woken for their events. Their answers wait for each
// other, and for this one, which reads on: Collect and Sleep send them.
func (t *ReadToken) Yield() {
	if t.due.Load() <= 0 {
		return
	}
	t.yields.Store(true) // before the last one may have run: see SettleBehindReader
	for i := 0; i < maxYields && t.due.Load() > 0; i++ {
		runtime.Gosched()
	}
	t.yields.Store(false)
}

// maxYields bounds the turns that goroutines get before the network is read again: one may be held
// up.
const maxYields = 4

// Gosched is runtime.Gosched.
func (t *ReadToken) Gosched() {
	t.yields.Store(true)
	runtime.Gosched()
	t.yields.Store(false)
}

// LetRun lets goroutines run that are ready, and reports whether there were any. Gosched would wake
// a thread if there are none. That takes the caller with it, to another core.
func (t *ReadToken) LetRun() bool {
	metrics.Read(t.runnable[:]) // 65 ns with 2 processors, 440 with 64
	if v := t.runnable[0].Value; v.Kind() == metrics.KindUint64 && v.Uint64() == 0 {
		return false
	}
	t.Gosched()
	return true
}

// NoteDue adds n to the number of goroutines that were woken for their events and have not run
// since.
func (e *Engine) NoteDue(n int32) { e.readToken.due.Add(n) }

// SettleBehindReader is Settle for a goroutine that is about to wait for its event, while another
// has the right to read. If that runs it will settle itself: before it sleeps, at the latest. If it
// yields, goroutines that compute may have all processors for long. So the last of the goroutines
// that were woken sends the answers.
func (e *Engine) SettleBehindReader() {
	switch t := &e.readToken; {
	case t.asleep.Load():
		e.Settle()
	case t.yields.Load() && t.due.Load() <= 0:
		e.sendAnswers() // acknowledgements may still leave with further answers
	}
}

// WakeTokenHolder ends Sleep, if a goroutine is there.
func (e *Engine) WakeTokenHolder() {
	t := &e.readToken
	t.wakers.Add(1)
	if t.asleep.Load() {
		t.poller.Wake()
	}
	t.wakers.Add(-1)
}

// closeReadToken closes the descriptors, once no goroutine has the right. All channels are closed.
// If the descriptors are lost, a goroutine may sleep for ever.
func (e *Engine) closeReadToken() {
	t := &e.readToken
	t.once.Do(func() {}) // none are opened from now on
	if t.poller == nil || t.poller.Lost() {
		return
	}
	<-t.free
	for t.wakers.Load() > 0 { // its descriptor must not be another file's by then
		runtime.Gosched()
	}
	t.poller.Close()
}
