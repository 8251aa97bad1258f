// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"

	"verbena/internal/monotime"
)

// The kinds of socket every test of the API runs on.
var kinds = []struct {
	name string
	addr string
	opt  Options
}{
	{"ipv4", "127.0.0.1", Options{}},
	{"ipv6", "::1", Options{}},
	{"ipv4 uncut", "127.0.0.1", Options{NoSegment: true}},
	{"ipv6 unjoined", "::1", Options{NoJoin: true}},
	{"portable ipv4", "127.0.0.1", Options{Portable: true}},
	{"portable ipv6", "::1", Options{Portable: true}},
}

func forKinds(t *testing.T, f func(t *testing.T, addr netip.Addr, o Options)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) { f(t, netip.MustParseAddr(k.addr), k.opt) })
	}
}

func listen(t testing.TB, addr netip.Addr, o Options) *Socket {
	t.Helper()
	s, err := Listen(addr, 0, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func poller(t testing.TB, sockets ...*Socket) *Poller {
	t.Helper()
	p, err := NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	for i, s := range sockets {
		if err := p.Add(s, uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// patience bounds how long a test waits for a datagram on loopback.
const patience = 10 * monotime.Second

// receive reads until it has n datagrams and returns copies.
func receive(t testing.TB, s *Socket, n int) (data [][]byte, last Message) {
	t.Helper()
	p := poller(t, s)
	defer p.Remove(s)
	b := NewRxBatch()
	ready := make([]uint64, 1)
	for until := monotime.Now().Add(patience); len(data) < n; {
		if _, err := p.Wait(patience, ready); err != nil || until.Before(monotime.Now()) {
			t.Fatalf("after %d of %d datagrams: %v", len(data), n, err)
		}
		got, err := s.ReadBatch(b)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			m := b.Message(i)
			for j := range m.Segments() {
				data = append(data, bytes.Clone(m.Segment(j)))
			}
			last = *m
		}
	}
	return data, last
}

func writeAll(t testing.TB, s *Socket, d ...Datagrams) {
	t.Helper()
	for len(d) > 0 {
		n, err := s.WriteBatch(d)
		if err != nil {
			t.Fatal(err)
		}
		d = d[n:]
		if len(d) > 0 {
			s.WaitWritable(patience)
		}
	}
}

// pattern returns n bytes that differ by position and by seed.
func pattern(n, seed int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*7 + i>>8 + seed)
	}
	return p
}

func TestBurstArrivesAsDatagrams(t *testing.T) {
	forKinds(t, func(t *testing.T, addr netip.Addr, o Options) {
		rx, tx := listen(t, addr, o), listen(t, addr, o)
		for _, c := range []struct{ total, segment int }{
			{1, 0}, {0, 0}, {1000, 0}, {4096, 1024}, {4097, 1024}, {1023, 1024}, {1024, 1024}, {64 * 100, 100}, {65000, 4160}, {MaxBurstBytes, 1024},
		} {
			sent := pattern(c.total, c.segment)
			// An uneven scatter list: cuts do not fall on element bounds.
			iov := [][]byte{sent[:c.total/3], {}, sent[c.total/3 : c.total/2], sent[c.total/2:]}
			writeAll(t, tx, Datagrams{Dst: rx.LocalAddr(), Iov: iov, SegmentSize: c.segment})
			want := 1
			if c.segment > 0 {
				want = max(1, (c.total+c.segment-1)/c.segment)
			}
			got, m := receive(t, rx, want)
			if len(got) != want || !bytes.Equal(bytes.Join(got, nil), sent) {
				t.Fatalf("%d bytes cut every %d: got %d datagrams, want %d, or other bytes", c.total, c.segment, len(got), want)
			}
			for i, g := range got[:want-1] {
				if len(g) != c.segment {
					t.Errorf("datagram %d has %d bytes, want %d", i, len(g), c.segment)
				}
			}
			if m.Src != tx.LocalAddr() || m.Dst != addr {
				t.Errorf("from %v to %v, want %v to %v", m.Src, m.Dst, tx.LocalAddr(), addr)
			}
		}
	})
}

func TestBatchOfManyItems(t *testing.T) {
	forKinds(t, func(t *testing.T, addr netip.Addr, o Options) {
		rx, tx := listen(t, addr, o), listen(t, addr, o)
		const items, segments = 3*txMessages + 1, 3
		var d []Datagrams
		var want []string
		for i := range items {
			var iov [][]byte
			for j := range segments {
				s := fmt.Sprintf("item %03d segment %d", i, j)
				want = append(want, s)
				iov = append(iov, []byte(s[:5]), []byte(s[5:]))
			}
			d = append(d, Datagrams{Dst: rx.LocalAddr(), Iov: iov, SegmentSize: len(want[0])})
		}
		writeAll(t, tx, d...)
		got, _ := receive(t, rx, len(want))
		for i := range want {
			if string(got[i]) != want[i] {
				t.Fatalf("datagram %d is %q, want %q", i, got[i], want[i])
			}
		}
		if c := tx.Counters(); c.SentDatagrams != items*segments || c.SentBytes != uint64(items*segments*len(want[0])) {
			t.Errorf("counted %d datagrams and %d bytes sent", c.SentDatagrams, c.SentBytes)
		}
		if c := rx.Counters(); c.RcvdDatagrams != items*segments || c.KernelDropped != 0 {
			t.Errorf("counted %d datagrams received, %d dropped", c.RcvdDatagrams, c.KernelDropped)
		}
	})
}

func TestReadOfNothing(t *testing.T) {
	forKinds(t, func(t *testing.T, addr netip.Addr, o Options) {
		s, b := listen(t, addr, o), NewRxBatch()
		if n, err := s.ReadBatch(b); n != 0 || err != nil || b.Len() != 0 {
			t.Errorf("read of an idle socket: %d, %v", n, err)
		}
	})
}

func TestMalformedItems(t *testing.T) {
	forKinds(t, func(t *testing.T, addr netip.Addr, o Options) {
		rx, tx := listen(t, addr, o), listen(t, addr, o)
		good := Datagrams{Dst: rx.LocalAddr(), Iov: [][]byte{[]byte("ok")}}
		other := netip.MustParseAddrPort("[::1]:9")
		if addr.Is6() {
			other = netip.MustParseAddrPort("127.0.0.1:9")
		}
		for name, bad := range map[string]Datagrams{
			"no destination":   {Iov: good.Iov},
			"other family":     {Dst: other, Iov: good.Iov},
			"65 datagrams":     {Dst: rx.LocalAddr(), Iov: [][]byte{make([]byte, 65)}, SegmentSize: 1},
			"too many bytes":   {Dst: rx.LocalAddr(), Iov: [][]byte{make([]byte, MaxBurstBytes+1)}, SegmentSize: 4096},
			"negative segment": {Dst: rx.LocalAddr(), Iov: good.Iov, SegmentSize: -1},
		} {
			if n, err := tx.WriteBatch([]Datagrams{good, bad, good}); n != 1 || err == nil {
				t.Errorf("%s: %d items sent, error %v; want 1 and an error", name, n, err)
			}
			receive(t, rx, 1)
		}
	})
}

func TestUnreachableIsALostPacket(t *testing.T) {
	forKinds(t, func(t *testing.T, addr netip.Addr, o Options) {
		gone, rx, tx := listen(t, addr, o), listen(t, addr, o), listen(t, addr, o)
		gone.Close()
		lost := Datagrams{Dst: gone.LocalAddr(), Iov: [][]byte{[]byte("lost")}}
		good := Datagrams{Dst: rx.LocalAddr(), Iov: [][]byte{[]byte("arrives")}}
		writeAll(t, tx, lost, lost, good, lost, good)
		receive(t, rx, 2)
	})
}
