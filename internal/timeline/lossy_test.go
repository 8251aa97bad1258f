// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"strings"
	"testing"

	"verbena/internal/testkit/talk"
)

// TestLossyTRP: repeats that a SACK asks for and those of a timer are told apart.
func TestLossyTRP(t *testing.T) {
	tl := read(t, talk.LossyTRP(t))
	want := "setup setup sent sent sent ack sent sent lost sent selective ack repeated ack sent sent sent lost repeated ack"
	if got := strings.Join(kinds(tl), " "); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	c := tl.Conns[0]
	if a := &c.A; c.Protocol != "TRP" || a.Repeated != 2 || a.Resent != 2 || a.TimedOut != 1 || a.Lost != 2 || a.Done != 3 || a.RTTs == 0 || a.InFlightMax != 3*1014 {
		t.Errorf("%s: %+v", c.Protocol, a)
	}
}

// TestLossyIWARP: TCP segments are sent again because a duplicate acknowledgement asks, or by a
// timer.
func TestLossyIWARP(t *testing.T) {
	tl := read(t, talk.LossyIWARP(t))
	want := "setup setup sent sent sent ack sent ack sent lost sent ack repeated ack sent sent sent lost repeated ack"
	if got := strings.Join(kinds(tl), " "); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	c := tl.Conns[0]
	if a := &c.A; c.Protocol != "iWARP" || a.Repeated != 2 || a.Resent != 2 || a.TimedOut != 1 || a.Lost != 2 || a.Done != 3 || a.RTTs == 0 {
		t.Errorf("%s: %+v", c.Protocol, a)
	}
	for i, repeated := range []uint32{0, 1, 1} {
		if o := tl.Ops[i]; o.Repeated != repeated || o.Bytes != 3000 || o.Status != Done {
			t.Errorf("%+v", o)
		}
	}
}
