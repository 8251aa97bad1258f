// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"bytes"
	"testing"

	"verbena/internal/monotime"
	"verbena/internal/sys/udp"
)

func TestWillsAreSentForTheDeadOnly(t *testing.T) {
	n := newNetwork(t, 9)
	peer, err := udp.Listen(n.b, 0, udp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	next := func(want ...string) {
		t.Helper()
		got := readTexts(t, peer, len(want))
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("will %d is %q, want %q", i, got[i], want[i])
			}
		}
	}
	ps := startMany(t, n.dir, 4)
	for i, p := range ps {
		p.must("", "socket %v", n.a)
		p.must("", "will 1 %v %v first-%d", n.a, peer.LocalAddr(), i)
		p.must("", "will 2 %v %v second-%d", n.a, peer.LocalAddr(), i)
		p.must("", "will 1 %v %v again-%d", n.a, peer.LocalAddr(), i)
		p.must("", "will 3 %v %v third-%d", n.a, peer.LocalAddr(), i)
		p.must("", "clear 2")
	}
	ps[0].kill() // the keeper sends
	next("again-0", "third-0")
	ps[1].stop()
	n.killKeeper(t, ps)
	ps[1].kill() // the next keeper sends, which has not met it
	next("again-1", "third-1")
	ps[2].must("", "close") // nobody sends
	ps[3].kill()            // the last one: the keeper sends
	next("again-3", "third-3")
	// The last one and its keeper: the next to come has a keeper that sends.
	last := start(t, n.dir)
	last.must("", "socket %v", n.a)
	last.must("", "will 1 %v %v late", n.a, peer.LocalAddr())
	last.stop()
	n.killKeeper(t, nil)
	last.kill()
	start(t, n.dir)
	next("late")
	if b := udp.NewRxBatch(); true {
		if m, _ := peer.ReadBatch(b); m != 0 {
			t.Errorf("%q was sent as well", b.Message(0).Data)
		}
	}
}

// readTexts reads n datagrams, in order.
func readTexts(t *testing.T, s *udp.Socket, n int) []string {
	t.Helper()
	p, err := udp.NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.Add(s, 0)
	var texts []string
	b, ready := udp.NewRxBatch(), make([]uint64, 1)
	for until := monotime.Now().Add(patience); len(texts) < n; {
		if _, err := p.Wait(patience, ready); err != nil || until.Before(monotime.Now()) {
			t.Fatalf("%d of %d datagrams came: %v", len(texts), n, err)
		}
		s.ReadBatch(b)
		for i := range b.Len() {
			m := b.Message(i)
			for j := range m.Segments() {
				texts = append(texts, string(bytes.Clone(m.Segment(j))))
			}
		}
	}
	return texts
}
