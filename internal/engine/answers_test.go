// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"net"
	"net/netip"
	"runtime"
	"testing"

	"verbena/ib"
	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	"verbena/internal/sys/shmring"
)

// answering is a queue pair without a wire. It counts receives, flushes and time-outs.
type answering struct {
	Conn
	qp.Machine
	received uint32
	flushed  int
	when     monotime.Time // its deadline
	expired  int           // deadlines that came
}

func (a *answering) FlushOutput(monotime.Time)       { a.flushed++ }
func (a *answering) FlushDelayedAck(monotime.Time)   {}
func (a *answering) NotePost()                       {}
func (a *answering) Detach() func()                  { return func() {} }
func (a *answering) Received() uint32                { return a.received }
func (a *answering) Route() Route                    { panic("not asked") }
func (a *answering) NextTimeout() monotime.Time      { return a.when }
func (a *answering) HandleTimeout(monotime.Time)     { a.expired, a.when = a.expired+1, monotime.Never }
func (a *answering) Cause() ib.VendorErr             { return ib.VendorNone }
func (a *answering) PollEvent() (ib.EventType, bool) { return 0, false }
func (a *answering) State() ib.QPState               { return ib.QPRTS }
func (a *answering) AppendCounts(c []uint64) []uint64 {
	return c
}
func (a *answering) PrepareModify(*ib.QPAttr, ib.QPAttrMask, netip.Addr) (
	func(monotime.Time), error) {
	return func(monotime.Time) {}, nil
}

// newAnswering returns a queue pair of an engine whose background goroutine seems to nap.
func newAnswering(t *testing.T) *answering {
	t.Helper()
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	e.Probe().StopBackground()
	e.bg.napping.Store(true)
	a := &answering{when: monotime.Never}
	e.NewNumberlessConn(&a.Conn, a, a)
	return a
}

// hear has n messages arrive.
func (a *answering) hear(now monotime.Time, n int) {
	a.received += uint32(n)
	a.Heard(now)
}

// hearInRing is hear by a ring.
func (a *answering) hearInRing(now monotime.Time, n int) {
	a.received += uint32(n)
	a.HeardInRing(now)
}

// answer posts n answers, one each gap, and returns how many left at once.
func (a *answering) answer(now *monotime.Time, gap monotime.Duration, n int) (left int) {
	for range n {
		*now = now.Add(gap)
		if !a.postponeAnswer(*now, 1) {
			left++
		}
	}
	return left
}

const quick = monotime.Microsecond

// Answers to messages that came together leave with the last one, or in batches.
func TestAnswersLeaveTogether(t *testing.T) {
	const some = 10
	for n, want := range map[int]int{1: 1, 2: 1, some: 1, 4 * policy.AnswerBatch: 4} {
		a, now := newAnswering(t), monotime.Time(0)
		a.hear(now, n)
		if left := a.answer(&now, quick, n); left != want {
			t.Errorf("%d answers left at %d times, want %d", n, left, want)
		}
		if left := a.answer(&now, quick, some); left != some {
			t.Errorf("%d of %d posts left at once that answer nothing", left, some)
		}
	}
}

// A ring has smaller batches, and its answers do not join those of other queue pairs.
func TestAnswersInARing(t *testing.T) {
	list, writes := newJoining(t, 2)
	a, b, now := list[0], list[1], monotime.Time(0)
	n := 3 * policy.RingTurn
	a.hearInRing(now, n)
	b.hear(now, 1)
	if left := a.answer(&now, quick, n); left != 3 {
		t.Errorf("%d answers to a ring left at %d times, want 3", n, left)
	}
	if a.joinAnswers() {
		t.Error("answers to a ring leave with others")
	}
	if b.post(now); b.flushed != 0 || len(*writes) != 1 {
		t.Errorf("the only answer to a socket was flushed %d times, with others %v", b.flushed, *writes)
	}
}

