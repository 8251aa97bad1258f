// SPDX-License-Identifier: BSD-2-Clause

package simnet

import (
	"math/rand/v2"
	"slices"
	"testing"

	"verbena/internal/monotime"
)

// diamond is two hosts, each at a switch of its own, and n switches between these two.
func diamond(n int) (net *Net, middle []*Node, left *Node) {
	net = New(1)
	a, b := net.Host("a", addr(1)), net.Host("b", addr(2))
	left, right := net.Switch("left"), net.Switch("right")
	net.Connect(a, left, &Link{}, &Link{})
	net.Connect(right, b, &Link{}, &Link{})
	for range n {
		m := net.Switch("middle")
		net.Connect(left, m, &Link{}, &Link{})
		net.Connect(m, right, &Link{}, &Link{})
		middle = append(middle, m)
	}
	return net, middle, left
}

func (n *Net) between(src, dst int, port uint16) []*Link {
	return n.layout.path(&Datagram{Src: addr(src), Dst: addr(dst), SrcPort: port})
}

// Ports choose among equally short paths, and the same always the same.
func TestPathsAreShared(t *testing.T) {
	const ports = 4000
	n, middle, left := diamond(4)
	used := map[*Link]int{}
	for port := range uint16(ports) {
		path := n.between(1, 2, port)
		if len(path) != 4 {
			t.Fatalf("%d links", len(path))
		}
		n.layout.forget()
		if !slices.Equal(path, n.between(1, 2, port)) {
			t.Fatalf("port %d has another path", port)
		}
		used[path[1]]++
	}
	for _, m := range middle {
		if got := used[left.LinksBetween(m)[0]]; got < ports/4*9/10 || got > ports/4*11/10 {
			t.Errorf("%d of %d take one of four paths", got, ports)
		}
	}
}

// Datagrams on their way to a link that goes down are lost. Later ones take another path, if there
// is one.
func TestDown(t *testing.T) {
	n, middle, left := diamond(2)
	got, drops := 0, 0
	n.Attach(addr(2), func(*Datagram) { got++ })
	send := func() {
		for port := range uint16(100) {
			n.Send(Datagram{Src: addr(1), Dst: addr(2), SrcPort: port, Drops: &drops})
		}
	}
	all := func() {
		for n.Step(monotime.Never) {
		}
	}
	link := left.LinksBetween(middle[0])[0]
	send()
	n.Down(link, true)
	all()
	lost := link.Count.Lost
	if lost < 30 || lost > 70 || got != 100-lost || drops != lost {
		t.Fatalf("%d lost, %d counted, %d arrived", lost, drops, got)
	}
	got = 0
	send()
	all()
	if got != 100 {
		t.Errorf("%d of 100 arrived by the other path", got)
	}
	n.Down(left.LinksBetween(middle[1])[0], true)
	drops = 0
	send()
	all()
	if n.Count.Parted != 100 || drops != 100 {
		t.Errorf("%d had no path, %d counted", n.Count.Parted, drops)
	}
	n.Down(link, false)
	got = 0
	send()
	all()
	if got != 100 {
		t.Errorf("%d of 100 arrived after the link is back", got)
	}
}

// A host that is at two switches forwards nothing.
func TestHostsForwardNothing(t *testing.T) {
	n := New(1)
	a, b, c := n.Host("a", addr(1)), n.Host("b", addr(2)), n.Host("c", addr(3))
	n.Connect(a, b, &Link{}, &Link{})
	n.Connect(b, c, &Link{}, &Link{})
	if path := n.between(1, 3, 0); path != nil {
		t.Errorf("a path of %d links through a host", len(path))
	}
	if path := n.between(1, 2, 0); len(path) != 1 || path[0].Name != "a-b" {
		t.Errorf("no path between neighbours")
	}
}

// All hosts of a fat tree reach each other, by paths of 2, 4 and 6 links.
func TestFatTree(t *testing.T) {
	for k, step := range map[int]int{2: 1, 4: 1, 16: 37} {
		n := New(1)
		var hosts []*Node
		for i := range k * k * k / 4 {
			hosts = append(hosts, n.Host("", addr(i)))
		}
		made := 0
		switches := n.FatTree(k, hosts, func() *Link { made++; return &Link{} })
		if len(switches) != 5*k*k/4 || made != 6*len(hosts) {
			t.Errorf("%d: %d switches, %d links", k, len(switches), made)
		}
		for i := 0; i < len(hosts); i += step {
			for j := range hosts {
				want := 6
				switch pod, edge := k*k/4, k/2; {
				case i == j:
					want = 0
				case i/edge == j/edge:
					want = 2
				case i/pod == j/pod:
					want = 4
				}
				if path := n.between(i, j, 0); len(path) != want {
					t.Fatalf("%d: %d links from host %d to %d, want %d", k, len(path), i, j, want)
				}
			}
		}
		for _, s := range switches {
			if len(s.ports) != k {
				t.Errorf("%d: %s has %d ports", k, s.Name, len(s.ports))
			}
		}
	}
}

// Events run in the order of their times, those of one time in the order in which they came.
func TestEventsRunInOrder(t *testing.T) {
	n, rnd := New(1), rand.New(rand.NewPCG(1, 2))
	type when struct {
		at  monotime.Time
		seq int
	}
	var ran []when
	for i := range 3000 {
		at := n.Now().Add(monotime.Duration(rnd.IntN(50)))
		n.At(at, func() { ran = append(ran, when{n.Now(), i}) })
		if rnd.IntN(2) == 0 {
			n.Step(monotime.Never)
		}
	}
	for n.Step(monotime.Never) {
	}
	ordered := slices.IsSortedFunc(ran, func(a, b when) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.seq - b.seq
	})
	if len(ran) != 3000 || !ordered {
		t.Errorf("%d events, in order: %v", len(ran), ordered)
	}
}

// The same seed does the same again, another one does not.
func TestSeed(t *testing.T) {
	run := func(seed uint64) uint64 {
		n := newLine(&Link{Rate: 8e9, Buffer: 50_000, Jitter: us, Loss: 10_000, Reorder: 10_000, Late: us,
			Mark: Marking{From: 1, To: 50_000, Most: million}, Bursts: Bursts{1000, 10_000, 500_000}})
		n.Rand = New(seed).Rand
		n.send(1000, ect0)
		n.run(monotime.Second)
		return n.Hash()
	}
	first, again, other := run(1), run(1), run(2)
	if first != again || first == other {
		t.Errorf("%x, %x, %x", first, again, other)
	}
}
