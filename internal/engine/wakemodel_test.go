// SPDX-License-Identifier: BSD-2-Clause

package engine

// This model of the wake-up protocol has a peer that writes messages and rings. Threads of the
// application sleep, one polls, and the background goroutine runs beside them. A step is one access
// to memory that threads share, or one system call. A reader takes the lock and reads in one step.
// A nap of the goroutine ends by itself, and is one step. That of a thread may end at any time.
//
// All interleavings are explored. From each state a state must be reachable in which all messages
// are read and no thread sleeps with an event for it. So no wake-up is lost. Threads may compute
// from any event on, and polls are few: the model counts on nothing that may not happen.
//
// A thread that spins (Spin) calls Collect again before it announces its sleep. The model has no
// step for that: the thread is awake, and each such call arms for the others as the first does.
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
	polled uint8 // of these, the messages that it has polled
	hidden bool  // its descriptor does not show the events
	awaits bool  // the next message makes the descriptor show them
}

// kind says how a thread sleeps.
type kind uint8

const (
	absentKind kind = iota
	blocks          // in ibv_get_cq_event: BeginWait
	watches         // in an epoll set of its own: BeginWatch
	served          // in poll(2) for a channel that shows only events: Wake
	hides           // watches; it may poll before it takes the event, which is hidden then
	naps            // between two polls BeginNap … EndNap, which may end at any time
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
	late    bool // the alarm has no part: hidden events may stay where all is polled
	drains  bool // threads poll before they sleep: events that come before that are hidden

	// rules
	lookFirst, unannounced, readFirst, noRearm, noAttend, attendEarly, disarm, clearFirst,
	ignoreCollects, stayDeaf, stray, keepAway, leaveQuietly, noAlarm, noAwait, awaitFirst bool
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
	tHide
	tAwait
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
		t := &w.threads[i]
		if polled := s.late && t.events == t.polled; t.at != tGone && t.events != 0 && !polled {
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
			t := &w.threads[to]
			early := s.drains && s.threads[to] == hides && t.at == tTake && t.events == 0
			t.events |= 1 << m
			t.hidden = t.hidden && !t.awaits || early
			t.awaits = false
		}
	}
	w.unread = 0
}

func (s *setting) asleep(w *world) bool { return w.waiters > 0 || w.watchers > 0 }

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
