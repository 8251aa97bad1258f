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

	"verbena/internal/sys/sockaddr"
	wire "verbena/internal/wire/ntb"
)

// callFrom connects to a listener on loopback from an address, and says nothing.
func callFrom(t *testing.T, l *Listener, from string) fd {
	t.Helper()
	f, err := socket(unix.AF_INET, unix.SOCK_STREAM)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.close() })
	_, local := sockaddr.Of(netip.AddrPortFrom(netip.MustParseAddr(from), 0))
	if err := unix.Bind(int(f), local); err != nil {
		t.Fatal(err)
	}
	_, to := sockaddr.Of(localhost(l.port(t)))
	if err := unix.Connect(int(f), to); err != nil && err != unix.EINPROGRESS {
		t.Fatal(err)
	}
	return f
}

// sentAway waits until the other end has closed a stream.
func sentAway(t *testing.T, f fd) bool {
	t.Helper()
	var b [64]byte
	for end := time.Now().Add(5 * time.Second); ; {
		if err := await(f, unix.POLLIN, none, time.Until(end)); err != nil {
			return false
		}
		if n, err := unix.Read(int(f), b[:]); n == 0 || err == unix.ECONNRESET {
			return true
		}
	}
}

// greeted has a peer greet a listener, after which both have a link or an error.
func greeted(t *testing.T, l *Listener, secret []byte) (accepted, called error) {
	t.Helper()
	done := make(chan error)
	go func() {
		f, _, err := dialTCP(localhost(l.port(t)), windowBytes, secret, none, 5*time.Second)
		if err == nil {
			f.close()
		}
		done <- err
	}()
	x, accepted := l.Accept(5 * time.Second)
	if accepted == nil {
		x.Close()
	}
	return accepted, <-done
}

