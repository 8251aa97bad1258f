// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"sync"
	"testing"

	"verbena/ib"
	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
)

// A peer that waits for the acknowledgement before it goes on lets the grace
// run out every time. It gets its acknowledgements with the answers then.
func TestGraceThatRunsOutIsGivenUp(t *testing.T) {
	var l DelayedAck
	for range policy.AckMisses - 1 {
		l.expire()
	}
	l.waiting = true
	if l.NotePost(false); !l.waiting {
		t.Error("given up before it ran out often enough: one delay may be chance")
	}
	l.expire()
	if l.NotePost(false); l.waiting {
		t.Errorf("the acknowledgement still waits after the grace ran out %d times in a row", policy.AckMisses)
	}
}

// Messages that came together are acknowledged with the first answers, a message alone later.
func TestMessagesTogetherAreAcknowledgedWithTheirAnswers(t *testing.T) {
	for messages, waits := range map[int]bool{1: true, 2: false, 10: false} {
		a := newAnswering(t)
		l := NewDelayedAck(&a.Conn, a.eng.FirstLane())
		a.hear(0, messages)
		a.Lock()
		if !l.DelayUnlock(0, 0) {
			t.Fatal("the acknowledgement is not delayed")
		}
		if l.NotePost(false); l.Waiting() != waits {
			t.Errorf("%d messages: after the first answer the acknowledgement waits: %t", messages,
				l.Waiting())
		}
	}
}

// Messages without answers do not count as come together with later ones. (Each answer carried an
// acknowledgement, instead of each eighth.)
func TestMessagesBeforeOtherPollsAreNotTogether(t *testing.T) {
	a := newAnswering(t)
	l := NewDelayedAck(&a.Conn, a.eng.FirstLane())
	now := monotime.Time(0)
	arrive := func(psn ib.PSN) {
		a.eng.FirstLane().Poll()
		a.eng.FirstLane().Poll()
		a.hear(now, 1)
		a.Lock()
		if !l.DelayUnlock(now, psn) {
			t.Fatalf("the acknowledgement of message %d is not delayed", psn)
		}
	}
	for request := range ib.PSN(10) {
		arrive(2 * request)
		a.eng.FirstLane().flush(0)
		arrive(2*request + 1)
		a.answer(&now, quick, 1)
		if l.NotePost(false); !l.Waiting() {
			t.Fatalf("the acknowledgement of request %d leaves with its answer", request)
		}
	}
}

// An acknowledgement that covers as many messages as it may waits for the last one's answer, and
// leaves with the next look. (It left before that answer.) A lack of looks does not let it grow.
func TestFullAcknowledgementFollowsTheAnswer(t *testing.T) {
	a := newAnswering(t)
	lane := a.eng.FirstLane()
	l := NewDelayedAck(&a.Conn, lane)
	now := monotime.Now()
	arrive := func(psn int) (delayed bool) {
		lane.Poll()
		lane.Poll()
		a.hear(now, 1)
		a.Lock()
		if delayed = l.DelayUnlock(now, ib.PSN(psn)); !delayed {
			a.Unlock()
		}
		return delayed
	}
	for psn := range policy.AckBatches {
		if !arrive(psn) {
			t.Fatalf("the acknowledgement of message %d leaves before its answer", psn)
		}
		a.answer(&now, quick, 1)
		l.NotePost(false)
		lane.flush(monotime.Second)
		if full := psn == policy.AckBatches-1; l.Waiting() == full {
			t.Fatalf("message %d is answered: the acknowledgement waits: %t", psn, !full)
		}
	}
	if l.expired > 0 {
		t.Error("the peer is taken for one that waits for it")
	}
	for psn := range policy.AckBatches + 1 {
		delayed := arrive(psn)
		if full := psn == policy.AckBatches; delayed == full {
			t.Fatalf("no look has come: the acknowledgement of message %d is delayed: %t", psn, delayed)
		}
		a.answer(&now, quick, 1)
		l.NotePost(false)
	}
}

