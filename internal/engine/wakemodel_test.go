// SPDX-License-Identifier: BSD-2-Clause

package engine

// This model of the wake-up protocol has a peer that writes messages and rings. Threads of the
// application sleep, one polls, and the background goroutine runs beside them. A step is one access
// to memory that threads share, or one system call. A reader takes the lock and reads in one step.
// A nap ends by itself, and is one step.
//
// All interleavings are explored. From each state a state must be reachable in which all messages
// are read and no thread sleeps with an event for it. So no wake-up is lost. Threads may compute
// from any event on, and polls are few: the model counts on nothing that may not happen.
//
// Each step stands for a statement of the code: TestModelFollowsTheCode finds them there, in their
// order. Each rule that the protocol needs is broken once, and the model then loses a wake-up.

// world is a state of the model.
type world struct {
	// the ring, or the NTB link
	unread uint8 // messages, a bit each
	armed  bool  // shmring: armed; NTB: the sleep word differs from the peer's last answer
	lock   uint8 // its reader: 0 none, else 1 + the actor

	// arrival
	bell     bool // the eventfd that the peer writes: the engine's, or the link's
	mayRing  bool
	woken    bool // waiter.woken of the engine's bell
	waiters  uint8
	watchers uint8
	fresh    bool // collects differs from background.collected

	peer, left uint8 // its step; messages to write

	threads [2]sleeper

	poller, polls uint8 // its step; how often it polls before it leaves without notice
	polled        bool  // background.polls has changed

	bg      uint8 // its step
	kicked  bool  // background.kicked
	hurry   bool  // run: kicked
	away    bool  // background.away
	deaf    bool
	ended   bool // the eventfd of its own poller
	watched bool
	absent  bool
}

// sleeper is a thread of the application.
type sleeper struct {
	at     uint8
	events uint8 // of its channel, by message
}

// kind says how a thread sleeps.
type kind uint8

const (
	absentKind kind = iota
	blocks          // in ibv_get_cq_event: BeginWait
	watches         // in an epoll set of its own: BeginWatch
	served          // in poll(2) for a channel that shows only events: Wake
)

// setting is a world to begin with, and the rules that it breaks.
type setting struct {
	threads [2]kind
	to      []uint8 // whose event each message makes: a thread, or nobody
	polls   uint8
	ntb     bool // the peer writes to an NTB link, not to a ring
	noFD    bool // … without a descriptor
	coarse  bool // the background goroutine takes several steps at once
	alone   bool // the background goroutine has no part: it computes

	// rules
	lookFirst, unannounced, readFirst, noRearm, noAttend, attendEarly, disarm, clearFirst,
	ignoreCollects, stayDeaf, stray, keepAway, leaveQuietly bool
}

const nobody = 2

// Steps of the peer.
const (
	peerWrites uint8 = iota
	peerAsks
	peerRings
)

// Steps of a thread.
const (
	tTake uint8 = iota
	tCollect
	tSwap
	tDrain
	tClear
	tAttend
	tAttendWake
	tRead
	tUnlock
	tOthers
	tRearm
	tRearmArm
	tRearmLook
	tRing
	tRingWoken
	tRingWrite
	tCheck
	tCount
	tKick
	tArmMay
	tArm
	tLook
	tSleep
	tLeave
	tLeaveCollects
	tLeaveAttend
	tLeaveWake
	tAgain
	tGone
)

// Steps of the background goroutine.
const (
	gKicked uint8 = iota
	gAttended
	gNap
	gListen
	gAway
	gArm
	gLook
	gCollects
	gLinkLock
	gLinkArm
	gLinkLook
	gSleep
	gBack
	gWatched
	gWatchNap
	gReadable
	gSwap
	gDrain
	gClear
	gRead
	gUnlock
)

const (
	lockedByPoller     = 3
	lockedByBackground = 4
)

// done reports that nothing is left to do.
func (s *setting) done(w *world) bool {
	if w.left > 0 || w.unread != 0 && !s.gone(w) || w.peer != peerWrites {
		return false
	}
	for i := range w.threads {
		if t := &w.threads[i]; t.at != tGone && t.events != 0 {
			return false
		}
	}
	return true
}

// gone reports that no thread is there to read.
func (s *setting) gone(w *world) bool {
	return s.alone && w.threads[0].at == tGone && w.threads[1].at == tGone
}

// next appends the states that follow w.
func (s *setting) next(list []world, w *world) []world {
	list = s.peerStep(list, *w)
	for i, k := range s.threads {
		if k != absentKind {
			list = s.threadStep(list, *w, i, k)
		}
	}
	if s.polls > 0 {
		list = s.pollerStep(list, *w)
	}
	if s.alone {
		return list
	}
	return s.backgroundStep(list, *w)
}

func (s *setting) peerStep(list []world, w world) []world {
	publish := func() { w.unread |= 1 << (uint8(len(s.to)) - w.left); w.left-- }
	mustWake := func() {
		w.peer = peerWrites
		if w.armed {
			w.armed = false
			w.peer = peerRings
		}
	}
	switch w.peer {
	case peerWrites:
		if w.left == 0 {
			return list
		}
		if s.unannounced { // it looks first, and writes then
			if w.peer = peerAsks; w.armed {
				w.armed, w.bell = false, true
			}
			break
		}
		publish()
		w.peer = peerAsks
		if w.left > 0 { // one bell a burst
			burst := w
			publish()
			list = append(list, w)
			w = burst
		}
	case peerAsks:
		if s.unannounced {
			publish()
			w.peer = peerWrites
			break
		}
		mustWake()
	case peerRings:
		w.bell = w.bell || !s.noFD
		w.peer = peerWrites
	}
	return append(list, w)
}

