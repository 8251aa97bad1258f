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
	var s Sleeper
	s.Wait(0)
	s.Wait(-time.Second)
}

func TestEndWakes(t *testing.T) {
	var s Sleeper
	done := make(chan struct{})
	for range 1000 {
		go func() {
			s.Wait(long)
			done <- struct{}{}
		}()
		s.Wake() // before it sleeps, or while it does
		<-done
	}
}

func TestEndIsForOneSleep(t *testing.T) {
	var s Sleeper
	s.Wake()
	s.Wake()
	s.Wait(long)
	start := time.Now()
	for time.Since(start) < time.Millisecond { // a signal may end one sooner
		s.Wait(time.Millisecond)
	}
	if got := s.state.Load(); got != awake {
		t.Errorf("state %d after a sleep", got)
	}
}

func TestDoesNotAllocate(t *testing.T) {
	var s Sleeper
	if k := testing.AllocsPerRun(10, func() { s.Wait(time.Microsecond); s.Wake(); s.Wait(long) }); k != 0 {
		t.Errorf("%v allocations", k)
	}
}
