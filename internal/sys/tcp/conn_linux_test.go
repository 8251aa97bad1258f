// SPDX-License-Identifier: BSD-2-Clause

package tcp

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

const patience = 20 * time.Second

// until polls until ok, or fails the test.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// connect returns the two ends of a connection.
func connect(t testing.TB, at netip.AddrPort) (a, b *Conn) {
	t.Helper()
	l, err := Listen(at, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = Dial(netip.AddrPort{}, l.Local()); err != nil {
		t.Fatal(err)
	}
	until(t, "a connection", func() bool {
		b, err = l.Accept()
		return b != nil || err != nil
	})
	if err == nil {
		err = a.Finish()
	}
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

func TestBothEndsKnowTheirAddresses(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		a, b := connect(t, netip.MustParseAddrPort(at))
		if a.Local() != b.Remote() || a.Remote() != b.Local() || a.Local().Port() == 0 {
			t.Errorf("%v to %v, %v to %v", a.Local(), a.Remote(), b.Local(), b.Remote())
		}
		if mss, err := a.MSS(); err != nil || mss < 1000 {
			t.Errorf("MSS %d, %v", mss, err)
		}
		a.Close()
		b.Close()
	}
}

// TestIdlePeerIsAsked holds the options of either end; the rest is the system's.
func TestIdlePeerIsAsked(t *testing.T) {
	a, b := connect(t, loopback)
	defer a.Close()
	defer b.Close()
	for _, c := range []*Conn{a, b} {
		var got [4]int
		for i, o := range [][2]int{{unix.SOL_SOCKET, unix.SO_KEEPALIVE}, {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE}, {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL}, {unix.IPPROTO_TCP, unix.TCP_KEEPCNT}} {
			n, err := unix.GetsockoptInt(c.FD(), o[0], o[1])
			if err != nil {
				t.Fatal(err)
			}
			got[i] = n
		}
		if got != [4]int{1, idleSeconds, probeSeconds, probes} {
			t.Errorf("keep-alive %v", got)
		}
	}
}

// TestScatteredBytesKeepTheirOrder moves bytes through lists of odd pieces,
// longer than the kernel takes.
func TestScatteredBytesKeepTheirOrder(t *testing.T) {
	a, b := connect(t, loopback)
	defer a.Close()
	defer b.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	cut := func(p []byte) (list [][]byte) {
		for len(p) > 0 {
			n := min(1+rng.IntN(90), len(p))
			list, p = append(list, p[:n]), p[n:]
		}
		return append(list, nil)
	}
	sent, got := make([]byte, 1<<20), make([]byte, 1<<20)
	for i := range sent {
		sent[i] = byte(rng.Uint32())
	}
	var v Vectors
	out, in := 0, 0
	until(t, "all bytes", func() bool {
		n, err := a.Writev(&v, cut(sent[out:]))
		out += n
		if err == nil {
			n, err = b.Readv(&v, cut(got[in:]))
			in += n
		}
		if err != nil {
			t.Fatal(err)
		}
		return in == len(got)
	})
	if !bytes.Equal(sent, got) {
		t.Error("bytes are not where they belong")
	}
}

func TestPortIsTaken(t *testing.T) {
	l, err := Listen(loopback, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Listen(l.Local(), 1); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a second listener: %v", err)
	}
	if _, err := Listen(netip.MustParseAddrPort("192.0.2.1:0"), 1); !errors.Is(err, unix.EADDRNOTAVAIL) {
		t.Errorf("an address of nobody here: %v", err)
	}
}

// TestPortIsFreeAgain listens where connections of the last listener linger.
func TestPortIsFreeAgain(t *testing.T) {
	l, err := Listen(loopback, 1)
	if err != nil {
		t.Fatal(err)
	}
	at := l.Local()
	l.Close()
	a, b := connect(t, at)
	b.Close() // first: its end of the port waits for stragglers
	a.Close()
	if l, err = Listen(at, 1); err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestNobodyListens(t *testing.T) {
	l, err := Listen(loopback, 1)
	if err != nil {
		t.Fatal(err)
	}
	at := l.Local()
	l.Close()
	c, err := Dial(netip.AddrPort{}, at)
	if err == nil {
		defer c.Close()
		s, err := NewSet()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Add(c.FD(), 7, WantWrite); err != nil {
			t.Fatal(err)
		}
		until(t, "an event", func() bool {
			ev, err := s.Ready()
			return err == nil && len(ev) == 1 && ev[0].ID == 7 && ev[0].Writable
		})
		if err := c.Finish(); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("connected: %v", err)
		}
	} else if !errors.Is(err, unix.ECONNREFUSED) {
		t.Error(err)
	}
}

// TestEndings sees the three ways in which a stream ends: after all bytes, by a reset, and for a
// writer without a reader, without a signal.
func TestEndings(t *testing.T) {
	var v Vectors
	read := func(c *Conn) (n int, err error) {
		until(t, "something to read", func() bool {
			n, err = c.Readv(&v, [][]byte{make([]byte, 100)})
			return n > 0 || err != nil
		})
		return n, err
	}
	a, b := connect(t, loopback)
	a.Writev(&v, [][]byte{[]byte("last")})
	a.CloseWrite()
	if n, err := read(b); n != 4 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := read(b); err != io.EOF {
		t.Errorf("behind them: %v", err)
	}
	b.Writev(&v, [][]byte{[]byte("answer")})
	if n, err := read(a); n != 6 || err != nil {
		t.Errorf("the other way: %d bytes, %v", n, err)
	}
	a.Close()
	b.Close()
	a, b = connect(t, loopback)
	a.Abort()
	if _, err := read(b); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("reset: %v", err)
	}
	if _, err := b.Writev(&v, [][]byte{[]byte("to nobody")}); !errors.Is(err, unix.EPIPE) {
		t.Errorf("written: %v", err)
	}
	b.Close()
}

