// SPDX-License-Identifier: BSD-2-Clause

package xrcfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// collector is a handler that passes on what comes.
type collector struct {
	messages chan string
	ended    chan struct{}
	once     sync.Once // processes that only look make links too
}

func newCollector() *collector {
	return &collector{messages: make(chan string, 16), ended: make(chan struct{})}
}

func (c *collector) Message(b []byte) { c.messages <- string(b) }
func (c *collector) End()             { c.once.Do(func() { close(c.ended) }) }

func (c *collector) wantEnd(t *testing.T) {
	t.Helper()
	select {
	case <-c.ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the link does not end")
	}
}

func (c *collector) want(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-c.messages:
		if got != want {
			t.Fatalf("message %q, want %q", got, want)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("no message %q", want)
	}
}

// street is a directory where processes meet, and a domain's file.
type street struct {
	t    *testing.T
	dir  string
	file *os.File
}

func newStreet(t *testing.T) *street {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "domain"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &street{t, t.TempDir(), f}
}

func (s *street) options(slot int, callers chan *Link, h *collector) Options {
	return Options{Path: func(slot int) string { return filepath.Join(s.dir, fmt.Sprintf("ring512-1-%d", slot)) },
		Slot: slot, File: s.file, Device: "roce_lo", Create: true,
		Accept: func(l *Link) Handler {
			callers <- l
			return h
		}}
}

// enter enters the domain, in the place of the process of a slot.
func (s *street) enter(slot int) (p *Place, callers chan *Link, h *collector) {
	s.t.Helper()
	callers, h = make(chan *Link, 16), newCollector()
	p, err := Enter(s.options(slot, callers, h))
	if err != nil {
		s.t.Fatal(err)
	}
	return p, callers, h
}

