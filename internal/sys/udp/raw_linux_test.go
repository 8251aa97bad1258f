// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"bytes"
	"net/netip"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

func TestKernelJoinsBurst(t *testing.T) {
	for _, a := range []string{"127.0.0.1", "::1"} {
		addr := netip.MustParseAddr(a)
		rx, tx := listen(t, addr, Options{}), listen(t, addr, Options{})
		if !tx.CutsBursts() {
			t.Skip("this kernel has no UDP_SEGMENT: use Linux 4.18 or later")
		}
		sent := pattern(20*1000+7, 1)
		writeAll(t, tx, Datagrams{Dst: rx.LocalAddr(), Iov: [][]byte{sent}, SegmentSize: 1000})
		_, m := receive(t, rx, 21)
		if m.Segments() != 21 || m.SegmentSize != 1000 || len(m.Segment(20)) != 7 {
			t.Errorf("%v: last message has %d datagrams of %d bytes, want the whole burst: 21 of 1000", addr, m.Segments(), m.SegmentSize)
		}
	}
}

// A route whose device cannot checksum, or a socket told not to, makes the
// kernel refuse bursts at run time.
func TestBurstRefusedAtRunTimeIsSplit(t *testing.T) {
	for _, a := range []string{"127.0.0.1", "::1"} {
		addr := netip.MustParseAddr(a)
		rx, tx := listen(t, addr, Options{}), listen(t, addr, Options{})
		level, opt := unix.SOL_SOCKET, unix.SO_NO_CHECK
		if addr.Is6() {
			level, opt = unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_TX
		}
		if err := unix.SetsockoptInt(tx.FD(), level, opt, 1); err != nil {
			t.Fatal(err)
		}
		sent := pattern(5500, 2)
		d := Datagrams{Dst: rx.LocalAddr(), Iov: [][]byte{sent[:10], sent[10:3000], sent[3000:]}, SegmentSize: 1000}
		single := Datagrams{Dst: rx.LocalAddr(), Iov: [][]byte{[]byte("single")}}
		writeAll(t, tx, single, d, single, d)
		got, _ := receive(t, rx, 14)
		want := bytes.Join([][]byte{[]byte("single"), sent, []byte("single"), sent}, nil)
		if !bytes.Equal(bytes.Join(got, nil), want) || tx.CutsBursts() || tx.Counters().SplitBursts != 2 || tx.Counters().SentBytes != uint64(len(want)) {
			t.Errorf("%v: %d datagrams, still cutting %v, %d bursts split", addr, len(got), tx.CutsBursts(), tx.Counters().SplitBursts)
		}
	}
}

func TestTrafficClassArrives(t *testing.T) {
	for _, a := range []string{"127.0.0.1", "::1"} {
		addr := netip.MustParseAddr(a)
		rx := listen(t, addr, Options{})
		for _, own := range []uint8{0, 2, 0x68} {
			tx := listen(t, addr, Options{TOS: own})
			for _, tos := range []uint8{0, 1, 2, 3, 0x68, 0x68 | 2, 0xfc} {
				writeAll(t, tx, Datagrams{Dst: rx.LocalAddr(), Iov: [][]byte{[]byte("a"), []byte("b")}, SegmentSize: 1, TOS: tos, TTL: 7})
				if _, m := receive(t, rx, 2); m.TOS != tos {
					t.Errorf("%v: traffic class %#x arrived as %#x, the socket's is %#x", addr, tos, m.TOS, own)
				}
				writeAll(t, tx, Datagrams{Dst: rx.LocalAddr(), Iov: [][]byte{[]byte("a")}, TOS: tos})
				if _, m := receive(t, rx, 1); m.TOS != tos {
					t.Errorf("%v: traffic class %#x of one datagram arrived as %#x, the socket's is %#x", addr, tos, m.TOS, own)
				}
			}
		}
	}
}