// A C program that polls calls only if the board shows something. Its next poll must send the
// answers that wait: a program may poll on until the peer has answered them.
func TestBoardTellsOfAnswers(t *testing.T) {
	a, now := newAnswering(t), monotime.Time(0)
	b := shmring.NewBoard()
	if b == nil {
		t.Fatal("the system has no memory for a board")
	}
	t.Cleanup(b.End)
	a.eng.ShowOn(b)
	b.SetSuffices(true)
	a.hearInRing(now, 2)
	if left := a.answer(&now, quick, 1); left != 0 {
		t.Fatal("the first of two answers did not wait")
	}
	if b.Suffices() {
		t.Error("an answer waits, and the program need not call")
	}
}

// leaving is a queue pair that says when Close or Modify has come to its delayed acknowledgement.
type leaving struct {
	answering
	came chan struct{}
}

func (l *leaving) FlushDelayedAck(monotime.Time) { close(l.came) }

// Close and Modify first send all posted output, also if a pumping thread has passed it. (The one
// answer that ended a batch was flushed, and those that had waited for it.)
func TestPostsLeaveBeforeTheConnBesideAPump(t *testing.T) {
	leaves := map[string]func(l *leaving) (before int){
		"closes": func(l *leaving) int { l.Close(); return l.flushed },
		"modifies": func(l *leaving) (before int) {
			_ = l.Modify(&ib.QPAttr{}, 0, netip.Addr{}, func(ib.QPState) error {
				before = l.flushed
				return nil
			})
			return before
		},
	}
	// messages that came, and those posted
	posts := map[string][2]int{
		"an answer that waits":  {2, 1},
		"one that ends a batch": {2, 2},
		"one that answers none": {0, 1},
	}
	for name, leave := range leaves {
		for what, n := range posts {
			for _, writes := range []bool{false, true} { // or Joint.Finish is between its two loops
				l := &leaving{answering{when: monotime.Never}, make(chan struct{})}
				if err := newAnswering(t).eng.NewConn(&l.Conn, l,
					ConnOptions{Counters: &DeviceCounters{}},
					func(ib.QPN) qp.Machine { return l }); err != nil {
					t.Fatal(err)
				}
				now := monotime.Time(0)
				l.Lock()
				l.beginPump() // another thread
				l.hear(now, n[0])
				if left := l.answer(&now, quick, n[1]); left != 0 {
					l.PumpUnlock(now)
					l.Lock()
				} else if n[0] == n[1] {
					t.Fatalf("%s waits", what)
				}
				l.pumping = writes
				l.Unlock()
				before := make(chan int)
				go func() { before <- leave(l) }()
				for range 10000 { // one that does not wait for the pump has come by then
					select {
					case <-l.came:
					default:
						runtime.Gosched()
						continue
					}
					break
				}
				l.Lock()
				l.pumping = false
				l.Unlock()
				if n := <-before; n != 1 {
					t.Errorf("the application %s beside %s, thread writes %t: flushed %d times before"+
						" that, want once", name, what, writes, n)
				}
			}
		}
	}
}

// heldUp is a queue pair whose output waits for so many looks at its queue.
type heldUp struct {
	leaving
	looks    int
	lateAck  bool // its delayed acknowledgement finds the queue full, and nothing before
	acksLeft bool
}

func (h *heldUp) FlushOutput(now monotime.Time) {
	h.flushed++
	if h.looks > 0 && (h.acksLeft || !h.lateAck) {
		h.RetryAt(now.Add(monotime.Second))
	}
}

func (h *heldUp) FlushDelayedAck(now monotime.Time) {
	h.leaving.FlushDelayedAck(now)
	if h.lateAck {
		h.acksLeft = true
		h.Flush(now)
	}
}

func (h *heldUp) HeldUp() bool {
	h.looks--
	return h.looks >= 0
}

