// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"slices"
	"testing"

	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/monotime"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// The state of the path has the round trips as they were, and the bytes under way. It counts lost
// packets, whether a NAK or a SACK shows them.
func TestPathState(t *testing.T) {
	const ms = monotime.Millisecond
	s := script.New(t, newRC)
	want := func(why string, want congestion.Path) {
		t.Helper()
		if got := s.Machine.PathState(); got != want {
			t.Fatalf("%s: %+v, want %+v", why, got, want)
		}
	}
	want("nothing is sent", congestion.Path{WindowBytes: congestion.Initial})
	s.Post(script.Write(1024))
	s.Packets()
	want("a packet", congestion.Path{WindowBytes: congestion.Initial, InFlight: 1024})
	s.Advance(3 * ms)
	s.Recv(script.Ack(psn, 1))
	// The path is long, so the window goes out over half a round trip while it doubles.
	window := int64(congestion.Initial + 1024 + 80) // with headers
	want("a round trip", congestion.Path{RTT: 3 * ms, RTTVar: 3 * ms / 2, MinRTT: 3 * ms, WindowBytes: window,
		PaceRate: int64(float64(window) / (3 * ms / 2).Seconds())})
	s.Post(script.Write(4096))
	s.Packets()
	s.Recv(script.Nak(psn+3, wire.NAKPSNSequence))
	s.Packets()
	got := s.Machine.PathState()
	if got.Lost != 1 || got.Repeated != 2 || got.InFlight != 2048 {
		t.Fatalf("a NAK: %+v, want one lost and two repeated", got)
	}
	s.Recv(sack(psn+5, gap(psn+3, psn+3)))
	s.Packets()
	got = s.Machine.PathState()
	if got.Lost != 2 || got.Repeated != 3 || got.InFlight != 1024 {
		t.Fatalf("a SACK: %+v, want one more lost and one more repeated", got)
	}
	s.Recv(script.Ack(psn+4, 2))
	if got := s.Machine.PathState(); got.InFlight != 0 {
		t.Fatalf("all is acknowledged: %+v", got)
	}
}

// The response of a later READ shows that an earlier one is missing. It measures no round trip of
// the earlier, which may be much older.
func TestMissingResponseMeasuresNothing(t *testing.T) {
	const ms = monotime.Millisecond
	s := script.New(t, newRC, relaxed)
	answer := func(psn ib.PSN) {
		s.Recv(script.Response(wire.RCRDMAReadResponseOnly, psn, make([]byte, 1024)))
	}
	s.Post(script.Read(1024))
	s.WantDrain("sent", 1)
	s.Advance(ms)
	answer(psn)
	s.Post(script.Read(1024))
	s.WantDrain("timed", 1)
	s.Advance(3 * ms)
	s.Post(script.Read(1024))
	s.WantDrain("later", 1)
	s.Advance(ms)
	answer(psn + 2)
	if got := s.Machine.PathState().RTT; got != ms {
		t.Fatalf("a round trip of %v, want %v", got, ms)
	}
	wantRead(t, s, "the missing one", psn+1, 1)
	answer(psn + 1)
	if got := s.Machine.PathState().RTT; got != ms {
		t.Fatalf("a round trip of %v, want %v: the packet was sent twice", got, ms)
	}
	s.Advance(1) // what leaves with the copy is not timed
	s.Post(script.Read(1024))
	s.WantDrain("timed again", 1)
	s.Advance(3 * ms)
	answer(psn + 3)
	if got := s.Machine.PathState().RTT; got != ms+ms/4 {
		t.Fatalf("a round trip of %v, want %v", got, ms+ms/4)
	}
}

// A new packet that leaves with the copy of the timed one is not timed: a full queue dropped it
// each time, and then the round trip stayed unknown. The next one is.
func TestPacketBesideACopyIsNotTimed(t *testing.T) {
	const ms = monotime.Millisecond
	s := script.New(t, newRC, relaxed)
	answer := func(psn ib.PSN) {
		s.Recv(script.Response(wire.RCRDMAReadResponseOnly, psn, make([]byte, 1024)))
	}
	read := func(what string) {
		s.Post(script.Read(1024))
		s.WantDrain(what, 1)
	}
	read("sent")
	s.Advance(ms)
	answer(psn)
	read("timed")
	s.Advance(3 * ms)
	read("later")
	s.Advance(ms)
	answer(psn + 2)
	wantRead(t, s, "the missing one", psn+1, 1)
	read("beside it")
	s.Advance(3 * ms)
	answer(psn + 1)
	answer(psn + 3)
	if got := s.Machine.PathState().RTT; got != ms {
		t.Errorf("a round trip of %v, want %v", got, ms)
	}
	read("the next")
	s.Advance(3 * ms)
	answer(psn + 4)
	if got := s.Machine.PathState().RTT; got != ms+ms/4 {
		t.Errorf("a round trip of %v, want %v", got, ms+ms/4)
	}
}

// On a long path atomics go out at the pace. Each counts as a packet of the path MTU, as a request
// of another kind does.
func TestAtomicsArePaced(t *testing.T) {
	const all, step = 60, 100 * monotime.Microsecond
	for _, w := range []script.WR{script.FetchAdd(1), script.CompareSwap(1, 2), script.Write(1024)} {
		s := script.New(t, newWideRC, attr(func(a *ib.QPAttr) { a.MaxRdAtomic = all }))
		known(s, 8*monotime.Millisecond, true)
		s.Post(slices.Repeat([]script.WR{w}, all)...)
		sent := len(s.Packets())
		path := s.Machine.PathState()
		// the last is not cut from the one before it
		rest := monotime.Duration(float64(all-1-sent) * 1104 / float64(path.PaceRate) *
			float64(monotime.Second))
		if sent == 0 || rest < 4*step {
			t.Fatalf("%v: %d at once, and the rest in %v", w.Opcode, sent, rest)
		}
		s.Advance(rest - step)
		if sent += len(s.Packets()); sent >= all {
			t.Errorf("%v: all sent before %v", w.Opcode, rest)
		}
		s.Advance(2 * step)
		if sent += len(s.Packets()); sent != all {
			t.Errorf("%v: %d sent after %v, want %d", w.Opcode, sent, rest, all)
		}
	}
}

// The pace does not cut a short message that is all a queue pair has to send, unless the network
// marks packets.
func TestLoneMessageIsNotPaced(t *testing.T) {
	const short = 60 << 10 // in packets of 1024 bytes
	for name, c := range map[string]struct {
		sizes  []int
		marked bool
		whole  bool
	}{
		"one":         {sizes: []int{short}, whole: true},
		"one, marked": {sizes: []int{short}, marked: true},
		"long":        {sizes: []int{2 * short}},
		"two":         {sizes: []int{short, short}},
	} {
		s := script.New(t, newWideRC)
		known(s, 8*monotime.Millisecond, true)
		if c.marked {
			s.Recv(cnp())
		}
		all := 0
		for _, n := range c.sizes {
			s.Post(script.Write(n))
			all += n / 1024
		}
		if sent := len(s.Packets()); sent == 0 || (sent == all) != c.whole {
			t.Errorf("%s: %d packets of %d go at once", name, sent, all)
		}
	}
}
