// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/ntb/channel"
	wire "verbena/internal/wire/ntb"
)

func localhost(port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
}

// port returns the port that a listener was given.
func (l *Listener) port(t *testing.T) uint16 {
	sa, err := unix.Getsockname(int(l.f))
	if err != nil {
		t.Fatal(err)
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return uint16(sa.Port)
	case *unix.SockaddrInet6:
		return uint16(sa.Port)
	}
	t.Fatalf("%T", sa)
	return 0
}

// pairs opens both ends of each kind in this process.
func pairs(t *testing.T) map[string][2]Link {
	m := map[string][2]Link{}
	join := func(kind string, l *Listener, err error, dial func() (Link, error)) {
		if err != nil {
			t.Fatal(err)
		}
		type result struct {
			l   Link
			err error
		}
		c := make(chan result)
		go func() {
			x, err := dial()
			c <- result{x, err}
		}()
		a, err := l.Accept(5 * time.Second)
		b := <-c
		if err != nil || b.err != nil {
			t.Fatal(kind, err, b.err)
		}
		m[kind] = [2]Link{a, b.l}
		t.Cleanup(func() { a.Close(); b.l.Close(); l.Close() })
	}
	near, far := connected(t, newPlace(t, "shm:s:"+filepath.Join(t.TempDir(), "place"), 1), 2)
	m["shm"] = [2]Link{near, far}
	l, err := listenOwnTCP(localhost(0), windowBytes)
	join("tcp", l, err, func() (Link, error) {
		return dialOwnTCP(localhost(l.port(t)), 2*windowBytes, time.Second)
	})
	file := filepath.Join(t.TempDir(), "bar")
	if err := os.WriteFile(file, make([]byte, 2*windowBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	var both [2]Link
	for side := range both {
		if both[side], err = openFile(file, side); err != nil {
			t.Fatal(err)
		}
		x := both[side]
		t.Cleanup(func() { x.Close() })
	}
	if _, err := openFile(file, 1); !errors.Is(err, ErrInUse) {
		t.Errorf("a side twice: %v", err)
	}
	m["map"] = both
	return m
}

// Writes of one end arrive at the other, in order, whatever their length.
func TestWritesArrive(t *testing.T) {
	for kind, p := range pairs(t) {
		for dir := range 2 {
			from, to := p[dir], p[1-dir]
			if from.PeerBytes() != to.Own().Len() {
				t.Errorf("%s: %d bytes, the peer has %d", kind, from.PeerBytes(), to.Own().Len())
			}
			b := channel.NewBatch()
			big := make([]byte, 300<<10)
			for i := range big {
				big[i] = byte(i * 7)
			}
			b.Copy(0x1003, big)
			b.Word4(wire.OffPing, 77)
			b.Word8(wire.OffEcho, 1<<40)
			if err := from.Write(b); err != nil {
				t.Fatal(kind, err)
			}
			for end := time.Now().Add(5 * time.Second); to.Own().Load8(wire.OffEcho) != 1<<40; {
				if _, err := from.Flush(); err != nil {
					t.Fatal(kind, err)
				}
				if err := to.Receive(); err != nil {
					t.Fatal(kind, err)
				}
				if err := to.Wait(time.Millisecond); err != nil {
					t.Fatal(kind, err)
				}
				if time.Now().After(end) {
					t.Fatal(kind, ": never")
				}
			}
			got, _ := to.Own().Bytes(0x1003, uint64(len(big)))
			if string(got) != string(big) || to.Own().Load4(wire.OffPing) != 77 {
				t.Errorf("%s: other bytes", kind)
			}
			b.Reset()
			b.Copy(from.PeerBytes()-1, []byte("xy"))
			if err := from.Write(b); kind != "tcp" && err != channel.ErrOutside {
				t.Errorf("%s: a write outside: %v", kind, err)
			} else if kind == "tcp" { // there the other end says no
				for end := time.Now().Add(5 * time.Second); err == nil && time.Now().Before(end); err = to.Receive() {
					to.Wait(time.Millisecond)
				}
				if err != ErrProtocol {
					t.Errorf("tcp: a write outside: %v", err)
				}
				break
			}
		}
	}
}

// A waiting thread is woken, and learns that the peer has gone.
func TestWaitIsWoken(t *testing.T) {
	for kind, p := range pairs(t) {
		b := channel.NewBatch()
		b.Word4(wire.OffSignal, 5)
		readable := func() bool {
			var list []unix.PollFd
			for _, f := range p[0].FDs() {
				list = append(list, unix.PollFd{Fd: int32(f), Events: unix.POLLIN})
			}
			ok, err := poll(list, 0)
			if err != nil {
				t.Fatal(err)
			}
			return ok
		}
		if readable() {
			t.Errorf("%s: readable, and nothing has come", kind)
		}
		woken := make(chan time.Duration)
		go func() {
			from := time.Now()
			if err := p[0].Wait(20 * time.Second); err != nil {
				t.Error(kind, err)
			}
			woken <- time.Since(from)
		}()
		if err := p[1].Write(b); err != nil {
			t.Fatal(kind, err)
		}
		p[1].Ring()
		if d := <-woken; d > 10*time.Second {
			t.Errorf("%s: woken after %v", kind, d)
		}
		if p[0].Receive(); readable() {
			t.Errorf("%s: readable, and all is taken", kind)
		}
		if kind == "map" {
			continue // tells nothing: the heartbeat does
		}
		p[1].Ring()
		p[1].Close()
		if !readable() {
			t.Errorf("%s: not readable, and the peer is gone", kind)
		}
		var err error
		for end := time.Now().Add(5 * time.Second); err == nil && time.Now().Before(end); {
			if err = p[0].Wait(time.Second); err == nil {
				err = p[0].Receive()
			}
		}
		if err != ErrLost {
			t.Errorf("%s: the peer has closed: %v", kind, err)
		}
	}
}

// A thread that polls and never waits learns of the peer's end too.
func TestPollingNoticesTheEnd(t *testing.T) {
	p := pairs(t)["shm"]
	p[1].Close()
	var err error
	for i := 0; err == nil && i < 2*lookEvery; i++ {
		err = p[0].Receive()
	}
	if err != ErrLost {
		t.Errorf("%v", err)
	}
}

// A thread that polls leaves the doorbell to the one that sleeps by it.
func TestPollingLeavesTheDoorbell(t *testing.T) {
	p := pairs(t)["shm"]
	p[1].Ring()
	for range 2 * lookEvery {
		if err := p[0].Receive(); err != nil {
			t.Fatal(err)
		}
	}
	list := []unix.PollFd{{Fd: int32(p[0].FDs()[0]), Events: unix.POLLIN}}
	if rung, err := poll(list, 0); !rung || err != nil {
		t.Errorf("the doorbell was read: %v", err)
	}
}

func TestIPv6(t *testing.T) {
	l, err := listenOwnTCP(netip.MustParseAddrPort("[::1]:0"), windowBytes)
	if err != nil {
		t.Skipf("there is no IPv6: enable it to test it: %v", err)
	}
	defer l.Close()
	done := make(chan error)
	go func() {
		x, err := dialOwnTCP(netip.AddrPortFrom(netip.IPv6Loopback(), l.port(t)), windowBytes, 5*time.Second)
		if err == nil {
			err = x.Close()
		}
		done <- err
	}()
	x, err := l.Accept(5 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	x.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A TCP peer that does not speak the protocol, or wants to write where it may not.
func TestHostileStream(t *testing.T) {
	greeting := wire.Greeting{WindowBytes: windowBytes}.Append(nil)
	message := func(to, n uint64, data string) []byte {
		return append(wire.Message{To: to, Bytes: n}.Append(nil), data...)
	}
	for name, c := range map[string]struct {
		sends []byte
		opens bool
		want  error
	}{
		"HTTP":                {[]byte("GET / HTTP/1.1\r\n\r\n"), false, ErrProtocol},
		"nothing":             {nil, false, ErrLost},
		"no window":           {wire.Greeting{}.Append(nil), false, ErrProtocol},
		"a window of 2^63":    {wire.Greeting{WindowBytes: 1 << 63}.Append(nil), false, ErrProtocol},
		"garbage":             {append(greeting, make([]byte, 64)...), true, ErrProtocol},
		"outside":             {append(greeting, message(windowBytes, 1, "x")...), true, ErrProtocol},
		"wraps":               {append(greeting, message(^uint64(0)-1, 8, "12345678")...), true, ErrProtocol},
		"longer than memory":  {append(greeting, message(0, 1<<62, "x")...), true, ErrProtocol},
		"goes in the middle":  {append(greeting, message(4096, 100, "x")...), true, ErrLost},
		"a word, in two":      {append(greeting, message(4096, 8, "1234")...), true, ErrLost},
		"half a message head": {append(greeting, message(0, 0, "")[:20]...), true, ErrLost},
	} {
		l, err := listenOwnTCP(localhost(0), windowBytes)
		if err != nil {
			t.Fatal(err)
		}
		family, sa := address(localhost(l.port(t)))
		f, err := connect(family, unix.SOCK_STREAM, sa, none, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.sends) > 0 {
			if _, err := unix.Write(int(f), c.sends); err != nil {
				t.Fatal(err)
			}
		}
		unix.Shutdown(int(f), unix.SHUT_WR)
		x, err := l.Accept(5 * time.Second)
		if (err == nil) != c.opens {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			for end := time.Now().Add(5 * time.Second); err == nil && time.Now().Before(end); err = x.Receive() {
				x.Wait(time.Millisecond)
			}
			if v := x.Own().Load8(4096); v != 0 && name == "a word, in two" {
				t.Errorf("half a word was written: %#x", v)
			}
			x.Close()
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		f.close()
		l.Close()
	}
}
