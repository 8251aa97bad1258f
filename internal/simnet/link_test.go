// SPDX-License-Identifier: BSD-2-Clause

package simnet

import (
	"net/netip"
	"slices"
	"testing"

	"verbena/internal/monotime"
)

const (
	us      = monotime.Microsecond
	payload = 1000 - FrameBytes // 1 µs at 8 Gb/s
	ect0    = 2
)

func addr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }

// line is two hosts joined by one link.
type line struct {
	*Net
	link     *Link
	arrivals []monotime.Time
	tos      []uint8
	drops    int
}

func newLine(l *Link) *line {
	n := &line{Net: New(1), link: l}
	n.Route(addr(1), addr(2), l)
	n.Attach(addr(2), func(d *Datagram) {
		n.arrivals = append(n.arrivals, n.Now())
		n.tos = append(n.tos, d.TOS)
	})
	return n
}

func (n *line) send(count int, tos uint8) {
	for range count {
		n.Send(Datagram{Src: addr(1), Dst: addr(2), TOS: tos, Payload: make([]byte, payload),
			Drops: &n.drops})
	}
}

func (n *line) run(until monotime.Duration) {
	for n.Step(monotime.Time(until)) {
	}
}

func (n *line) want(t *testing.T, what string, want ...monotime.Duration) {
	t.Helper()
	got := make([]monotime.Duration, len(n.arrivals))
	for i, at := range n.arrivals {
		got[i] = monotime.Duration(at)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: arrivals at %v, want %v", what, got, want)
	}
}

func TestLinkHasARateADelayAndABuffer(t *testing.T) {
	n := newLine(&Link{Rate: 8e9, Delay: 10 * us, Buffer: 3000})
	n.send(5, 0)
	if w := n.link.Waiting(); w != 3000 {
		t.Errorf("%d bytes wait", w)
	}
	n.run(monotime.Second)
	n.want(t, "three fit", 11*us, 12*us, 13*us)
	c := n.link.Count
	if c.Passed != 3 || c.Dropped != 2 || n.drops != 2 || c.Bytes != 3000 || c.Queued != 3*us ||
		c.MostQueued != 2*us {
		t.Errorf("%d drops, %+v", n.drops, c)
	}
}

// Time passes however high the rate is, so that a run comes to its end.
func TestPacketsTakeTime(t *testing.T) {
	n := newLine(&Link{Rate: 1e13})
	n.send(3, 0)
	n.run(monotime.Second)
	n.want(t, "0.8 ns each", 1, 2, 3)
}

// Bytes that wait leave at the new rate, and those on their way arrive as they would have.
func TestSet(t *testing.T) {
	slower := func(n *line) { n.link.Set(8e8, 10*us) }
	faster := func(n *line) { n.link.Set(8e10, 10*us) }
	for _, c := range []struct {
		what string
		set  func(n *line)
		at   monotime.Duration
		want []monotime.Duration
	}{
		{"slower at once", slower, 0, []monotime.Duration{20 * us, 30 * us, 40 * us}},
		{"slower in between", slower, 2 * us, []monotime.Duration{11 * us, 12 * us, 22 * us}},
		{"faster", faster, us / 2, []monotime.Duration{10*us + us*55/100, 10*us + us*65/100, 10*us + us*75/100}},
		{"no limit", func(n *line) { n.link.Set(0, 10*us) }, us / 2,
			[]monotime.Duration{10*us + us/2, 10*us + us/2, 10*us + us/2}},
		{"longer", func(n *line) { n.link.Set(8e9, 50*us) }, us + 1,
			[]monotime.Duration{11 * us, 52 * us, 53 * us}},
		{"shorter keeps the order", func(n *line) { n.link.Set(8e9, 0) }, us + 1,
			[]monotime.Duration{11 * us, 11 * us, 11 * us}},
		{"twice", func(n *line) { slower(n); faster(n); n.link.Set(8e9, 10*us) }, us / 2,
			[]monotime.Duration{11 * us, 12 * us, 13 * us}},
	} {
		n := newLine(&Link{Rate: 8e9, Delay: 10 * us})
		n.send(3, 0)
		n.After(c.at, func() {
			before := n.link.Waiting()
			if c.set(n); n.link.Rate != 0 && n.link.Waiting() != before {
				t.Errorf("%s: %d bytes wait, %d before", c.what, n.link.Waiting(), before)
			}
		})
		n.run(monotime.Second)
		n.want(t, c.what, c.want...)
	}
}

