// SPDX-License-Identifier: BSD-2-Clause

package pcap_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"verbena/internal/wire/pcap"
	"verbena/internal/wire/pcapread"
)

// contents returns the datagrams of a ring.
func contents(t testing.TB, r *pcap.Ring) (list []pcap.Datagram) {
	t.Helper()
	c := r.Hold()
	defer c.Release()
	var file bytes.Buffer
	if n, err := c.WriteTo(&file); err != nil || int(n) != c.Bytes() || file.Len() != c.Bytes() {
		t.Fatalf("%d bytes of %d: %v", n, c.Bytes(), err)
	}
	in, err := pcapread.NewReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	for {
		d, _, err := in.NextPacket()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if d != nil {
			d.Payload = bytes.Clone(d.Payload)
			list = append(list, *d)
		}
	}
	if len(list) != c.Packets {
		t.Errorf("%d packets, says the ring: its file has %d", c.Packets, len(list))
	}
	return list
}

// A ring has the newest packets, each whole, whatever their sizes and however often it wrapped.
func TestRingKeepsTheNewest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	r := pcap.NewRing(0, "ring")
	total, sent := 0, 0
	for r.Bytes() != pcap.MinRing || total < 5*pcap.MinRing {
		f := flows[sent%len(flows)]
		b := make([]byte, 4+rng.IntN(9000))
		binary.BigEndian.PutUint32(b, uint32(sent))
		for i := 4; i < len(b); i++ {
			b[i] = byte(sent)
		}
		d := pcap.Datagram{Time: flowTime.Add(time.Duration(sent)), Src: f.src, Dst: f.dst}
		if sent%7 == 0 {
			d.Comment = strings.Repeat("c", sent%100+1)
		}
		if err := r.Write(&d, b[:3], b[3:]); err != nil {
			t.Fatal(err)
		}
		sent++
		total += len(b)
	}
	got := contents(t, r)
	held := 0
	for i, d := range got {
		want := sent - len(got) + i
		if n := binary.BigEndian.Uint32(d.Payload); int(n) != want {
			t.Fatalf("packet %d of %d is number %d, want %d", i, len(got), n, want)
		}
		if !d.Time.Equal(flowTime.Add(time.Duration(want))) || d.Payload[len(d.Payload)-1] != byte(want) && len(d.Payload) > 4 {
			t.Errorf("%d: %+v", want, d)
		}
		held += len(d.Payload)
	}
	if held < pcap.MinRing*8/10 || held > pcap.MinRing {
		t.Errorf("%d bytes of payload in a ring of %d", held, pcap.MinRing)
	}
}

