// SPDX-License-Identifier: BSD-2-Clause

package futex

import (
	"testing"
	"time"
)

func TestLastsAsLongAsAskedFor(t *testing.T) {
	start := time.Now()
	Sleep(20 * time.Millisecond)
	if d := time.Since(start); d < 20*time.Millisecond {
		t.Errorf("slept for %v", d)
	}
	var n Nap
	n.For(0)
	n.For(-time.Second)
}

func TestEndWakes(t *testing.T) {
	var n Nap
	done := make(chan struct{})
	for range 1000 {
		go func() {
			n.For(long)
			done <- struct{}{}
		}()
		n.End() // before it sleeps, or while it does
		<-done
	}
}

func TestEndIsForOneSleep(t *testing.T) {
	var n Nap
	n.End()
	n.End()
	n.For(long)
	start := time.Now()
	for time.Since(start) < time.Millisecond { // a signal may end one sooner
		n.For(time.Millisecond)
	}
	if got := n.state.Load(); got != awake {
		t.Errorf("state %d after a sleep", got)
	}
}

func TestDoesNotAllocate(t *testing.T) {
	var n Nap
	if k := testing.AllocsPerRun(10, func() { n.For(time.Microsecond); n.End(); n.For(long) }); k != 0 {
		t.Errorf("%v allocations", k)
	}
}