// Close sends the output that a full queue has held up: the acknowledgement of a message that has
// come may be in it. Without a peer that reads the wait ends.
func TestCloseWaitsForAFullQueue(t *testing.T) {
	for _, lateAck := range []bool{false, true} {
		for looks, want := range map[int]int{0: 1, 1: 2, 4: 5} {
			h := &heldUp{leaving: leaving{answering{when: monotime.Never}, make(chan struct{})},
				looks: looks, lateAck: lateAck}
			if err := newAnswering(t).eng.NewConn(&h.Conn, h,
				ConnOptions{Counters: &DeviceCounters{}},
				func(ib.QPN) qp.Machine { return h }); err != nil {
				t.Fatal(err)
			}
			h.Lock()
			h.PumpUnlock(0)
			h.Close()
			<-h.came
			if lateAck {
				want++
			}
			if h.flushed != want {
				t.Errorf("held up for %d looks, by an acknowledgement %v: flushed %d times before"+
					" the end, want %d", looks, lateAck, h.flushed, want)
			}
		}
	}
}

// Answers that take long to compute do not wait for each other.
func TestSlowAnswersLeaveAtOnce(t *testing.T) {
	a, now := newAnswering(t), monotime.Time(0)
	a.hear(now, 10)
	if left := a.answer(&now, policy.AnswerGap+1, 10); left != 10 {
		t.Errorf("%d of 10 slow answers left at once", left)
	}
}

// One gap may be another thread's turn on the core. The answers that wait
// leave, and those after the gap leave together too. After a second gap all leave at once.
func TestAnswersLeaveTogetherAfterAGap(t *testing.T) {
	const some = 10
	for gaps, want := range []int{1, 2, 2 + some} {
		a, now := newAnswering(t), monotime.Time(0)
		a.hear(now, (gaps+1)*some)
		left := a.answer(&now, quick, some-1)
		for range gaps {
			left += a.answer(&now, policy.AnswerGap+1, 1)
			left += a.answer(&now, quick, some-1)
		}
		if left += a.answer(&now, quick, 1); left != want {
			t.Errorf("%d answers with %d gaps left at %d times, want %d", (gaps+1)*some, gaps, left,
				want)
		}
	}
}

// A read takes the longer the more messages have come. That time is not the application's. (The
// first answer to many messages counted as slow, so that all left alone.)
func TestTimeOfTheReadIsNotTheApplications(t *testing.T) {
	for name, read := range map[string]func(e *Engine) int{
		"Collect": func(e *Engine) int { return e.Collect(false) },
		"Poll":    func(e *Engine) int { return e.FirstLane().Poll() },
	} {
		a := newAnswering(t)
		a.eng.AddInput(inputFunc(func() int {
			a.hear(monotime.Now().Add(-10*policy.AnswerGap), 10)
			return 10
		}))
		if n := read(a.eng); n != 10 {
			t.Fatalf("%s read %d messages", name, n)
		}
		now := monotime.Time(a.lane.read.Load())
		if left := a.answer(&now, quick, 10); left != 1 {
			t.Errorf("%s: 10 answers left at %d times, want 1", name, left)
		}
	}
}

// inputFunc is an input that calls a function to read.
type inputFunc func() int

func (f inputFunc) TryPoll(bool) int { return f() }
func (f inputFunc) Stop()            {}

// Answers that an application leaves behind are sent as soon as it turns to something else.
func TestAnswersAreNotLeftBehind(t *testing.T) {
	turns := map[string]func(a *answering){
		"polls":               func(a *answering) { a.eng.FirstLane().Poll() },
		"finds no completion": func(a *answering) { a.eng.FirstLane().Flush() },
		"wakes up":            func(a *answering) { a.eng.Collect(false) },
		"is refused": func(a *answering) {
			refuse := func(ib.QPState) error { return net.ErrClosed }
			_ = a.Modify(&ib.QPAttr{}, 0, netip.Addr{}, refuse)
		},
		"goes to sleep": func(a *answering) { a.eng.Settle() },
		"modifies": func(a *answering) {
			_ = a.Modify(&ib.QPAttr{}, 0, netip.Addr{}, func(ib.QPState) error { return nil })
		},
		"exits": func(a *answering) { a.eng.Leave() },
	}
	for name, turn := range turns {
		a, now := newAnswering(t), monotime.Time(0)
		a.hear(now, 10)
		if a.answer(&now, quick, 5) != 0 || !a.eng.delays() {
			t.Fatal("5 answers to 10 messages do not wait")
		}
		if turn(a); a.flushed == 0 || a.answers.waiting {
			t.Errorf("the application %s: flushed %d times, still waits: %t", name, a.flushed,
				a.answers.waiting)
		}
	}
}

