package bridge

import (
	"path/filepath"
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

// Who waits for a peer can be told to stop.
func TestCancel(t *testing.T) {
	o := newOpener(t, "s:"+freePort(t))
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
