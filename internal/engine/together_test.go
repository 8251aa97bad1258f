// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"testing"

	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
)

// joining is a queue pair whose answers leave together with those of others.
type joining struct {
	answering
	writes *[]int // the number of queue pairs of each write
}

type joiningGroup struct {
	writes *[]int
	n      int
}

func (j *joining) NewGroup() Group { return &joiningGroup{writes: j.writes} }

func (g *joiningGroup) Add(monotime.Time, *Conn) bool { g.n++; return true }

func (g *joiningGroup) Write() { *g.writes = append(*g.writes, g.n) }

// newJoining returns queue pairs of one engine and Lane.
func newJoining(t *testing.T, n int) (list []*joining, writes *[]int) {
	t.Helper()
	e := newAnswering(t).eng
	writes = &[]int{}
	for range n {
		j := &joining{writes: writes}
		e.NewNumberlessConn(&j.Conn, j, j)
		list = append(list, j)
	}
	return list, writes
}

// post posts an answer as SubmitUnlock does.
func (j *joining) post(now monotime.Time) {
	j.Lock()
	if j.postponeAnswer(now, 1) {
		j.Unlock()
		return
	}
	if j.joinAnswers() {
		j.Unlock()
		j.lane.sendAnswers()
		return
	}
	j.PumpUnlock(now)
}

// Answers of several queue pairs to messages that came together leave with the last one, or in
// batches. It goes on so: one batch leaves nothing behind for the next.
func TestAnswersOfSeveralLeaveTogether(t *testing.T) {
	for _, n := range []int{2, 20, 2 * policy.AnswerBatch} {
		list, writes := newJoining(t, n)
		now := monotime.Time(0)
		for range 3 {
			*writes = (*writes)[:0]
			list[0].eng.FirstLane().Poll()
			for _, j := range list {
				j.hear(now, 1)
			}
			for _, j := range list {
				now = now.Add(quick)
				j.post(now)
			}
			want := max(n/min(policy.AnswerBatch, maxJoint), 1)
			if len(*writes) != want || (*writes)[0] != n/want {
				t.Errorf("answers of %d queue pairs left by writes of %v, want %d writes", n, *writes, want)
			}
		}
	}
}

// Messages that another thread has read are answered together, too.
func TestAnswersWaitWhileOthersRead(t *testing.T) {
	list, writes := newJoining(t, 8)
	now := monotime.Time(0)
	for _, j := range list {
		j.hear(now, 1)
	}
	list[0].eng.FirstLane().Poll() // the application comes after the reader
	for _, j := range list {
		now = now.Add(quick)
		j.post(now)
	}
	if len(*writes) != 1 || (*writes)[0] != len(list) {
		t.Errorf("writes of %v queue pairs, want one of %d", *writes, len(list))
	}
}

// Messages that nobody answers keep no answer back for long.
func TestUnansweredMessagesOfOthersAreForgotten(t *testing.T) {
	list, writes := newJoining(t, 8)
	now := monotime.Time(0)
	for _, j := range list {
		j.hear(now, 1)
	}
	lane := list[0].eng.FirstLane()
	lane.Poll()
	lane.Poll()
	list[0].hear(now, 1)
	list[0].post(now.Add(quick))
	if list[0].flushed != 1 || len(*writes) != 0 || list[0].answers.waiting {
		t.Errorf("the only answer was flushed %d times, with others %v", list[0].flushed, *writes)
	}
}

// Output that comes while a group is written is sent by the thread that writes it.
func TestOutputThatComesWhileAGroupIsWritten(t *testing.T) {
	list, _ := newJoining(t, 2)
	send := Joint{}
	for _, j := range list {
		j.Lock()
		send.PumpUnlock(&j.Conn)
	}
	list[1].Lock()
	list[1].PumpUnlock(0) // by another thread
	if list[1].flushed != 0 {
		t.Fatal("two threads pump")
	}
	if send.Finish(); list[0].flushed != 0 || list[1].flushed != 1 {
		t.Errorf("flushed %d and %d times, want 0 and 1", list[0].flushed, list[1].flushed)
	}
	for i, j := range list {
		if j.pumping {
			t.Errorf("queue pair %d pumps for ever", i)
		}
	}
}
