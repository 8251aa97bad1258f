// SPDX-License-Identifier: BSD-2-Clause

package faultcap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"verbena/internal/monotime"
	"verbena/internal/sys/udp"
	"verbena/internal/wire/pcap"
)

// wire is a socket that keeps the datagrams written to it.
type wire struct {
	mu   sync.Mutex
	cuts bool
	sent [][]byte
	came chan struct{}
}

var (
	here  = netip.MustParseAddrPort("192.0.2.1:50000")
	there = netip.MustParseAddrPort("192.0.2.2:4791")
)

func (w *wire) WriteBatch(d []udp.Datagrams) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range d {
		all := bytes.Join(d[i].Iov, nil)
		step := d[i].SegmentSize
		if step == 0 {
			step = max(len(all), 1)
		}
		for c := range slices.Chunk(all, step) {
			w.sent = append(w.sent, c)
		}
	}
	select {
	case w.came <- struct{}{}:
	default:
	}
	return len(d), nil
}

func (w *wire) ReadBatch(*udp.RxBatch) (int, error)  { return 0, nil }
func (w *wire) WaitWritable(monotime.Duration) error { return nil }
func (w *wire) CutsBursts() bool                     { return w.cuts }
func (w *wire) LocalAddr() netip.AddrPort            { return here }
func (w *wire) FD() int                              { return -1 }
func (w *wire) Close() error                         { return nil }

// numbers returns the numbers of the datagrams that came out.
func (w *wire) numbers() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []int
	for _, b := range w.sent {
		out = append(out, int(binary.BigEndian.Uint32(b)))
	}
	return out
}

// numbered sends n datagrams that carry their number, in bursts of ten, at now.
func numbered(t *testing.T, p *Tap, first, n int) {
	t.Helper()
	for i := first; i < first+n; i += 10 {
		d := udp.Datagrams{Dst: there, SegmentSize: 12}
		for j := i; j < min(i+10, first+n); j++ {
			b := binary.BigEndian.AppendUint32(nil, uint32(j))
			d.Iov = append(d.Iov, b[:1], b[1:], []byte("payload."))
		}
		if k, err := p.WriteBatch([]udp.Datagrams{d}); k != 1 || err != nil {
			t.Fatalf("write: %d, %v", k, err)
		}
	}
}

// still is a clock that stands at an instant.
func still(now *monotime.Time) func() monotime.Time { return func() monotime.Time { return *now } }

// run sends n datagrams through faults and lets all time pass.
func run(t *testing.T, f Faults, stream uint64, n int) (*wire, Counts) {
	t.Helper()
	now := monotime.Time(0)
	w := &wire{cuts: true}
	p := New(w, Options{Faults: f, Stream: stream, Now: still(&now)})
	numbered(t, p, 0, n)
	for p.NextTimeout() != monotime.Never {
		now = max(now, p.NextTimeout())
		p.HandleTimeout(now)
	}
	return w, p.Counts()
}

func TestFaultsDependOnSeedAndStreamAlone(t *testing.T) {
	f := Faults{Loss: 0.1, Dup: 0.1, Reorder: 0.1, Corrupt: 0.1, Jitter: monotime.Millisecond, Seed: 7}
	one, _ := run(t, f, 3, 500)
	two, _ := run(t, f, 3, 500)
	if !slices.EqualFunc(one.sent, two.sent, bytes.Equal) {
		t.Error("the same seed and stream gave different faults")
	}
	if other, _ := run(t, f, 4, 500); slices.EqualFunc(one.sent, other.sent, bytes.Equal) {
		t.Error("another stream gave the same faults")
	}
	f.Seed++
	if other, _ := run(t, f, 3, 500); slices.EqualFunc(one.sent, other.sent, bytes.Equal) {
		t.Error("another seed gave the same faults")
	}
}

