// SPDX-License-Identifier: BSD-2-Clause

package channel

import (
	"testing"

	"verbena/internal/monotime"
	wire "verbena/internal/wire/ntb"
)

func TestLinkComesUp(t *testing.T) {
	for seed := range uint64(100) {
		w := newWorld(t, seed)
		w.settle("first")
		if w.a.ups != 1 || w.b.ups != 1 || w.a.downs+w.b.downs != 0 {
			t.Fatalf("seed %d: up %d and %d times, down %d and %d", seed, w.a.ups, w.b.ups, w.a.downs, w.b.downs)
		}
		if w.a.c.Version() != highestVersion {
			t.Fatalf("version %d", w.a.c.Version())
		}
	}
}

// A crash of either end at each step of the set-up and a while after: the link comes back, and a
// dead session's writes are never taken for the living one's.
func TestCrashAtEveryStep(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		for crash := range 120 {
			w := newWorld(t, seed)
			victim := []*node{w.a, w.b}[crash%2]
			for range crash/2 + 1 {
				w.step()
			}
			victim.crash()
			w.settle("after the crash")
		}
	}
}

// Crashes, resets, lost back ends, bad hellos and stopped processes in any order. The
// same seed gives the same run.
func TestAnyFaults(t *testing.T) {
	play := func(seed uint64) uint64 {
		w := newWorld(t, seed)
		for range 30 {
			for range w.rnd.IntN(80) {
				w.step()
			}
			n := []*node{w.a, w.b}[w.rnd.IntN(2)]
			switch w.rnd.IntN(6) {
			case 0, 1:
				n.crash()
			case 2:
				n.c.Reset(w.now)
			case 3:
				n.badHello = true
				n.c.Reset(w.now)
			case 4: // stopped for a while, and goes on not knowing it
				n.dead = true
				for range w.rnd.IntN(3000) {
					w.step()
				}
				n.dead = false
			case 5:
				if w.a.c.State() != Down {
					w.keeps = true
					w.a.c.Detach(w.now)
					for range 5 {
						w.step()
					}
					w.a.c.Attach(w.now, w.a.own, windowBytes)
				}
			}
		}
		for _, n := range []*node{w.a, w.b} {
			n.badHello = false
		}
		w.settle("healed")
		return w.hash()
	}
	for seed := range uint64(40) {
		if a, b := play(seed), play(seed); a != b {
			t.Fatalf("seed %d gives two runs", seed)
		}
	}
}

// A peer that stops, and whose back end stands, is waited for.
func TestWatchedPeerStops(t *testing.T) {
	w := newWorld(t, 1)
	w.a.c.Watched, w.b.c.Watched = true, true
	w.settle("first")
	w.b.dead = true
	for from := w.now; w.now.Sub(from) < 4*peerSilence; {
		w.step()
	}
	w.b.dead = false
	w.settle("after its return")
	for _, n := range []*node{w.a, w.b} {
		if n.c.Count[LinkUps] != 1 || n.c.Count[PeerSilent] != 0 {
			t.Errorf("%d links, %d times silent", n.c.Count[LinkUps], n.c.Count[PeerSilent])
		}
	}
}

// A peer that stops is given up after peerSilence, not before.
func TestSilentPeer(t *testing.T) {
	w := newWorld(t, 1)
	w.settle("first")
	w.b.dead = true
	from := w.now
	for w.a.up {
		w.step()
		if w.now.Sub(from) > 2*peerSilence {
			t.Fatal("never given up")
		}
	}
	if d := w.now.Sub(from); d < peerSilence-2*pingInterval {
		t.Errorf("given up after %v", d)
	}
	if w.a.c.Count[PeerSilent] != 1 {
		t.Errorf("counted %d times", w.a.c.Count[PeerSilent])
	}
	w.b.dead = false
	w.settle("after its return")
	if w.b.downs != 1 {
		t.Errorf("the one that stopped went down %d times", w.b.downs)
	}
}

// An idle link stays up: the heartbeat alone keeps it.
func TestIdleLinkStaysUp(t *testing.T) {
	w := newWorld(t, 2)
	w.settle("first")
	for end := w.now.Add(30 * monotime.Second); w.now < end; {
		w.step()
	}
	if w.a.downs+w.b.downs != 0 {
		t.Errorf("down %d and %d times", w.a.downs, w.b.downs)
	}
}

// A machine that stands still, and both nodes on it, loses nothing by it.
func TestMachineStandsStill(t *testing.T) {
	w := newWorld(t, 3)
	w.settle("first")
	for range 3 {
		w.now = w.now.Add(2 * peerSilence)
		for end := w.now.Add(monotime.Second); w.now < end; {
			w.step()
		}
	}
	if w.a.downs+w.b.downs != 0 {
		t.Errorf("down %d and %d times", w.a.downs, w.b.downs)
	}
}