// While the ring is written out it takes packets as long as there is room. Errors are those of a
// Writer.
func TestRingHeld(t *testing.T) {
	r := pcap.NewRing(0, "ring")
	write := func(comment string, n int) error {
		return r.Write(&pcap.Datagram{Time: flowTime, Src: flows[0].src, Dst: flows[0].dst, Comment: comment}, make([]byte, n))
	}
	if got := contents(t, r); len(got) != 0 {
		t.Errorf("an empty ring has %v", got)
	}
	if err := write("", 1); err != nil {
		t.Fatal(err)
	}
	c := r.Hold()
	if err := write("", 2); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteSegment(&pcap.Segment{Time: flowTime, Src: flows[0].src, Dst: flows[0].dst}, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if err := write("own", 70000); err == nil {
		t.Error("a payload of 70000 bytes")
	}
	c.Release()
	var file bytes.Buffer
	c = r.Hold()
	defer c.Release()
	if _, err := c.WriteTo(&file); err != nil || c.Packets != 3 || strings.Contains(file.String(), "missing") {
		t.Errorf("%d packets, %v\n%q", c.Packets, err, &file)
	}
}

// each calls a function before each Write.
type each func(n int)

func (f each) Write(b []byte) (int, error) {
	f(len(b))
	return len(b), nil
}

// A full ring leaves out packets until the oldest ones are written, and says so behind the gap. The
// contents are those of their moment.
func TestRingHeldFull(t *testing.T) {
	const size = 1000
	r := pcap.NewRing(0, "ring")
	next := 0
	write := func() {
		t.Helper()
		b := binary.BigEndian.AppendUint32(make([]byte, 0, size), uint32(next))
		next++
		if err := r.Write(&pcap.Datagram{Time: flowTime, Src: flows[0].src, Dst: flows[0].dst, Comment: "own"}, b[:size]); err != nil {
			t.Fatal(err)
		}
	}
	for range 2000 {
		write()
	}
	c := r.Hold()
	rounds := 0
	for range 5 {
		write() // no room
	}
	if n, err := c.WriteTo(each(func(n int) {
		if n > 1<<15 {
			t.Errorf("a piece of %d bytes", n)
		}
		if rounds++; rounds > 2 { // the header and a piece are written
			write()
		}
	})); err != nil || int(n) != c.Bytes() {
		t.Fatalf("%d bytes of %d: %v", n, c.Bytes(), err)
	}
	c.Release()
	got := contents(t, r)
	want := int(binary.BigEndian.Uint32(got[0].Payload))
	for _, d := range got {
		comment := "own"
		if want == 2000 {
			want, comment = 2005, "5 packets are missing before this one: the ring was written out\nown"
		}
		if n := binary.BigEndian.Uint32(d.Payload); int(n) != want || d.Comment != comment {
			t.Fatalf("number %d, want %d; comment %q", n, want, d.Comment)
		}
		want++
	}
	if want != next || rounds < 30 {
		t.Errorf("the last packet is before number %d of %d; %d pieces", want, next, rounds)
	}
}

// Several may write out at once, beside packets.
func TestRingBesidePackets(t *testing.T) {
	r := pcap.NewRing(0, "ring")
	stop := make(chan struct{})
	var busy, done sync.WaitGroup
	busy.Go(func() {
		b := make([]byte, 4000)
		for i := uint64(0); ; i++ {
			select {
			case <-stop:
				return
			default:
				binary.BigEndian.PutUint64(b, i)
				r.Write(&pcap.Datagram{Time: flowTime, Src: flows[2].src, Dst: flows[2].dst}, b)
			}
		}
	})
	for range 2 {
		done.Go(func() {
			for range 10 {
				var last uint64
				for i, d := range contents(t, r) {
					n := binary.BigEndian.Uint64(d.Payload)
					if i > 0 && n != last+1 && d.Comment == fmt.Sprintf("%d packets are missing before this one: the ring was written out", n-last-1) {
						last = n - 1
					}
					if i > 0 && n != last+1 {
						t.Errorf("number %d behind %d, comment %q", n, last, d.Comment)
					}
					last = n
				}
			}
		})
	}
	done.Wait()
	close(stop)
	busy.Wait()
}

// Packets cost no allocation, once the buffers have their size.
func TestNoAllocations(t *testing.T) {
	payload := [][]byte{make([]byte, 100), make([]byte, 4000)}
	for name, s := range map[string]interface {
		Write(*pcap.Datagram, ...[]byte) error
		WriteSegment(*pcap.Segment, ...[]byte) error
	}{"ring": pcap.NewRing(0, "ring"), "writer": pcap.NewWriter(io.Discard, "writer")} {
		for _, f := range flows {
			d := &pcap.Datagram{Time: flowTime, Src: f.src, Dst: f.dst, Comment: "qpn=1"}
			g := &pcap.Segment{Time: flowTime, Src: f.src, Dst: f.dst}
			if n := testing.AllocsPerRun(1000, func() {
				s.Write(d, payload...)
				s.WriteSegment(g, payload...)
			}); n != 0 {
				t.Errorf("%s, %v: %v allocations a packet", name, f.src, n)
			}
		}
	}
}

// A packet of an MTU of 4096, into a file and into a ring.
func BenchmarkPacket(b *testing.B) {
	payload := [][]byte{make([]byte, 28), make([]byte, 4096)}
	d := &pcap.Datagram{Time: flowTime, Src: flows[0].src, Dst: flows[0].dst}
	for name, s := range map[string]interface {
		Write(*pcap.Datagram, ...[]byte) error
	}{"ring": pcap.NewRing(64<<20, "ring"), "discard": pcap.NewWriter(io.Discard, "writer")} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(4096)
			for b.Loop() {
				s.Write(d, payload...)
			}
		})
	}
}
