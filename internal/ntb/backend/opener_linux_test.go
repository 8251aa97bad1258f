// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func newOpener(t *testing.T, s string) *Opener {
	t.Helper()
	list, err := ParseEndpoints(s)
	if err != nil {
		t.Fatal(err)
	}
	o, err := NewOpener(list[0], windowBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	return o
}

// A goroutine that waits for a peer can be stopped, whatever it waits for.
func TestCancel(t *testing.T) {
	listen := func(backlog int) (at string, accept func()) {
		at = freePort(t)
		family, sa := address(netip.MustParseAddrPort(at))
		f, err := socket(family, unix.SOCK_STREAM)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.close)
		if err := errors.Join(unix.Bind(int(f), sa), unix.Listen(int(f), backlog)); err != nil {
			t.Fatal(err)
		}
		return at, func() {
			if err := await(f, unix.POLLIN, none, patience); err != nil {
				t.Error(err)
			}
		}
	}
	connectTo := func(at string) error {
		family, sa := address(netip.MustParseAddrPort(at))
		f, err := connect(family, unix.SOCK_STREAM, sa, none, 100*time.Millisecond)
		if err == nil {
			t.Cleanup(f.close)
		}
		return err
	}
	for name, begin := range map[string]func() (where string, waits func()){
		"nobody comes": func() (string, func()) { return "s:" + freePort(t), func() {} },
		"who came says nothing": func() (string, func()) {
			at := freePort(t)
			return "s:" + at, func() {
				if err := connectTo(at); err != nil {
					t.Error(err)
				}
			}
		},
		"who was called says nothing": func() (string, func()) {
			at, accept := listen(4)
			return "c:" + at, accept
		},
		"who is called does not answer": func() (string, func()) {
			at, _ := listen(0)
			for connectTo(at) == nil { // until there is no room for one more
			}
			return "c:" + at, func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			where, waits := begin()
			o := newOpener(t, where)
			done := make(chan error)
			go func() {
				_, err := o.Open(time.Hour)
				o.Pause(time.Hour)
				done <- err
			}()
			waits()
			from := time.Now()
			o.Cancel()
			if err := <-done; err != ErrTimeout {
				t.Errorf("a wait that was cancelled ends with %v", err)
			}
			if d := time.Since(from); d > greetingTime/2 {
				t.Errorf("it ends after %v", d)
			}
		})
	}
}

// The error says how much the file lacks.
func TestFileTooShort(t *testing.T) {
	at := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(at, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := NewOpener(Endpoint{Kind: Mapped, Path: at}, windowBytes)
	if want := at + ", shared by halves"; !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q in it", err, want)
	}
}

// An opener leaves no descriptor behind.
func TestOpenerCloses(t *testing.T) {
	dir := t.TempDir()
	lowest := func() int {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		return fd
	}
	before := lowest()
	for range 3 {
		for _, s := range []string{"s:" + freePort(t), "c:" + freePort(t), "s:127.0.0.1:7", "map:0:" + filepath.Join(dir, "none")} {
			list, err := ParseEndpoints(s)
			if err != nil {
				t.Fatal(err)
			}
			if o, err := NewOpener(list[0], windowBytes); err == nil {
				o.Close()
			}
		}
	}
	if after := lowest(); after != before {
		t.Errorf("the lowest descriptor that is free was %d and is %d", before, after)
	}
}