// A list of answers counts as so many.
func TestListOfAnswersLeavesAtOnce(t *testing.T) {
	a, now := newAnswering(t), monotime.Time(0)
	a.hear(now, 10)
	if a.postponeAnswer(now, 10) {
		t.Error("10 answers of one list to 10 messages wait")
	}
}

// Messages that had no answer in time have none that waits.
func TestMessagesWithoutAnswersAreForgotten(t *testing.T) {
	a, now := newAnswering(t), monotime.Time(0)
	a.hear(now, 10)
	now = now.Add(monotime.Second)
	if left := a.answer(&now, quick, 5); left != 5 {
		t.Errorf("%d of 5 posts left at once, a second after the last message", left)
	}
}

// Messages without answers keep no answer back that comes after them. (Each answer of a server that
// got two messages for each request waited for the next poll.)
func TestMessagesBeforeOtherPollsKeepNoAnswerBack(t *testing.T) {
	a, now := newAnswering(t), monotime.Time(0)
	for range 10 {
		for range 2 {
			a.eng.FirstLane().Poll() // finds nothing
			a.eng.FirstLane().Poll()
			a.hearInRing(now, 1)
		}
		if left := a.answer(&now, quick, 1); left != 1 {
			t.Fatal("the answer to the only message since the last poll waits")
		}
	}
}

// Messages that another thread reads before the poll that brings more are answered with those.
func TestAnswersWaitForThoseToMessagesOfThePollBefore(t *testing.T) {
	a, now := newAnswering(t), monotime.Time(0)
	for range 3 {
		a.hear(now, 7) // forgotten
		for range 2 {
			a.eng.FirstLane().Poll()
			a.hear(now, 5)
		}
		if left := a.answer(&now, quick, 10); left != 1 {
			t.Errorf("10 answers left at %d times, want 1", left)
		}
	}
}

// An answer that a pumping thread has sent is in no list, and the next one enters it again. (It
// waited for the peer's retransmission.)
func TestAnswersWaitAfterAnotherThreadHasSentSome(t *testing.T) {
	turns := map[string]func(a *answering){
		"polls":  func(a *answering) { a.eng.FirstLane().Poll() },
		"sleeps": func(a *answering) { a.eng.Settle() },
	}
	for name, turn := range turns {
		a, now := newAnswering(t), monotime.Time(0)
		a.hear(now, 2)
		a.eng.Probe().SetPumping(&a.Conn, true)
		if a.answer(&now, quick, 1) != 0 {
			t.Fatal("an answer to 2 messages does not wait")
		}
		turn(a)
		if a.flushed != 0 || !a.more {
			t.Fatal("two threads pump, or none does")
		}
		a.eng.Probe().SetPumping(&a.Conn, false)
		a.hear(now, 2)
		if a.answer(&now, quick, 1) != 0 {
			t.Fatal("an answer to 2 messages does not wait")
		}
		if turn(a); a.flushed != 1 {
			t.Errorf("the application %s: its answer is flushed %d times", name, a.flushed)
		}
	}
}

// An application that may sleep in an epoll set of its own keeps no answer back.
func TestNoAnswerWaitsInAnEpollSet(t *testing.T) {
	a, now := newAnswering(t), monotime.Time(0)
	a.eng.BeginWatchEarly()
	defer a.eng.EndWatch()
	a.hear(now, 10)
	if left := a.answer(&now, quick, 10); left != 10 {
		t.Errorf("%d of 10 answers left at once", left)
	}
}

// No answer waits while the background goroutine is asleep, as nobody would send it.
func TestAnswersWaitOnlyWithAGuard(t *testing.T) {
	a, now := newAnswering(t), monotime.Time(0)
	a.eng.bg.napping.Store(false)
	a.hear(now, 10)
	if left := a.answer(&now, quick, 10); left != 10 {
		t.Errorf("%d of 10 answers left at once without a goroutine that naps", left)
	}
}