func TestEachFault(t *testing.T) {
	const n = 2000
	near := func(name string, got uint64, share float64) {
		if want := share * n; float64(got) < want*0.7 || float64(got) > want*1.3 {
			t.Errorf("%s: %d of %d datagrams, want about %.0f", name, got, n, want)
		}
	}
	w, c := run(t, Faults{Loss: 0.1}, 0, n)
	near("loss", c.Lost, 0.1)
	if got := w.numbers(); len(got) != n-int(c.Lost) || !slices.IsSorted(got) {
		t.Errorf("loss: %d datagrams left, in order: %v", len(got), slices.IsSorted(got))
	}

	w, c = run(t, Faults{Dup: 0.1}, 0, n)
	near("dup", c.Duplicated, 0.1)
	if got := w.numbers(); len(got) != n+int(c.Duplicated) || !slices.IsSorted(got) {
		t.Errorf("dup: %d datagrams sent", len(got))
	}

	w, c = run(t, Faults{Reorder: 0.1}, 0, n)
	near("reorder", c.Reordered, 0.1)
	got := w.numbers()
	if slices.IsSorted(got) || len(got) != n {
		t.Errorf("reorder: %d datagrams sent, in order %v", len(got), slices.IsSorted(got))
	}
	for i, k := range got {
		if k-i > maxPassing*3 || i-k > maxPassing*3 {
			t.Errorf("reorder: datagram %d was sent at position %d", k, i)
		}
	}

	w, c = run(t, Faults{Corrupt: 0.1}, 0, n)
	near("corrupt", c.Corrupted, 0.1)
	damaged := 0
	for i, b := range w.sent {
		want := append(binary.BigEndian.AppendUint32(nil, uint32(i)), "payload."...)
		flips := 0
		for j := range b {
			flips += bits.OnesCount8(b[j] ^ want[j])
		}
		if flips > 1 {
			t.Errorf("corrupt: %d bits of datagram %d are wrong", flips, i)
		}
		damaged += flips
	}
	if damaged != int(c.Corrupted) {
		t.Errorf("corrupt: %d datagrams are damaged, counted %d", damaged, c.Corrupted)
	}

	if w, c = run(t, Faults{Loss: 1}, 0, 100); len(w.sent) != 0 || c.Lost != 100 {
		t.Errorf("loss=100%%: %d datagrams sent", len(w.sent))
	}
}

func TestDelayInVirtualTime(t *testing.T) {
	now := monotime.Time(1000)
	w := &wire{}
	p := New(w, Options{Faults: Faults{Delay: monotime.Millisecond}, Now: still(&now)})
	if p.NextTimeout() != monotime.Never {
		t.Error("an empty tap has a timeout")
	}
	numbered(t, p, 0, 3)
	at := now.Add(monotime.Millisecond)
	if p.NextTimeout() != at {
		t.Errorf("timeout at %d, want %d", p.NextTimeout(), at)
	}
	now += 1000
	numbered(t, p, 3, 3)
	p.HandleTimeout(at - 1)
	if len(w.sent) != 0 {
		t.Errorf("%d datagrams were sent early", len(w.sent))
	}
	p.HandleTimeout(at)
	if got := w.numbers(); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("sent %v when the first were due", got)
	}
	p.HandleTimeout(at + 1000)
	if got := w.numbers(); !slices.Equal(got, []int{0, 1, 2, 3, 4, 5}) {
		t.Errorf("sent %v at last", got)
	}
}

func TestJitterReorders(t *testing.T) {
	w, _ := run(t, Faults{Delay: monotime.Millisecond, Jitter: monotime.Millisecond}, 0, 100)
	got := w.numbers()
	if slices.IsSorted(got) {
		t.Error("jitter left the order as it was")
	}
	slices.Sort(got)
	if len(slices.Compact(got)) != 100 {
		t.Errorf("%d datagrams arrived", len(got))
	}
}

func TestDriveSendsByItself(t *testing.T) {
	w := &wire{came: make(chan struct{}, 1)}
	p := New(w, Options{Faults: Faults{Delay: 200 * monotime.Microsecond}})
	p.Drive()
	numbered(t, p, 0, 5)
	for len(w.numbers()) < 5 {
		<-w.came
	}
	p.Close()
	if n, err := p.WriteBatch([]udp.Datagrams{{Dst: there}}); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("write to a closed tap: %d, %v", n, err)
	}
}

// shown is a capture.
type shown struct {
	packets []packet
	times   []time.Time
	// comments, each with the index of the packet that follows
	comments []comment
}

type comment struct {
	packet int
	text   string
}

type packet struct {
	src, dst netip.AddrPort
	way      pcap.Direction
	id       uint16
	payload  string
}