func TestMemoryThatIsNotMapped(t *testing.T) {
	a, b := connect(t, loopback)
	defer a.Close()
	defer b.Close()
	gone, err := unix.Mmap(-1, 0, 4096, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(gone)
	var v Vectors
	if _, err := a.Writev(&v, [][]byte{gone}); err != unix.EFAULT {
		t.Errorf("written: %v", err)
	}
	a.Writev(&v, [][]byte{{1}})
	until(t, "the byte", func() bool {
		_, err = b.Readv(&v, [][]byte{gone})
		return err != nil
	})
	if err != unix.EFAULT {
		t.Errorf("read: %v", err)
	}
}

func TestSetFollowsInterest(t *testing.T) {
	a, b := connect(t, loopback)
	defer b.Close()
	s, err := NewSet()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ready := func() []Event {
		ev, err := s.Ready()
		if err != nil {
			t.Fatal(err)
		}
		return ev
	}
	const id = 1<<40 + 5
	if err := s.Add(b.FD(), id, WantRead); err != nil {
		t.Fatal(err)
	}
	if ev := ready(); len(ev) != 0 {
		t.Fatalf("nothing has come: %v", ev)
	}
	s.Change(b.FD(), id, WantRead|WantWrite)
	if ev := ready(); len(ev) != 1 || ev[0] != (Event{ID: id, Writable: true}) {
		t.Fatalf("there is room to write: %v", ev)
	}
	s.Change(b.FD(), id, WantRead)
	var v Vectors
	a.Writev(&v, [][]byte{{1}})
	until(t, "a byte", func() bool { ev := ready(); return len(ev) == 1 && ev[0] == Event{ID: id, Readable: true} })
	s.Change(b.FD(), id, 0)
	a.Abort()
	until(t, "the reset, waiting for nothing", func() bool { ev := ready(); return len(ev) == 1 && ev[0].Readable })
	s.Remove(b.FD())
	if ev := ready(); len(ev) != 0 {
		t.Fatalf("removed: %v", ev)
	}
}

func TestReadAndWriteAllocateNothing(t *testing.T) {
	a, b := connect(t, loopback)
	defer a.Close()
	defer b.Close()
	var v Vectors
	out, in := [][]byte{make([]byte, 10), make([]byte, 20)}, [][]byte{make([]byte, 100)}
	if n := testing.AllocsPerRun(100, func() {
		a.Writev(&v, out)
		b.Readv(&v, in)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestNoDescriptorIsLeft has a connection come that there is no descriptor for: it
// is reset, and no more reported.
func TestNoDescriptorIsLeft(t *testing.T) {
	l, err := Listen(loopback, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := Dial(netip.AddrPort{}, l.Local())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	s, err := NewSet()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Add(l.FD(), 1, WantRead)
	waiting := func() bool { ev, _ := s.Ready(); return len(ev) > 0 }
	until(t, "a connection", waiting)

	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if e := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); e != nil {
		t.Fatal(e)
	}
	if c != nil || !errors.Is(err, unix.EMFILE) {
		t.Fatalf("%v, %v", c, err)
	}
	// Cur 0 leaves no descriptor to the spare one either.
	if l.spare >= 0 || !waiting() {
		t.Error("with no descriptor at all the connection is there still")
	}
	l.spare = reserve()
	var dup []int
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	for {
		fd, err := unix.Dup(l.FD())
		if err != nil {
			break
		}
		dup = append(dup, fd)
	}
	_, err = l.Accept()
	for _, fd := range dup {
		unix.Close(fd)
	}
	if e := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); e != nil {
		t.Fatal(e)
	}
	if !errors.Is(err, unix.EMFILE) || l.spare < 0 {
		t.Fatalf("%v, spare %d", err, l.spare)
	}
	if waiting() {
		t.Error("the connection is reported still")
	}
	var v Vectors
	until(t, "the reset", func() bool {
		_, err = a.Readv(&v, [][]byte{make([]byte, 1)})
		return err != nil
	})
	if !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the peer sees %v", err)
	}
}
