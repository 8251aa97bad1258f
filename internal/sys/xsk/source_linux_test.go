// SPDX-License-Identifier: BSD-2-Clause

package xsk_test

import (
	"bytes"
	"net/netip"
	"testing"

	"verbena/internal/monotime"
	"verbena/internal/sys/portshare"
	"verbena/internal/sys/udp"
	"verbena/internal/sys/xsk"
)

// toSlot5 is a datagram of 8 bytes to the slot 5.
var toSlot5 = []byte{0, 0, 0, 0, 0, 5 << portshare.SlotShift >> 16, 5 << portshare.SlotShift >> 8 & 0xff, 9}

// All datagrams go by the ring, from the first on, while the kernel knows the neighbour. One goes
// by the socket where the kernel has not checked the neighbour for long.
func TestDatagramsByTheSocket(t *testing.T) {
	_, a, b := wire(t, 1500)
	if a == nil {
		return
	}
	by := a.open(3)
	b.open(5)
	looks := 0
	known := a.wayTo(b)
	look := func(iface int, from, to netip.Addr) (xsk.Way, bool) {
		w, ok := known(iface, from, to)
		looks++
		w.Old = looks == 2
		return w, ok
	}
	src := sender{by.Source(plain(t, v4a), look, false), by}
	d := udp.Datagrams{Dst: netip.AddrPortFrom(v4b, testPort), Iov: [][]byte{toSlot5}}
	bySocket := func(look int) (n uint64) {
		for until := monotime.Now().Add(patience); looks <= look && monotime.Now() < until; {
			if _, err := src.WriteBatch([]udp.Datagrams{d}); err != nil {
				t.Fatal(err)
			}
			src.WaitWritable(monotime.Millisecond)
		}
		return by.Counters().Elsewhere
	}
	send(t, src, 1, d)
	if n := by.Counters().Elsewhere; n != 0 || looks != 1 {
		t.Errorf("%d of the first datagrams go by the socket, after %d looks", n, looks)
	}
	if n := bySocket(2); n != 1 {
		t.Errorf("%d datagrams go by the socket, want 1 after the second of %d looks", n, looks)
	}
}

// Bursts go by the socket where the way says so, short ones and single datagrams by the ring.
func TestBurstsByTheSocket(t *testing.T) {
	_, a, b := wire(t, 1500)
	if a == nil {
		return
	}
	by := a.open(3)
	known := a.wayTo(b)
	look := func(iface int, from, to netip.Addr) (xsk.Way, bool) {
		w, ok := known(iface, from, to)
		w.JoinsBursts = true
		return w, ok
	}
	src := by.Source(plain(t, v4a), look, false)
	for _, c := range []struct {
		datagrams, last int
		bySocket        bool
	}{{1, 8, false}, {7, 8, false}, {8, 1, true}, {8, 8, true}, {64, 8, true}} {
		all := bytes.Repeat(toSlot5, c.datagrams)
		all = all[:len(all)-8+c.last]
		before := by.Counters()
		d := udp.Datagrams{Dst: netip.AddrPortFrom(v4b, testPort), Iov: [][]byte{all}, SegmentSize: 8}
		if n, err := src.WriteBatch([]udp.Datagrams{d}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		after := by.Counters()
		if got := after.Elsewhere > before.Elsewhere; got != c.bySocket || got == (after.Sent > before.Sent) {
			t.Errorf("%d datagrams: by the socket %v, want %v; %+v", c.datagrams, got, c.bySocket, after)
		}
	}
	long := bytes.Repeat([]byte{0}, 1400)
	d := udp.Datagrams{Dst: netip.AddrPortFrom(v4b, testPort), Iov: [][]byte{long}} // one datagram
	before := by.Counters().Sent
	if n, err := src.WriteBatch([]udp.Datagrams{d}); n != 1 || err != nil || by.Counters().Sent == before {
		t.Error("a long datagram goes by the socket", n, err)
	}
}

// wireThatDrops has a wire on which frames longer than 1,280 bytes get lost, and a socket at each
// end. Its results are nil where the test is done elsewhere.
func wireThatDrops(t *testing.T) (a, b *end, by, far *xsk.Socket) {
	n, a, b := wire(t, 1500)
	if a == nil {
		return
	}
	if err := n.LinkSetMTU(n.Link("xb"), 1280); err != nil {
		t.Fatal(err)
	}
	return a, b, a.open(3), b.open(5)
}

// A frame that the interface drops holds up none of those behind it.
func TestFramesBehindADroppedOne(t *testing.T) {
	a, b, by, far := wireThatDrops(t)
	if a == nil {
		return
	}
	src := by.Source(plain(t, v4a), a.wayTo(b), false)
	d := make([]udp.Datagrams, 3)
	for i, data := range [][]byte{append(bytes.Clone(toSlot5), make([]byte, 1400)...), toSlot5, toSlot5} {
		d[i] = udp.Datagrams{Dst: netip.AddrPortFrom(v4b, testPort), Iov: [][]byte{data}}
	}
	if n, err := src.WriteBatch(d); n != len(d) || err != nil {
		t.Fatal(n, err)
	}
	collect(t, far, 2)
}

// A burst that is to go by the socket stays behind frames for which the interface had no room.
func TestBurstBehindFramesThatAreLeft(t *testing.T) {
	a, b, by, far := wireThatDrops(t)
	if a == nil {
		return
	}
	known := a.wayTo(b)
	src := by.Source(plain(t, v4a), func(iface int, from, to netip.Addr) (xsk.Way, bool) {
		w, ok := known(iface, from, to)
		w.JoinsBursts = true
		return w, ok
	}, false)
	datagrams := func(data ...[]byte) udp.Datagrams {
		return udp.Datagrams{Dst: netip.AddrPortFrom(v4b, testPort), Iov: data}
	}
	numbered := func(i byte) []byte {
		return append(bytes.Clone(toSlot5[:7]), i)
	}
	dropped := append(bytes.Clone(toSlot5), make([]byte, 1400)...)
	burst := datagrams()
	for i := range byte(9) {
		burst.Iov = append(burst.Iov, numbered(i+1))
	}
	burst.SegmentSize = 8
	d := []udp.Datagrams{datagrams(dropped), datagrams(dropped), datagrams(numbered(0)), burst}
	if n, err := src.WriteBatch(d); n != len(d) || err != nil {
		t.Fatal(n, err)
	}
	rx, next := udp.NewRxBatch(), byte(0)
	for until := monotime.Now().Add(patience); next < 10; {
		k, err := far.Queues()[0].ReadBatch(rx)
		if err != nil || monotime.Now() > until {
			t.Fatalf("datagram %d does not come: %v", next, err)
		}
		for i := range k {
			if got := rx.Message(i).Data[7]; got != next {
				t.Fatalf("datagram %d comes instead of %d", got, next)
			}
			next++
		}
	}
}