// A link that was set carries on as one that had the rate from the first.
func TestSetLeavesOneEvent(t *testing.T) {
	n := newLine(&Link{Rate: 8e9, Delay: 10 * us})
	n.send(100, 0)
	for i := range 50 {
		n.After(monotime.Duration(i)*us/10, func() { n.link.Set(8e9-int64(i%7)*1e9, 10*us) })
	}
	n.run(5 * us)
	if len(n.events) > 60 {
		t.Errorf("%d events", len(n.events))
	}
	n.run(monotime.Second)
	if len(n.arrivals) != 100 || !slices.IsSorted(n.arrivals) {
		t.Errorf("%d arrivals: %v", len(n.arrivals), n.arrivals)
	}
}

func TestMarking(t *testing.T) {
	for _, c := range []struct {
		what            string
		mark            Marking
		tos             uint8
		marked, dropped [2]int // least and most, of 100
	}{
		{"at a threshold", Marking{From: 50_000}, ect0, [2]int{50, 50}, [2]int{}},
		{"not ECN-capable", Marking{From: 50_000}, 0, [2]int{}, [2]int{}},
		{"not ECN-capable, dropped", Marking{From: 50_000, Drop: true}, 0, [2]int{}, [2]int{50, 50}},
		{"none at the lower bound", Marking{From: 50_000, To: 100_000}, ect0, [2]int{}, [2]int{}},
		{"a slope", Marking{From: 20_000, To: 80_000, Most: 500_000}, ect0, [2]int{25, 45}, [2]int{}},
	} {
		n := newLine(&Link{Rate: 8e9, Mark: c.mark})
		n.send(100, c.tos)
		n.run(monotime.Second)
		marked := 0
		for _, tos := range n.tos {
			if tos == Congested {
				marked++
			}
		}
		got := n.link.Count
		if got.Marked != marked || marked < c.marked[0] || marked > c.marked[1] ||
			got.Dropped < c.dropped[0] || got.Dropped > c.dropped[1] || got.Dropped != n.drops {
			t.Errorf("%s: %d arrived marked, %d dropped, %+v", c.what, marked, n.drops, got)
		}
	}
}

// Of 1,000,000 datagrams a 101st is sent in the bad state, which lasts for 100 on average.
func TestBurstsOfLoss(t *testing.T) {
	n := newLine(&Link{Bursts: Bursts{Begin: 100, End: 10_000, Loss: 500_000}})
	const sent = 1_000_000
	bursts, bad := 0, 0
	for range sent {
		was := n.link.bad
		n.link.lose()
		if n.link.bad {
			bad++
			if !was {
				bursts++
			}
		}
	}
	if bad < 7_000 || bad > 13_000 || bursts < 70 || bursts > 130 {
		t.Errorf("%d of %d in the bad state, %d bursts", bad, sent, bursts)
	}
	n.link.bad = true
	n.link.Bursts = Bursts{Begin: 1, End: 0, Loss: million}
	n.send(10, 0)
	if n.link.Count.Lost != 10 || n.drops != 10 {
		t.Errorf("%d lost in the bad state, %d counted", n.link.Count.Lost, n.drops)
	}
}

func TestReorderingAndJitter(t *testing.T) {
	n := newLine(&Link{Rate: 8e9, Delay: 10 * us, Jitter: 50 * us})
	n.send(100, 0)
	n.run(monotime.Second)
	if !slices.IsSorted(n.arrivals) || n.arrivals[99] < monotime.Time(111*us) {
		t.Errorf("jitter: %v", n.arrivals)
	}
	n = newLine(&Link{Rate: 8e9, Reorder: 100_000, Late: 100 * us})
	order := []uint16{}
	n.Attach(addr(2), func(d *Datagram) { order = append(order, d.ID) })
	for i := range 100 {
		n.Send(Datagram{Src: addr(1), Dst: addr(2), ID: uint16(i), Payload: make([]byte, payload)})
	}
	n.run(monotime.Second)
	if len(order) != 100 || slices.IsSorted(order) || n.link.Count.Late < 3 || n.link.Count.Late > 25 {
		t.Errorf("%d late: %v", n.link.Count.Late, order)
	}
}
