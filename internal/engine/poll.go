// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"runtime"

	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
	"verbena/internal/sys/fdtrack"
)

// Poll makes progress on the caller's thread: it reads arrived packets and runs due timers. It
// never blocks. Acknowledgements may be delayed. A caller that found no completion calls Flush; a
// caller that found one returns to the application first, whose answer may carry them. It returns
// the number of messages that it read.
func (l *Lane) Poll() (messages int) { return l.PollFor(1) }

// PollFor is Poll for callers that look at the Board themselves; polls, at least 1, is the
// number of polls that it counts for.
func (l *Lane) PollFor(polls uint64) (messages int) {
	e := l.eng
	n := l.polls.Add(polls)
	if e.arrival.sleepy.Load() {
		e.arrival.sleepy.Store(false)
	}
	l.joint.forget()
	rings := *e.rings.Load()
	for i := range rings {
		if r := &rings[i]; l.reads(r.lanes) && !r.Idle() {
			messages += max(r.TryPoll(true), 0)
		}
	}
	every := l.socketPolls()
	if len(rings) == 0 || passed(n, polls, every) || messages == 0 && !e.quiet.Load() {
		k := l.readInputs()
		l.way.vain.Add(1)
		if len(rings) > 0 { // else each poll is a look
			l.looks.Add(1)
			l.noteLook(k > 0)
		}
		messages += k
		if k > 0 && l.hears.Load() { // else nobody asks for the time, which takes 25 ns
			l.readEnded(monotime.Now())
		}
	}
	if messages > 0 && l.way.vain.Load() != 0 {
		l.way.vain.Store(0)
	}
	l.sendAnswers()
	if passed(n, polls, policy.TimerPolls) {
		if passed(n, polls, max(every, policy.HeldPolls)) {
			fdtrack.Check()
			e.disarmRings()
		}
		now := monotime.Now()
		e.FireDue(now)
		l.look(now)
		l.settleServed()
	}
	return messages
}

// socketPolls returns the number of polls between looks at sockets, where rings are.
func (l *Lane) socketPolls() uint64 {
	if l.silent.Load() < policy.SilentLooks {
		return policy.SocketPolls
	}
	if l.eng.frames.Load() {
		return policy.FramePolls
	}
	return policy.SilentPolls
}

// noteLook notes whether a look at sockets found something. Where there are no rings nobody asks.
func (l *Lane) noteLook(found bool) {
	if quiet := !found; quiet != l.eng.quiet.Load() {
		l.eng.quiet.Store(quiet)
	}
	switch silent := l.silent.Load(); {
	case !found && silent < policy.SilentLooks:
		l.silent.Store(silent + 1)
	case found && silent > 0:
		l.silent.Store(0)
	}
}

// readInputs reads the inputs of l that are no rings.
func (l *Lane) readInputs() (messages int) {
	inputs := *l.eng.inputs.Load()
	for i := range inputs {
		in := &inputs[i]
		if !l.reads(in.lanes) {
			continue
		}
		if n := in.TryPoll(true); n == Busy {
			l.foundBusy(in.Input)
		} else {
			messages += n
		}
	}
	return messages
}

// passed reports whether a multiple of every lies in (last-polls, last].
func passed(last, polls, every uint64) bool { return last/every != (last-polls)/every }

// TakeArrived handles all packets that have arrived. It waits for a thread that is reading an
// input, which may have taken packets that it has not handled. The caller holds no lock that a
// reader takes.
func (e *Engine) TakeArrived() {
	for _, r := range *e.rings.Load() {
		r.TakeAll()
	}
	until := monotime.Now().Add(readerTimeout)
	for _, in := range *e.inputs.Load() {
		readAfter(in, until)
	}
	e.bg.attended() // it may sleep by a doorbell that was read
}

// readAfter reads in once, after the thread that is reading it, if that is done before the time
// until.
func readAfter(in Input, until monotime.Time) {
	for in.TryPoll(false) == Busy && monotime.Now().Before(until) {
		runtime.Gosched()
	}
}

// readerTimeout bounds how long a caller waits for a thread that reads: it is done in a fraction of
// it.
const readerTimeout = 10 * monotime.Millisecond

// UpdateBoard shows on the Board how often a C program is to call PollFor. It is called after each
// PollFor.
func (e *Engine) UpdateBoard() { e.board.SetSuffices(e.boardShowsAll()) }

// boardShowsAll reports whether only the rings on the board need to be polled often.
func (e *Engine) boardShowsAll() bool {
	return len(*e.rings.Load()) > 0 && e.hidden.Load() == 0 && e.quiet.Load() &&
		!e.delays()
}

// Wake makes the background goroutine take over at once: the caller is about
// to stop polling and wait for an event.
func (e *Engine) Wake() {
	e.Flush()
	e.bg.kick()
}

// Woken notes that the application was given an event that it may be waiting for, and has something
// to do.
func (e *Engine) Woken() { e.bg.woken.Store(true) }

// Leave sends pending output before the process exits, also that of another thread: the application
// may have seen a completion before its message was acknowledged.
func (e *Engine) Leave() {
	until := monotime.Now().Add(readerTimeout)
	for _, r := range *e.rings.Load() {
		readAfter(r.Ring, until)
	}
	for _, in := range *e.inputs.Load() {
		readAfter(in.Input, until)
	}
	e.Settle()
}

// Arm sets a's timer, and wakes the background goroutine if it would sleep too long.
func (e *Engine) Arm(a *Alarm, when monotime.Time) {
	if e.timers.set(a, when) {
		e.bg.timerMoved(when)
	}
}

// EndAlarm takes a out for good.
func (e *Engine) EndAlarm(a *Alarm) { e.timers.remove(a) }

// maxFired bounds the timers of one round, so that receiving is not starved.
const maxFired = 256

// FireDue runs every timer that is due; a few nanoseconds when none is.
func (e *Engine) FireDue(now monotime.Time) {
	if !e.timers.due(now) {
		return
	}
	for range maxFired {
		a := e.timers.expired(now)
		if a == nil {
			return
		}
		a.ring(now)
	}
}
