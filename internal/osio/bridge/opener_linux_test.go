package bridge

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/ntb/channel"
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

// Two who are configured alike meet, a third is told that it is one too many, and
// whoever is left finds the next.
func TestMeet(t *testing.T) {
	where := "shm:" + filepath.Join(t.TempDir(), "link")
	list, err := ParseEndpoints(where)
	if err != nil {
		t.Fatal(err)
	}
	if side, ok := Free(list[0]); side != 0 || !ok {
		t.Errorf("who would come first gets side %d %v", side, ok)
	}
	first, second := newOpener(t, where), newOpener(t, where)
	if first.Side() != 0 || second.Side() != 1 {
		t.Fatalf("sides %d and %d", first.Side(), second.Side())
	}
	if _, err := NewOpener(list[0], windowBytes); !errors.Is(err, ErrInUse) {
		t.Errorf("a third: %v", err)
	}
	if _, ok := Free(list[0]); ok {
		t.Error("a side is said to be free")
	}
	meet(t, first, second)
	first.Close()
	if side, ok := Free(list[0]); side != 0 || !ok {
		t.Errorf("after the first has left side %d %v is free", side, ok)
	}
	if _, err := second.Open(time.Second); err != ErrLost {
		t.Errorf("nobody is there: %v", err)
	}
	next := newOpener(t, where)
	meet(t, next, second)
}

// meet has two openers open a link, and write over it both ways.
func meet(t *testing.T, a, b *Opener) {
	t.Helper()
	links := make([]Link, 2)
	done := make(chan error)
	go func() {
		var err error
		links[0], err = a.Open(10 * time.Second)
		done <- err
	}()
	var err error
	links[1], err = b.Open(10 * time.Second)
	if err := errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	for i, l := range links {
		o := []*Opener{a, b}[1-i]
		before := o.Own().Load8(8192)
		batch := channel.NewBatch()
		batch.Word8(8192, before+1)
		if err := l.Write(batch); err != nil {
			t.Fatal(err)
		}
		if err := links[1-i].Receive(); err != nil {
			t.Fatal(err)
		}
		if got := o.Own().Load8(8192); got != before+1 {
			t.Errorf("side %d wrote %d, the other finds %d", i, before+1, got)
		}
	}
	for _, l := range links {
		l.Close()
	}
	a.Own().Store8(8192, 5) // is there without a link, too
}

// Who waits for a peer can be told to stop.
func TestCancel(t *testing.T) {
	o := newOpener(t, "shm:s:"+filepath.Join(t.TempDir(), "link"))
	done := make(chan error)
	go func() {
		_, err := o.Open(time.Hour)
		o.Pause(time.Hour)
		done <- err
	}()
	o.Cancel()
	if err := <-done; err != ErrTimeout {
		t.Errorf("a wait that was cancelled ends with %v", err)
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
		for _, s := range []string{"shm:" + filepath.Join(dir, "a"), "shm:c:" + filepath.Join(dir, "b"), "s:127.0.0.1:" + "7"} {
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
