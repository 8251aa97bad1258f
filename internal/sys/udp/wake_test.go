// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"verbena/internal/monotime"
)

// TestWakeIsNeverLost wakes a waiter again and again while it drains earlier
// wake-ups: each Wake that comes after a Wait has returned ends the next one.
func TestWakeIsNeverLost(t *testing.T) {
	p, err := NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var stop atomic.Bool
	var wakers sync.WaitGroup
	for range 2 {
		wakers.Add(1)
		go func() {
			defer wakers.Done()
			for !stop.Load() {
				p.Wake()
			}
		}()
	}
	var ready [4]uint64
	for range 100_000 {
		if _, err := p.Wait(10*monotime.Second, ready[:]); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	wakers.Wait()
	for range 3 { // wake-ups left of the others, then our own
		p.Wake()
		start := time.Now()
		if _, err := p.Wait(5*monotime.Second, ready[:]); err != nil || time.Since(start) > 4*time.Second {
			t.Fatalf("a wake-up was lost: %v", err)
		}
	}
}