// A peer of no common version is refused, and tried again after a pause.
func TestVersionsThatDoNotMeet(t *testing.T) {
	w := newWorld(t, 3)
	for end := w.now.Add(3 * monotime.Second); w.now < end; {
		w.now = w.now.Add(monotime.Millisecond)
		w.a.arrive()
		w.b.arrive()
		w.b.own.Store4(wire.OffVersions, uint32(wire.NewVersions(7, 9)))
		w.a.run()
		w.b.run()
	}
	if n := w.b.c.Count[NoVersion]; n < 2 || n > 4 || w.a.up || w.b.up {
		t.Errorf("refused %d times in 3 s; up: %v, %v", n, w.a.up, w.b.up)
	}
	w.settle("with a version that it speaks")
}

// Whatever a hostile peer writes to the info page, nothing panics, and the link
// comes back.
func TestHostileInfoPage(t *testing.T) {
	for seed := range uint64(60) {
		w := newWorld(t, seed)
		w.lies = true
		for range 300 {
			w.step()
			at := uint64(w.rnd.IntN(0x60)) &^ 3
			if w.rnd.IntN(8) == 0 {
				at = wire.OffHelloData + uint64(w.rnd.IntN(2*wire.MaxHelloBytes))&^3
			}
			w.a.own.Store4(at, w.rnd.Uint32()>>w.rnd.IntN(32))
		}
		w.lies = false
		w.a.c.Reset(w.now)
		w.b.c.Reset(w.now)
		w.settle("left alone again")
	}
}

// A new process counts its sleeps and its signals from elsewhere than the dead
// one did: else its first ones would look as if they had been seen.
func TestNewProcessIsSeen(t *testing.T) {
	w := newWorld(t, 5)
	w.keeps = true
	w.settle("first")
	for range 3 {
		w.a.c.Sleep()
		signals := w.b.own.Load4(wire.OffSignal)
		for end := w.now.Add(monotime.Second); w.now < end; {
			w.step()
		}
		if !w.b.c.MustWake() {
			t.Fatal("the one that sleeps is not woken")
		}
		w.a.crash()
		w.settle("with a new process")
		if w.b.own.Load4(wire.OffSignal) <= signals+1000 && w.b.own.Load4(wire.OffSignal) >= signals {
			t.Error("signals go on where the dead one stopped")
		}
	}
}

// A device that is pulled out reads as ones: the link is down for as long.
func TestWindowReadsAsOnes(t *testing.T) {
	w := newWorld(t, 6)
	w.keeps = true
	w.settle("first")
	w.lies = true // about this application's memory
	all, _ := w.a.own.Bytes(0, windowBytes)
	for range 2000 {
		for i := range all {
			all[i] = 0xff
		}
		w.a.run()
		w.now = w.now.Add(monotime.Millisecond)
	}
	if w.a.up || w.a.c.State() != Probing {
		t.Errorf("up with nothing there: %v", w.a.c.State())
	}
	clear(all)
	w.lies = false
	w.b.c.Reset(w.now)
	w.settle("plugged in again")
}

// A node that sleeps is woken once, and does not go to sleep over a signal
// that has come meanwhile.
func TestSleepAndWake(t *testing.T) {
	w := newWorld(t, 4)
	w.settle("first")
	a, b := w.a, w.b
	flush := func(n *node) {
		n.c.PollOutput(n.batch)
		if err := n.batch.Apply(n.peer.own.Far()); err != nil {
			t.Fatal(err)
		}
		n.batch.Reset()
	}
	for len(a.wirePath)+len(b.wirePath) > 0 {
		w.now++
		w.now = w.now.Add(monotime.Millisecond)
		a.arrive()
		b.arrive()
	}
	a.c.Handle(w.now)
	b.c.Handle(w.now)
	b.c.MustWake()
	if b.c.MustWake() {
		t.Error("a does not sleep and must be woken")
	}
	a.c.Sleep()
	flush(a)
	if !a.c.Quiet() {
		t.Error("nothing came, and a may not sleep")
	}
	b.c.Ring(b.batch)
	flush(b)
	if a.c.Quiet() {
		t.Error("a would sleep over a signal")
	}
	if !b.c.MustWake() {
		t.Error("a sleeps and is not woken")
	}
	if b.c.MustWake() {
		t.Error("a is woken twice")
	}
	a.c.Handle(w.now)
	if !a.c.Quiet() {
		t.Error("handled, and not quiet")
	}
}
