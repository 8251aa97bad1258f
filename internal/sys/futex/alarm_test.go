// SPDX-License-Identifier: BSD-2-Clause

package futex

import (
	"sync/atomic"
	"testing"
	"time"
)

const (
	soon = 5 * time.Millisecond
	long = time.Hour // a sleep that a test does not see the end of
)

func TestAlarmsComeInTheirOrder(t *testing.T) {
	start, order := time.Now(), make(chan int, 3)
	for i, d := range []time.Duration{3 * soon, soon, 2 * soon} {
		NewAlarm(func() { order <- i }).Set(d)
	}
	for n, want := range []int{1, 2, 0} {
		if got := <-order; got != want {
			t.Fatalf("alarm %d came, not %d", got, want)
		}
		if took, least := time.Since(start), time.Duration(n+1)*soon; took < least {
			t.Errorf("after %v, not %v", took, least)
		}
	}
}

func TestTheLastSetCounts(t *testing.T) {
	var calls atomic.Int32
	called := make(chan time.Time, 10)
	a := NewAlarm(func() { calls.Add(1); called <- time.Now() })
	start := time.Now()
	a.Set(long)
	a.Set(long / 2)
	a.Set(2 * soon) // sooner
	a.Set(4 * soon) // later
	if at := <-called; at.Sub(start) < 4*soon {
		t.Errorf("called after %v, not %v", at.Sub(start), 4*soon)
	}
	a.Set(0)
	<-called
	a.Set(soon)
	a.Stop()
	a.Stop()
	other := make(chan struct{})
	NewAlarm(func() { close(other) }).Set(2 * soon)
	<-other
	if n := calls.Load(); n != 2 {
		t.Errorf("called %d times, not twice", n)
	}
}

// An alarm may set itself, and others, while it is called.
func TestAlarmSetsItself(t *testing.T) {
	done := make(chan struct{})
	var a *Alarm
	n := 0
	a = NewAlarm(func() {
		if n++; n == 1000 {
			close(done)
			return
		}
		a.Set(0)
	})
	a.Set(0)
	<-done
}