// meet has the process of slot 3 make a link to that of slot 4, and send a message.
func (s *street) meet() (a *Place, atA *collector, l *Link, b *Place, callers chan *Link, atB *collector) {
	s.t.Helper()
	a, _, _ = s.enter(3)
	b, callers, atB = s.enter(4)
	atA = newCollector()
	l, err := a.Dial(4, atA, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := l.Send([]byte("hello")); err != nil {
		s.t.Fatal(err)
	}
	atB.want(s.t, "hello")
	return a, atA, l, b, callers, atB
}

func TestLink(t *testing.T) {
	s := newStreet(t)
	a, atA, l, b, callers, atB := s.meet()
	if err := (<-callers).Send([]byte("and to you")); err != nil {
		t.Fatal(err)
	}
	atA.want(t, "and to you")
	l.Close()
	atA.wantEnd(t)
	atB.wantEnd(t)
	if l.Send([]byte("too late")) == nil {
		t.Error("a closed link takes a message")
	}
	if _, err := a.Dial(5, newCollector(), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("to nobody: %v", err)
	}
	b.Close()
	a.Close()
	if names, _ := filepath.Glob(filepath.Join(s.dir, "ring*")); len(names) > 0 {
		t.Errorf("left: %v", names)
	}
	if a.Go(func() { t.Error("called") }) {
		t.Error("Go after Close")
	}
}

// TestEnd: the other process closes its place, and a handler waits for that.
func TestEnd(t *testing.T) {
	s := newStreet(t)
	a, atA, _, b, _, atB := s.meet()
	a.Go(func() { <-atA.ended }) // Close waits for it
	b.Close()
	atB.wantEnd(t)
	atA.wantEnd(t)
	a.Close()
}

// TestFlags: a domain exists while a process is in it. The socket of a process that was killed is
// none.
func TestFlags(t *testing.T) {
	s := newStreet(t)
	enter := func(slot int, change func(*Options)) error {
		o := s.options(slot, make(chan *Link, 16), newCollector())
		change(&o)
		p, err := Enter(o)
		if err == nil {
			p.Close()
		}
		return err
	}
	existing := func(o *Options) { o.Create = false }
	alone := func(o *Options) { o.Exclusive = true }
	if err := enter(1, existing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such domain: %v", err)
	}
	p, _, _ := s.enter(1)
	if err := enter(2, alone); !errors.Is(err, fs.ErrExist) {
		t.Errorf("there is one: %v", err)
	}
	if err := enter(2, existing); err != nil {
		t.Error(err)
	}
	if err := enter(2, func(o *Options) { o.Exclusive, o.Device = true, "roce_eth0" }); err != nil {
		t.Errorf("of another device: %v", err)
	}
	path := p.path
	p.Close()

	// A killed process leaves a name that nobody listens at.
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	if err := enter(2, existing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the process was killed: %v", err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("its socket was not removed")
	}
	if err := enter(1, alone); err != nil {
		t.Error(err)
	}
}

func TestEnterFails(t *testing.T) {
	s := newStreet(t)
	before := descriptors(t)
	o := s.options(1, nil, nil)
	o.Path = func(slot int) string { return filepath.Join(s.dir, strings.Repeat("x", 200), fmt.Sprint(slot)) }
	if _, err := Enter(o); err == nil {
		t.Error("no error")
	}
	o.Path = func(slot int) string { return filepath.Join(s.dir, strings.Repeat("x", 120)+fmt.Sprint(slot)) }
	if _, err := Enter(o); err == nil {
		t.Error("no error for a name that is too long")
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestEnterAnew: a process enters a domain while another thread of it leaves the domain.
func TestEnterAnew(t *testing.T) {
	s := newStreet(t)
	before, _, _ := s.enter(3)
	after, _, _ := s.enter(3)
	before.Close()
	other, _, _ := s.enter(4)
	l, err := other.Dial(3, newCollector(), nil)
	if err != nil {
		t.Errorf("the domain entered last is not found: %v", err)
	} else {
		l.Close()
	}
	other.Close()
	after.Close()
	if names, _ := filepath.Glob(filepath.Join(s.dir, "ring*")); len(names) > 0 {
		t.Errorf("left: %v", names)
	}
}

// TestTooManyLinks: a link that a place does not take keeps no descriptor.
func TestTooManyLinks(t *testing.T) {
	s := newStreet(t)
	a, _, looked := s.enter(3)
	b, _, atB := s.enter(4)
	looked.wantEnd(t) // b looked who is there
	b.mu.Lock()
	for i := range int32(maxLinks) {
		b.links[-1-i] = nil
	}
	b.mu.Unlock()
	before := descriptors(t)
	atA := newCollector()
	if _, err := a.Dial(4, atA, nil); err != nil {
		t.Fatal(err)
	}
	atA.wantEnd(t)
	atB.wantEnd(t)
	if n := descriptors(t); n != before {
		t.Errorf("%d descriptors, %d before", n, before)
	}
	b.mu.Lock()
	clear(b.links)
	b.mu.Unlock()
	b.Close()
	a.Close()
}

// TestDirectoryOfAnyName: the name of the directory where processes meet is no pattern.
func TestDirectoryOfAnyName(t *testing.T) {
	s := newStreet(t)
	s.dir = filepath.Join(s.dir, "run[1-2]*?")
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p, _, _ := s.enter(1)
	defer p.Close()
	o := s.options(2, nil, nil)
	o.Exclusive = true
	if other, err := Enter(o); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the domain of another process is not found: %v", err)
		other.Close()
	}
}

// TestDialTriesAgain: the other process has links to accept first, or this one has no descriptor.
func TestDialTriesAgain(t *testing.T) {
	s := newStreet(t)
	a, _, _ := s.enter(3)
	defer a.Close()
	busy, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(busy)
	path := a.options.Path(4) + a.suffix
	if err := errors.Join(unix.Bind(busy, &unix.SockaddrUnix{Name: path}), unix.Listen(busy, 0)); err != nil {
		t.Fatal(err)
	}
	accept := func() {
		fd, _, err := unix.Accept4(busy, unix.SOCK_CLOEXEC)
		if err != nil {
			t.Error(err)
			return
		}
		unix.Close(fd)
	}
	// dial makes a link. It fails before change is called, if ever it is, and not after.
	dial := func(why string, change func()) {
		t.Helper()
		asked := 0
		h := newCollector()
		_, err := a.Dial(4, h, func() bool {
			if asked++; asked == 1 {
				change()
			}
			return true
		})
		if err != nil || asked != 1 {
			t.Fatalf("%s: asked %d times, %v", why, asked, err)
		}
		accept()
		h.wantEnd(t)
	}

	first, err := connect(path)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(first)
	if _, err := a.Dial(4, newCollector(), func() bool { return false }); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("not wanted any more: %v", err)
	}
	dial("a full queue", accept)

	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}
	defer restore()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	dial("no descriptor", restore)
}