func (s *shown) Write(d *pcap.Datagram, payload ...[]byte) error {
	if d.Comment != "" {
		s.comments = append(s.comments, comment{len(s.packets), d.Comment})
	}
	s.packets = append(s.packets, packet{d.Src, d.Dst, d.Direction, d.IPID, string(bytes.Join(payload, nil))})
	s.times = append(s.times, d.Time)
	return nil
}

func (s *shown) WriteCall(*pcap.Call) error { return nil }

func (s *shown) WriteSegment(g *pcap.Segment, payload ...[]byte) error {
	return s.Write(&pcap.Datagram{Time: g.Time, Src: g.Src, Dst: g.Dst, Comment: g.Comment}, payload...)
}

func TestCaptureSplitsBursts(t *testing.T) {
	lo := netip.MustParseAddr("127.0.0.1")
	open := func() *udp.Socket {
		s, err := udp.Listen(lo, 0, udp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	a, b := open(), open()
	var sent, came shown
	tx, rx := New(a, Options{Capture: NewCapture(&sent)}), New(b, Options{Capture: NewCapture(&came)})
	burst := []udp.Datagrams{{Dst: b.LocalAddr(), Iov: [][]byte{[]byte("abc"), []byte("defg"), []byte("h")}, SegmentSize: 3}, {Dst: b.LocalAddr(), Iov: [][]byte{[]byte("single")}}}
	if n, err := tx.WriteBatch(burst); n != 2 || err != nil {
		t.Fatalf("write: %d, %v", n, err)
	}
	p, err := udp.NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.Add(b, 0)
	for batch, ready := udp.NewRxBatch(), make([]uint64, 1); len(came.packets) < 4; {
		p.Wait(10*monotime.Second, ready)
		if _, err := rx.ReadBatch(batch); err != nil {
			t.Fatal(err)
		}
	}
	var want []packet
	for i, s := range []string{"abc", "def", "gh"} {
		id := uint16(i)
		if !tx.CutsBursts() {
			id = 0
		}
		want = append(want, packet{a.LocalAddr(), b.LocalAddr(), pcap.Outbound, id, s})
	}
	want = append(want, packet{a.LocalAddr(), b.LocalAddr(), pcap.Outbound, 0, "single"})
	arrived := slices.Clone(want)
	for i := range arrived {
		arrived[i].way = pcap.Inbound
	}
	if !slices.Equal(sent.packets, want) || !slices.Equal(came.packets, arrived) {
		t.Errorf("capture shows\nsent %v\ncame %v\nwant %v", sent.packets, came.packets, want)
	}
}

// The comment of a burst is of its first datagram, whether faults cut the burst or the system does.
func TestCommentIsOfTheFirstDatagram(t *testing.T) {
	for _, f := range []Faults{{}, {Dup: 1, Seed: 1}} {
		var s shown
		p := New(&wire{cuts: true}, Options{Faults: f, Capture: NewCapture(&s)})
		burst := []udp.Datagrams{
			{Dst: there, Iov: [][]byte{[]byte("abc"), []byte("def")}, SegmentSize: 3, Comment: "first"},
			{Dst: there, Iov: [][]byte{[]byte("single")}},
			{Dst: there, Iov: [][]byte{[]byte("another")}, Comment: "last"},
		}
		if n, err := p.WriteBatch(burst); n != 3 || err != nil {
			t.Fatalf("write: %d, %v", n, err)
		}
		var got []string
		for _, c := range s.comments {
			got = append(got, s.packets[c.packet].payload+" "+c.text)
		}
		if !slices.Equal(got, []string{"abc first", "another last"}) {
			t.Errorf("%+v: %q", f, got)
		}
	}
}

func TestCaptureShowsWhatFaultsLeave(t *testing.T) {
	var s shown
	w := &wire{cuts: true}
	p := New(w, Options{Faults: Faults{Loss: 0.5, Seed: 1}, Capture: NewCapture(&s)})
	numbered(t, p, 0, 100)
	if len(s.packets) != len(w.sent) || len(w.sent) == 0 || len(w.sent) == 100 {
		t.Errorf("%d datagrams sent, %d shown", len(w.sent), len(s.packets))
	}
	if p.CutsBursts() {
		t.Error("a tap that loses datagrams of a burst says that it sends bursts whole")
	}
	for _, k := range s.packets {
		if k.id != 0 || k.src != here || k.dst != there {
			t.Errorf("packet shown as %+v", k)
		}
	}
}