func TestWildcardTellsDestination(t *testing.T) {
	for _, c := range []struct{ bound, to string }{{"0.0.0.0", "127.0.0.3"}, {"::", "::1"}} {
		rx := listen(t, netip.MustParseAddr(c.bound), Options{})
		to := netip.MustParseAddr(c.to)
		tx := listen(t, to, Options{})
		writeAll(t, tx, Datagrams{Dst: netip.AddrPortFrom(to, rx.LocalAddr().Port()), Iov: [][]byte{[]byte("x")}})
		if _, m := receive(t, rx, 1); m.Dst != to {
			t.Errorf("bound to %v: destination %v, want %v", c.bound, m.Dst, to)
		}
	}
}

func TestAdoptedDescriptorReads(t *testing.T) {
	addr := netip.MustParseAddr("127.0.0.1")
	rx, tx := listen(t, addr, Options{}), listen(t, addr, Options{})
	fd, err := unix.Dup(rx.FD())
	if err != nil {
		t.Fatal(err)
	}
	s, err := Adopt(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	writeAll(t, tx, Datagrams{Dst: s.LocalAddr(), Iov: [][]byte{[]byte("x")}})
	if got, _ := receive(t, s, 1); string(got[0]) != "x" || s.LocalAddr() != rx.LocalAddr() {
		t.Errorf("adopted socket read %q on %v", got, s.LocalAddr())
	}
}

func TestSteerByPayload(t *testing.T) {
	addr := netip.MustParseAddr("127.0.0.1")
	first := listen(t, addr, Options{ReusePort: true})
	second, err := Listen(addr, first.LocalAddr().Port(), Options{ReusePort: true})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := first.Steer([]bpf.Instruction{bpf.LoadAbsolute{Off: 0, Size: 1}, bpf.RetA{}}); err != nil {
		t.Fatal(err)
	}
	tx := listen(t, addr, Options{})
	for range 10 {
		writeAll(t, tx, Datagrams{Dst: first.LocalAddr(), Iov: [][]byte{{1}}}, Datagrams{Dst: first.LocalAddr(), Iov: [][]byte{{0}}})
	}
	for i, s := range []*Socket{first, second} {
		got, _ := receive(t, s, 10)
		for _, g := range got {
			if int(g[0]) != i {
				t.Fatalf("datagram %d reached socket %d", g[0], i)
			}
		}
	}
}

func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates: run without -race")
	}
	for _, a := range []string{"127.0.0.1", "::1"} {
		addr := netip.MustParseAddr(a)
		rx, tx := listen(t, addr, Options{}), listen(t, addr, Options{})
		b := NewRxBatch()
		p := pattern(8192, 0)
		d := []Datagrams{
			{Dst: rx.LocalAddr(), Iov: [][]byte{p[:100], p[100:]}, SegmentSize: 1024, TOS: 2, TTL: 64},
			{Dst: rx.LocalAddr(), Iov: [][]byte{p[:64]}},
		}
		got := 0
		allocs := testing.AllocsPerRun(200, func() {
			tx.WriteBatch(d)
			for n := 1; n > 0; got += n {
				n, _ = rx.ReadBatch(b)
			}
		})
		if allocs != 0 || got == 0 {
			t.Errorf("%v: %v allocations a round, %d messages", addr, allocs, got)
		}
	}
}

// A receive buffer full of the shortest datagrams holds no more than MaxQueued.
func TestMaxQueued(t *testing.T) {
	addr := netip.MustParseAddr("127.0.0.1")
	rx, tx := listen(t, addr, Options{BufferBytes: 64 << 10}), listen(t, addr, Options{})
	most := rx.MaxQueued()
	for range most + 100 {
		writeAll(t, tx, Datagrams{Dst: rx.LocalAddr(), Iov: [][]byte{{1}}})
	}
	b, queued := NewRxBatch(), 0
	for {
		n, err := rx.ReadBatch(b)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		queued += n
	}
	if queued > most || queued < most/4 {
		t.Errorf("%d datagrams were queued, MaxQueued is %d", queued, most)
	}
}