// TestSilentStrangersHoldNoDoor connects more silent streams than there is room for, and
// then a peer.
func TestSilentStrangersHoldNoDoor(t *testing.T) {
	l, err := listenOwnTCP(localhost(0), windowBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 2 * maxGreeting {
		callFrom(t, l, "127.0.0.2")
	}
	start := time.Now()
	if accepted, called := greeted(t, l, nil); accepted != nil || called != nil {
		t.Errorf("%v, and its peer %v", accepted, called)
	}
	if took := time.Since(start); took > greetingTime/2 {
		t.Errorf("after %v", took)
	}
	if n := len(l.greeting); n != 0 {
		t.Errorf("%d are kept", n)
	}
}

// One address's many streams push out each other, and not another's.
func TestRoomIsShared(t *testing.T) {
	l, err := listenOwnTCP(localhost(0), windowBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	slow := callFrom(t, l, "127.0.0.3")
	for range 2 * maxGreeting {
		callFrom(t, l, "127.0.0.2")
	}
	if _, err := unix.Write(int(slow), wire.Greeting{WindowBytes: windowBytes}.Append(nil)[:3]); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Accept(10 * time.Millisecond); err != ErrTimeout {
		t.Fatal(err)
	}
	if _, err := unix.Write(int(slow), wire.Greeting{WindowBytes: windowBytes}.Append(nil)[3:]); err != nil {
		t.Fatal(err)
	}
	x, err := l.Accept(5 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	x.Close()
}

func TestOnlyTheAddressMayConnect(t *testing.T) {
	for _, c := range []struct {
		from netip.Prefix
		may  bool
	}{
		{netip.Prefix{}, true}, {netip.MustParsePrefix("127.0.0.1/32"), true}, {netip.MustParsePrefix("127.0.0.0/30"), true},
		{netip.MustParsePrefix("127.0.0.2/32"), false}, {netip.MustParsePrefix("::1/128"), false},
	} {
		l, err := listenOwnTCP(localhost(0), windowBytes)
		if err != nil {
			t.Fatal(err)
		}
		l.admission.from = c.from
		if c.may {
			if accepted, called := greeted(t, l, nil); accepted != nil || called != nil {
				t.Errorf("%v: %v, and its peer %v", c.from, accepted, called)
			}
		} else {
			f := callFrom(t, l, "127.0.0.1")
			if _, err := l.Accept(10 * time.Millisecond); err != ErrTimeout {
				t.Errorf("%v: %v", c.from, err)
			}
			if !sentAway(t, f) {
				t.Errorf("%v: the stranger is not sent away", c.from)
			}
		}
		l.Close()
	}
}

func TestBothKnowTheSecret(t *testing.T) {
	for _, c := range []struct {
		what         string
		ours, theirs []byte
		want         error
	}{
		{"the same", []byte("0123456789abcdef"), []byte("0123456789abcdef"), nil},
		{"another", []byte("0123456789abcdef"), []byte("0123456789abcdeF"), ErrSecret},
		{"none there", []byte("0123456789abcdef"), nil, ErrSecret},
		{"none here", nil, []byte("0123456789abcdef"), ErrSecret},
	} {
		l, err := listenOwnTCP(localhost(0), windowBytes)
		if err != nil {
			t.Fatal(err)
		}
		l.admission.secret = c.ours
		accepted, called := greeted(t, l, c.theirs)
		if !errors.Is(accepted, c.want) || (called == nil) != (c.want == nil) {
			t.Errorf("%s: %v, and its peer %v", c.what, accepted, called)
		}
		l.Close()
	}
}

// A stranger hears no proof before it has given one, and one that was heard is worth
// nothing: neither at the next connection nor turned round.
func TestProofsAreNotRepeated(t *testing.T) {
	secret := []byte("0123456789abcdef")
	end := func(serve bool) *greeting {
		g, err := newGreeting(fdOfPair(t), windowBytes, serve, secret)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	feed := func(g *greeting, b []byte) (err error) {
		for len(b) > 0 && err == nil {
			n := min(g.wanted()-len(g.in), len(b))
			g.in, b = append(g.in, b[:n]...), b[n:]
			err = g.take()
		}
		return err
	}
	s, c := end(true), end(false)
	hello := len(s.out)
	if err := feed(c, s.out); err != nil {
		t.Fatal(err)
	}
	heard := c.out // greeting, nonce and proof of a client
	if err := feed(s, heard[:hello]); err != nil || len(s.out) != hello {
		t.Fatalf("%v, and the server says %d bytes more before the client has proved anything", err, len(s.out)-hello)
	}
	if err := feed(s, heard[hello:]); err != nil || len(s.out) != hello+proofBytes {
		t.Fatalf("%v, %d bytes", err, len(s.out))
	}
	if err := feed(end(true), heard); err != ErrSecret {
		t.Errorf("what a client said once is taken again: %v", err)
	}
	if err := feed(end(true), s.out); err != ErrSecret {
		t.Errorf("a server's own proof is taken for a client's: %v", err)
	}
}

// fdOfPair returns an end of a TCP connection.
func fdOfPair(t *testing.T) fd {
	t.Helper()
	l, err := listenOwnTCP(localhost(0), windowBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return callFrom(t, l, "127.0.0.1")
}

func TestSecretsFile(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good", "0123456789abcdef\n", 0o600)
	if b, err := readSecret(good); err != nil || string(b) != "0123456789abcdef" {
		t.Errorf("%q %v", b, err)
	}
	if b, err := readSecret(""); b != nil || err != nil {
		t.Errorf("no file: %q %v", b, err)
	}
	for what, path := range map[string]string{
		"readable by others": file("open", "0123456789abcdef", 0o644), "short": file("short", "012345678901234\n", 0o600),
		"long": file("long", string(make([]byte, 2000)), 0o600), "a directory": dir,
	} {
		if _, err := readSecret(path); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := readSecret(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
	for _, config := range []string{"s:127.0.0.1:7", "c:127.0.0.1:7"} {
		list, err := ParseEndpoints("secret=" + filepath.Join(dir, "none") + ":" + config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewOpener(list[0], windowBytes); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s without its secret opens: %v", config, err)
		}
	}
}
