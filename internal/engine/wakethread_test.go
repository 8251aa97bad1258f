// SPDX-License-Identifier: BSD-2-Clause

package engine

// threadStep appends the states after a step of thread i. Collect runs from tCollect to tCheck.
// BeginWait, BeginNap and BeginWatch run from tCount to tSleep, EndWait and EndWatch from tLeave to
// tLeaveWake. EndNap is EndWait and Collect. RingBell runs from tRing to tRingWrite.
func (s *setting) threadStep(list []world, w world, i int, k kind) []world {
	t, me := &w.threads[i], uint8(i)+1
	goTo := func(at uint8) { t.at = at }
	switch t.at {
	case tTake:
		if t.hidden { // it polls first, and calls cq_sleep
			polls := w
			polls.threads[i].at = tCollect
			list = append(list, polls)
		}
		if t.events != 0 {
			t.events &= t.events - 1
			t.polled &= t.events
			t.hidden = false
			gone := w
			gone.threads[i].at = tGone // it computes from now on
			list = append(list, gone)
			break
		}
		goTo(tCollect)
	case tCollect:
		w.fresh = true
		goTo(tSwap)
		if s.readFirst {
			goTo(tRead)
		} else if s.attendEarly {
			goTo(tAttend)
		}
	case tSwap:
		if w.mayRing {
			w.mayRing = false
			goTo(tDrain)
			if s.clearFirst {
				goTo(tClear)
			}
			break
		}
		s.silenced(t)
	case tDrain:
		w.bell = w.bell && s.ntb
		if goTo(tClear); s.clearFirst {
			s.silenced(t)
		}
	case tClear:
		if w.woken = false; s.clearFirst {
			goTo(tDrain)
			break
		}
		s.silenced(t)
	case tAttend:
		if s.attend(&w) {
			goTo(tAttendWake)
			break
		}
		s.attended(t)
	case tAttendWake:
		w.ended = true
		s.attended(t)
	case tRead:
		if w.lock != 0 {
			s.polled(t)
			break
		}
		w.lock = me
		if s.stray {
			w.bell = false
		}
		s.read(&w)
		goTo(tUnlock)
	case tUnlock:
		w.lock = 0
		s.polled(t)
	case tOthers:
		if goTo(tCheck); s.asleep(&w) && !s.noRearm {
			goTo(tRearm)
		}
	case tRearm:
		w.mayRing = true
		goTo(tRearmArm)
	case tRearmArm:
		w.armed = w.armed || !s.ntb
		goTo(tRearmLook)
	case tRearmLook:
		if goTo(tCheck); w.unread != 0 && !s.ntb {
			goTo(tRing)
		}
	case tRing:
		w.mayRing = true
		goTo(tRingWoken)
	case tRingWoken:
		if goTo(tCheck); !w.woken {
			w.woken = true
			goTo(tRingWrite)
		}
	case tRingWrite:
		w.bell = true
		goTo(tCheck)
	case tCheck:
		if goTo(tCount); t.events != 0 {
			goTo(tTake)
		}
		if k == served && t.at == tCount {
			goTo(tKick)
		}
		if k == hides && t.at == tTake { // cq_sleep has read, or ibv_get_cq_event
			polls := w
			polls.threads[i].at = tHide
			if s.awaitFirst {
				polls.threads[i].at = tAwait
			}
			list = append(list, polls)
		}
	case tHide:
		t.hidden = true
		if goTo(tAwait); s.awaitFirst {
			goTo(tCount)
		}
	case tAwait: // it polls all that is there
		t.polled = t.events
		t.awaits = !s.noAwait
		if goTo(tCount); s.awaitFirst {
			goTo(tHide)
		}
	case tCount:
		if k == watches || k == hides {
			w.watchers++
		} else {
			w.waiters++
		}
		if goTo(tArmMay); s.ntb && k != naps {
			goTo(tKick)
		}
	case tKick:
		w.kicked = true
		if goTo(tArmMay); k == served {
			goTo(tSleep)
		}
	case tArmMay:
		w.mayRing = true
		if goTo(tArm); s.lookFirst && !s.ntb && w.unread != 0 {
			goTo(tAgain)
		}
	case tArm:
		w.armed = w.armed || !s.ntb
		if goTo(tLook); s.lookFirst {
			goTo(tSleep)
		}
	case tLook:
		if goTo(tSleep); w.unread != 0 && !s.ntb {
			goTo(tAgain)
		}
	case tAgain: // something is there
		if k == watches || k == hides { // BeginWatch rings the bell, and the thread sleeps; TryWatch ends
			rings := w
			rings.bell, rings.mayRing, rings.woken = true, true, true
			rings.threads[i].at = tSleep
			list = append(list, rings)
		}
		if goTo(tLeave); s.leaveQuietly {
			w.waiters--
			goTo(tTake)
		}
	case tSleep:
		if k == naps {
			goTo(tLeave)
			break
		}
		if k == watches { // or it does not come
			gone := w
			gone.threads[i].at = tGone
			list = append(list, gone)
		}
		if t.hidden && !s.late && !s.noAlarm {
			shown := w
			shown.threads[i].hidden = false
			list = append(list, shown)
		}
		if (t.events == 0 || t.hidden) && (!w.bell || k == served) {
			return list
		}
		if goTo(tLeave); k == served {
			goTo(tTake)
		}
	case tLeave:
		if k == watches || k == hides {
			w.watchers--
		} else {
			w.waiters--
		}
		goTo(tLeaveCollects)
	case tLeaveCollects:
		w.fresh = true
		goTo(tLeaveAttend)
	case tLeaveAttend:
		if goTo(tTake); s.attend(&w) {
			goTo(tLeaveWake)
		}
	case tLeaveWake:
		w.ended = true
		goTo(tTake)
	case tGone:
		return list
	}
	return append(list, w)
}

// attend ends the goroutine's sleep, and reports whether it is to be woken.
func (s *setting) attend(w *world) bool {
	if s.noAttend || !w.away {
		return false
	}
	w.away = false
	return true
}

// silenced, attended and polled choose the next step in Collect.
func (s *setting) silenced(t *sleeper) {
	switch {
	case s.readFirst:
		t.at = tOthers
	case s.attendEarly:
		t.at = tRead
	default:
		t.at = tAttend
	}
}

func (s *setting) attended(t *sleeper) {
	if t.at = tRead; s.attendEarly {
		t.at = tSwap
	}
}

func (s *setting) polled(t *sleeper) {
	if t.at = tOthers; s.readFirst {
		t.at = tSwap
	}
}
