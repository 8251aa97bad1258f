// SPDX-License-Identifier: BSD-2-Clause

package congestion

import (
	"testing"

	"verbena/internal/monotime"
)

// The rate rises while a sender waits for a READ of many packets that went out at a low rate, and
// the wait becomes shorter. A sender of single packets waits less than a period, and is raised by
// acknowledgements only.
func TestDCQCNRaisesTheRateWhileASenderWaits(t *testing.T) {
	const packet = 4096
	for _, c := range []struct {
		name    string
		packets int
		least   monotime.Duration // of the wait
		most    monotime.Duration
	}{
		{"a READ", 64, monotime.Millisecond, 20 * monotime.Millisecond},
		{"a packet", 1, 0, dcqcnTimer},
	} {
		w, now := markedPath()
		before := w.Rate()
		if before < 1e6 || before > 100e6 {
			t.Fatalf("%s: the rate is %.3g MB/s after four marks", c.name, before/1e6)
		}
		w.Sent(now, packet) // no burst is left
		for range c.packets {
			w.Sent(now, packet)
		}
		began := now
		steps := 0
		for at := w.Pace(now); now.Before(at); at = w.Pace(now) {
			now = at
			if steps++; steps > 1000 {
				t.Fatalf("%s: the sender asks again and again", c.name)
			}
		}
		unraised := monotime.Duration(float64((c.packets+1)*packet) / before * 1e9)
		waited := now.Sub(began)
		t.Logf("%s: waited %v, %v without a raise, in %d steps", c.name, waited, unraised, steps)
		if waited < c.least || waited > c.most {
			t.Errorf("%s: waited %v", c.name, waited)
		}
		if c.packets > 1 && waited > unraised*3/4 {
			t.Errorf("%s: waited %v, and %v without a raise", c.name, waited, unraised)
		}
		if rose := w.Rate() > before; rose != (c.packets > 1) {
			t.Errorf("%s: the rate went from %.3g to %.3g", c.name, before, w.Rate())
		}
	}
}

// After a pause some periods are left when a READ has been raised for. It is held all the same.
func TestDCQCNHoldsASenderAfterAPause(t *testing.T) {
	w, now := markedPath()
	now = now.Add(25 * monotime.Millisecond)
	for range 64 * 4 {
		w.Sent(now, 4096)
	}
	for range 3 {
		if at := w.Pace(now); !now.Before(at) {
			t.Fatalf("the sender may go on at once, with %v ahead of it", w.sendAt.Sub(now))
		}
	}
}

// markedPath returns a window that marks have left some 40 MB/s of 655, and the time.
func markedPath() (w Window, now monotime.Time) {
	const packet, trip = 4096, 100 * monotime.Microsecond
	w.Start(DCQCN)
	now = monotime.Time(monotime.Second)
	for range 20 {
		now = now.Add(trip)
		w.RTT.Sample(trip)
		w.Sample(now, trip, 16*packet, true)
		w.Acked(now, 16*packet)
	}
	for range 4 {
		now = now.Add(trip)
		w.Marked(now, packet)
	}
	return w, now
}
