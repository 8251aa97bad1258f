// SPDX-License-Identifier: BSD-2-Clause

package faultcap

import (
	"bytes"
	"errors"
	"io"
	"math/bits"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"verbena/internal/sys/tcp"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/pcapread"
)

const patience = 20 * time.Second

// streams returns the two ends of a connection; the first is tapped.
func streams(t *testing.T, f Faults, capture *Capture) (a *Stream, b *tcp.Conn) {
	t.Helper()
	l, err := tcp.Listen(netip.MustParseAddrPort("127.0.0.1:0"), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := tcp.Dial(netip.AddrPort{}, l.Local())
	if err != nil {
		t.Fatal(err)
	}
	a = NewStream(c, true, f, 1, capture)
	for end := time.Now().Add(patience); b == nil && time.Now().Before(end); {
		if b, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Finish(); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// read returns the next n bytes, fewer if the stream ends.
func read(t *testing.T, c Conn, n int) ([]byte, error) {
	t.Helper()
	var v tcp.Vectors
	out := make([]byte, 0, n)
	for end := time.Now().Add(patience); len(out) < n || n == 0; {
		k, err := c.Readv(&v, [][]byte{out[len(out):max(n, 1)][:max(n, 1)-len(out)]})
		if out = out[:len(out)+k]; err != nil {
			return out, err
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d bytes came", len(out), n)
		}
	}
	return out, nil
}

func TestStreamIsCorrupted(t *testing.T) {
	a, b := streams(t, Faults{Corrupt: 1, Seed: 7}, nil)
	defer a.Close()
	defer b.Close()
	want := bytes.Repeat([]byte("verbena"), 100)
	var v tcp.Vectors
	kept := bytes.Clone(want)
	n, err := a.Writev(&v, [][]byte{want[:300], want[300:]})
	if n != len(want) || err != nil || !bytes.Equal(kept, want) {
		t.Fatalf("%d bytes, %v; what was given is as it was: %v", n, err, bytes.Equal(kept, want))
	}
	got, err := read(t, b, n)
	if err != nil {
		t.Fatal(err)
	}
	flipped := 0
	for i := range got {
		flipped += bits.OnesCount8(got[i] ^ want[i])
	}
	if flipped != 1 {
		t.Errorf("%d bits differ", flipped)
	}
}

func TestStreamIsCut(t *testing.T) {
	a, b := streams(t, Faults{Cut: 1}, nil)
	defer b.Close()
	var v tcp.Vectors
	if n, err := a.Writev(&v, [][]byte{{1}}); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%d bytes, %v", n, err)
	}
	a.Abort()
	if _, err := read(t, b, 1); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the other end: %v", err)
	}
}

// TestStreamIsDelayed: each byte comes as late as it should, in order, and so does
// the end.
func TestStreamIsDelayed(t *testing.T) {
	const delay = 20 * time.Millisecond
	a, b := streams(t, Faults{Delay: delay, Jitter: delay, Seed: 5}, nil)
	defer b.Close()
	var v tcp.Vectors
	var want []byte
	begin := time.Now()
	for i := range 50 {
		p := bytes.Repeat([]byte{byte(i)}, 1+i*100)
		if n, err := a.Writev(&v, [][]byte{p[:i], p[i:]}); n != len(p) || err != nil {
			t.Fatalf("%d of %d bytes, %v", n, len(p), err)
		}
		want = append(want, p...)
		clear(p) // the application's again
	}
	a.CloseWrite()
	last := time.Now()
	got, err := read(t, b, 1)
	if took := time.Since(begin); took < delay || err != nil {
		t.Errorf("the first byte after %v, %v", took, err)
	}
	rest, err := read(t, b, len(want)-1)
	if !bytes.Equal(append(got, rest...), want) || err != nil {
		t.Errorf("what came is not what was sent: %v", err)
	}
	if _, err := read(t, b, 1); err != io.EOF || time.Since(last) < delay {
		t.Errorf("the end: %v after %v", err, time.Since(last))
	}
	a.Close()
}

// TestDelayedBytesOutliveTheClose as those in a socket do, and not a reset. More
// than the line and the socket hold finds no room, and is not lost.
func TestDelayedBytesOutliveTheClose(t *testing.T) {
	for _, how := range []struct {
		name string
		end  func(*Stream) error
		want int
		err  error
	}{{"close", (*Stream).Close, 7, io.EOF}, {"abort", (*Stream).Abort, 0, syscall.ECONNRESET}} {
		a, b := streams(t, Faults{Delay: 10 * time.Millisecond}, nil)
		var v tcp.Vectors
		if n, err := a.Writev(&v, [][]byte{[]byte("verbena")}); n != 7 || err != nil {
			t.Fatalf("%d bytes, %v", n, err)
		}
		how.end(a)
		if got, err := read(t, b, 8); len(got) != how.want || !errors.Is(err, how.err) {
			t.Errorf("%s: %q, %v", how.name, got, err)
		}
		b.Close()
	}
	a, b := streams(t, Faults{Delay: time.Microsecond}, nil)
	var v tcp.Vectors
	chunk, taken := make([]byte, 1<<20), 0
	for {
		n, err := a.Writev(&v, [][]byte{chunk})
		if err != nil {
			t.Fatal(err)
		}
		if taken += n; n < len(chunk) {
			break
		}
	}
	if taken < maxDelayed || taken > 2*maxDelayed {
		t.Errorf("%d bytes found room", taken)
	}
	if got, err := read(t, b, taken); len(got) != taken || err != nil {
		t.Errorf("%d of %d bytes, %v", len(got), taken, err)
	}
	b.Close()
	for end := time.Now().Add(patience); ; {
		if _, err := a.Writev(&v, [][]byte{chunk}); err != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("writes to a lost connection go on")
		}
	}
	a.Close()
}

