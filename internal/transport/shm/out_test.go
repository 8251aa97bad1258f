// SPDX-License-Identifier: BSD-2-Clause

package shm

import (
	"testing"

	"verbena/internal/monotime"
	"verbena/internal/sys/shmring"
)

// The longer a process has not read its ring, the less often it is looked at: thousands of queue
// pairs may wait for a process that is stopped. Once it goes on, they go on in a moment.
func TestFullRingIsLookedAtEverLessOften(t *testing.T) {
	for _, c := range []struct{ full, least, most monotime.Duration }{
		{monotime.Microsecond, 10 * monotime.Microsecond, 200 * monotime.Microsecond},
		{80 * monotime.Millisecond, 5 * monotime.Millisecond, 20 * monotime.Millisecond},
		{3600 * monotime.Second, 5 * monotime.Millisecond, 100 * monotime.Millisecond},
	} {
		before := monotime.Now()
		o := Out{since: before.Add(-c.full)}
		again := o.LookAgainLocked()
		late := monotime.Now().Sub(before) // this thread may be held up
		if d := again.Sub(before); d < c.least || d > c.most+2*late {
			t.Errorf("full for %v: the next look is %v later, want %v to %v", c.full, d, c.least,
				c.most)
		}
	}
}

// Output that found the ring full waits for a reader that reads, or lost its core not long ago. It
// does so, too, when there is room by then: a queue pair that was destroyed in that moment lost its
// last acknowledgement.
func TestOutputWaitsForAReaderThatRuns(t *testing.T) {
	var o Out
	var rx *shmring.Consumer
	o.tx, rx = shmring.NewPair()
	if !o.HeldUp() {
		t.Error("an empty ring has no room")
	}
	o.Lock()
	for o.RoomLocked() == Ready {
		o.tx.Commit(len(o.memory), &shmring.Message{})
	}
	o.Unlock()
	if !o.HeldUp() {
		t.Error("does not wait for the reader of a full ring")
	}
	o.since -= monotime.Time(stallTimeout)
	if o.HeldUp() {
		t.Error("waits for a reader that has not read for long")
	}
	for m := new(shmring.Message); ; rx.Advance() {
		if ok, err := rx.Next(m); err != nil {
			t.Fatal(err)
		} else if !ok {
			break
		}
	}
	if !o.HeldUp() {
		t.Error("the reader has taken all, and there is no room")
	}
	o.gone = true
	if o.HeldUp() {
		t.Error("waits for a ring that is gone")
	}
}