// read hands all messages out.
func (s *setting) read(w *world) {
	for m, to := range s.to {
		if w.unread&(1<<m) != 0 && to != nobody {
			w.threads[to].events |= 1 << m
		}
	}
	w.unread = 0
}

func (s *setting) asleep(w *world) bool { return w.waiters > 0 || w.watchers > 0 }

// threadStep appends the states after a step of thread i. Collect runs from tCollect to tCheck.
// BeginWait and BeginWatch run from tCount to tSleep, EndWait and EndWatch from tLeave to
// tLeaveWake. RingBell runs from tRing to tRingWrite.
func (s *setting) threadStep(list []world, w world, i int, k kind) []world {
	t, me := &w.threads[i], uint8(i)+1
	goTo := func(at uint8) { t.at = at }
	switch t.at {
	case tTake:
		if t.events != 0 {
			t.events &= t.events - 1
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
	case tCount:
		if k == watches {
			w.watchers++
		} else {
			w.waiters++
		}
		if goTo(tArmMay); s.ntb {
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
		if k == watches { // BeginWatch rings the bell, and the thread sleeps; TryWatch ends
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
		if k == watches { // or it does not come
			gone := w
			gone.threads[i].at = tGone
			list = append(list, gone)
		}
		if t.events == 0 && (!w.bell || k == served) {
			return list
		}
		if goTo(tLeave); k == served {
			goTo(tTake)
		}
	case tLeave:
		if k == watches {
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

func (s *setting) pollerStep(list []world, w world) []world {
	switch w.poller {
	case 0:
		if w.polls == 0 {
			return list
		}
		w.polls--
		w.polled = true
		w.armed = w.armed && !s.disarm
		w.poller = 1
	case 1:
		if w.poller = 0; w.lock == 0 {
			w.lock = lockedByPoller
			s.read(&w)
			w.poller = 2
		}
	case 2:
		w.lock, w.poller = 0, 0
	}
	return append(list, w)
}

func (s *setting) backgroundStep(list []world, w world) []world {
	goTo := func(at uint8) { w.bg = at }
	switch w.bg {
	case gKicked:
		w.hurry, w.kicked = w.kicked, false
		goTo(gAttended)
	case gAttended:
		attended := w.fresh
		w.fresh = false
		w.absent = w.absent && !attended
		switch {
		case !w.hurry && attended:
			goTo(gNap)
		case !w.hurry && w.polled: // it naps, and reads once
			w.polled = false
			goTo(gRead)
		default:
			goTo(gListen)
		}
	case gNap:
		w.deaf = s.stayDeaf // serve
		goTo(gKicked)
	case gListen:
		w.deaf = !w.hurry && w.waiters > 0 && !s.ntb || s.stayDeaf && w.deaf
		goTo(gAway)
	case gAway:
		w.away = !w.hurry || !s.keepAway
		goTo(gArm)
		if s.lookFirst {
			goTo(gLook)
		}
	case gArm:
		w.mayRing = true
		w.armed = w.armed || !s.ntb
		if goTo(gLook); s.lookFirst {
			goTo(gCollects)
		}
	case gLook:
		goTo(gCollects)
		if s.lookFirst {
			goTo(gArm)
		}
		if w.unread != 0 && !s.ntb {
			goTo(gBack)
		}
	case gCollects:
		if goTo(gSleep); s.ntb {
			goTo(gLinkLock)
		}
		if !w.hurry && w.fresh && !s.ignoreCollects {
			goTo(gBack)
		}
	case gLinkLock:
		if w.lock != 0 {
			return list
		}
		w.lock = lockedByBackground
		goTo(gLinkArm)
	case gLinkArm:
		w.armed = true
		goTo(gLinkLook)
	case gLinkLook:
		w.lock = 0
		if goTo(gSleep); w.unread != 0 {
			goTo(gBack)
		}
	case gSleep:
		if !w.ended && (w.deaf || !w.bell) && !s.noFD {
			return list
		}
		w.ended = false
		goTo(gBack)
	case gBack:
		w.away = false
		goTo(gWatched)
	case gWatched:
		w.watched = !w.hurry && s.asleep(&w)
		if goTo(gSwap); w.watched && !w.absent {
			goTo(gWatchNap)
		}
	case gWatchNap:
		if goTo(gReadable); w.fresh {
			goTo(gKicked)
		}
	case gReadable:
		w.deaf = s.stayDeaf && w.deaf
		if goTo(gKicked); w.bell || w.unread != 0 && w.lock == 0 {
			goTo(gSwap)
		}
	case gSwap:
		if goTo(gRead); w.mayRing && !s.ntb {
			w.mayRing = false
			goTo(gDrain)
		}
	case gDrain:
		w.bell = false
		goTo(gClear)
	case gClear:
		w.woken = false
		goTo(gRead)
	case gRead:
		if w.lock != 0 { // Busy
			w.absent, w.watched = false, false
			goTo(gKicked)
			break
		}
		w.lock = lockedByBackground
		w.absent, w.watched = w.watched && w.unread != 0, false
		w.bell = w.bell && !s.ntb
		s.read(&w)
		goTo(gUnlock)
	case gUnlock:
		w.lock = 0
		goTo(gKicked)
	}
	if s.coarse && w.bg != gKicked && w.bg != gSleep && w.bg != gRead && w.bg != gLinkLock {
		return s.backgroundStep(list, w)
	}
	return append(list, w)
}