// Where both need one system call, an acknowledgement that covers as many messages as it may leaves
// with the answer, and no earlier one does.
func TestFullAcknowledgementJoinsTheAnswer(t *testing.T) {
	a := newAnswering(t)
	lane := a.eng.FirstLane()
	l := NewDelayedAck(&a.Conn, lane)
	now := monotime.Now()
	for psn := range 2 * policy.AckBatches {
		lane.Poll()
		lane.Poll()
		a.hear(now, 1)
		a.Lock()
		if !l.DelayUnlock(now, ib.PSN(psn)) {
			t.Fatalf("the acknowledgement of message %d leaves before its answer", psn)
		}
		a.answer(&now, quick, 1)
		l.NotePost(true)
		if full := psn%policy.AckBatches == policy.AckBatches-1; l.Waiting() == full {
			t.Fatalf("message %d is answered: the acknowledgement waits: %t", psn, !full)
		}
	}
}

// A look at acknowledgements that all wait for longer takes no lock. One that is delayed meanwhile
// is looked at.
func TestRestingAcknowledgements(t *testing.T) {
	a := newAnswering(t)
	lane := a.eng.FirstLane()
	l := NewDelayedAck(&a.Conn, lane)
	now := monotime.Now()
	arrive := func(psn ib.PSN) {
		lane.Poll()
		lane.Poll()
		a.hear(now, 1)
		a.Lock()
		if !l.DelayUnlock(now, psn) {
			t.Fatalf("the acknowledgement of message %d is not delayed", psn)
		}
		if lane.rest.Load() != 0 {
			t.Fatal("the next look passes it")
		}
	}
	arrive(1)
	if lane.flush(monotime.Second); lane.rest.Load() != 0 {
		t.Error("it may leave with the next look, which passes it")
	}
	a.answer(&now, quick, 1)
	l.NotePost(false)
	if lane.flush(monotime.Second); monotime.Time(lane.rest.Load()) != l.since.Add(monotime.Second) {
		t.Errorf("it is answered, and rests until %d", lane.rest.Load())
	}
	arrive(2)
}

// A grace that was given up is tried again, ever more rarely.
func TestGraceIsTriedAgainEverMoreRarely(t *testing.T) {
	var l DelayedAck
	last := 0
	for last < policy.MaxTogether {
		for range policy.AckMisses {
			l.expire()
		}
		if l.together <= last || l.together > policy.MaxTogether {
			t.Fatalf("given up for %d messages after %d", l.together, last)
		}
		last = l.together
	}
}

// An acknowledgement is in the list once, so that the others have room. Its flush, which takes it
// out, may find that it left with an answer meanwhile.
func TestDelayedAckIsListedOnce(t *testing.T) {
	e := &Engine{}
	e.makeLanes()
	lane := &e.lanes[0]
	conns := make([]Conn, maxDelayed+1)
	acks := make([]DelayedAck, len(conns))
	for i := range acks {
		conns[i].mu = &sync.Mutex{}
		acks[i] = NewDelayedAck(&conns[i], lane)
	}
	for range maxDelayed + 1 {
		if !acks[0].list() {
			t.Fatal("no room for one acknowledgement that is in the list")
		}
	}
	for i := range acks[:maxDelayed] {
		if !acks[i].list() {
			t.Fatalf("no room for acknowledgement %d", i)
		}
	}
	if acks[maxDelayed].list() {
		t.Errorf("more than %d acknowledgements", maxDelayed)
	}
	lane.flush(0)
	if n := lane.delayed.n.Load(); n != 0 {
		t.Errorf("%d acknowledgements after the flush", n)
	}
	for i := range acks[1:] {
		if !acks[1+i].list() {
			t.Errorf("no room for acknowledgement %d after the flush", 1+i)
		}
	}
}