func TestFaultsKnowWhatTheyHarm(t *testing.T) {
	for spec, want := range map[string][2]bool{
		"": {true, true}, "seed=3": {true, true}, "corrupt=1%": {true, true}, "cut=1%": {true, false},
		"loss=1%": {false, true}, "dup=1%": {false, true}, "delay=1ms,jitter=1ms": {true, true}, "reorder=1%,cut=1%": {false, false},
	} {
		f, err := ParseFaults(spec)
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]bool{f.ForStreams() == nil, f.ForDatagrams() == nil}; got != want {
			t.Errorf("%q for streams and for datagrams: %v, want %v", spec, got, want)
		}
	}
}

// TestStreamIsShown reads the capture of a connection back: it is a stream with
// beginning and end, and all bytes at their numbers.
func TestStreamIsShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stream.pcapng")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := pcap.NewWriter(f, "test")
	a, b := streams(t, Faults{}, NewCapture(w))
	var v tcp.Vectors
	there, back := bytes.Repeat([]byte("abcdefg"), 20000), []byte("answer")
	for sent := 0; sent < len(there); {
		n, err := a.Writev(&v, [][]byte{there[sent : sent+(len(there)-sent)/2], there[sent+(len(there)-sent)/2:]})
		if err != nil {
			t.Fatal(err)
		}
		if sent += n; n == 0 {
			t.Fatal("the socket has no room for 140 kB")
		}
	}
	if got, err := read(t, b, len(there)); err != nil || !bytes.Equal(got, there) {
		t.Fatal("what came is not what was sent", err)
	}
	b.Writev(&v, [][]byte{back})
	read(t, a, len(back))
	a.CloseWrite()
	if _, err := read(t, b, 1); err != io.EOF {
		t.Fatal(err)
	}
	b.Close()
	if _, err := read(t, a, 1); err != io.EOF {
		t.Fatal(err)
	}
	at, peer := a.Local(), a.Remote()
	a.Close()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	r, err := pcapread.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var syn, fin int
	streams, ways := map[netip.AddrPort][]byte{}, map[pcap.Direction]int{}
	for {
		_, s, err := r.NextPacket()
		if err == io.EOF {
			break
		}
		if err != nil || s == nil {
			t.Fatal(s, err)
		}
		if s.Src != at && s.Src != peer || s.Dst != at && s.Dst != peer {
			t.Fatalf("%v to %v is not %v and %v", s.Src, s.Dst, at, peer)
		}
		switch {
		case s.SYN && s.Seq == 0:
			syn++
		case int(s.Seq) != 1+len(streams[s.Src]):
			t.Fatalf("sequence number %d behind %d bytes", s.Seq, len(streams[s.Src]))
		case s.FIN:
			fin++
		}
		streams[s.Src] = append(streams[s.Src], s.Payload...)
		if s.Src == at {
			ways[s.Direction] += len(s.Payload)
		} else {
			ways[s.Direction] -= len(s.Payload)
		}
	}
	if ways[pcap.Outbound] != len(there) || ways[pcap.Inbound] != -len(back) {
		t.Errorf("bytes by direction: %v", ways)
	}
	if syn != 2 || fin != 2 || !bytes.Equal(streams[at], there) || !bytes.Equal(streams[peer], back) {
		t.Errorf("%d SYNs, %d FINs, %d and %d bytes", syn, fin, len(streams[at]), len(streams[peer]))
	}
}
