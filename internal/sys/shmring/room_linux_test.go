// SPDX-License-Identifier: BSD-2-Clause

package shmring

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// idleListener is a Listener whose Serve the test calls.
func idleListener(t *testing.T, slot int) (l *Listener, arrived *[]*In) {
	t.Helper()
	self, err := NetNamespace(slot)
	if err != nil {
		t.Fatal(err)
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	arrived = new([]*In)
	l, err = Listen(filepath.Join(t.TempDir(), "ring"), self, event,
		func(in *In) { *arrived = append(*arrived, in) }, func(any) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, in := range *arrived {
			in.Close()
		}
		l.Close()
		unix.Close(event)
	})
	return l, arrived
}

// limited sets the limit of descriptors while f runs.
func limited(t *testing.T, most uint64, f func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: before.Max})
	if err != nil {
		t.Fatal(err)
	}
	f()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
}

// ready reports whether Serve has something to do.
func (l *Listener) ready() bool {
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(l.FD()), Events: unix.POLLIN}}, 0)
	return n > 0
}

// serve has the Listener do all that it has to do.
func (l *Listener) serve() {
	for l.ready() {
		l.Serve()
	}
}

// More processes than a fixed number have rings to one. (128 were the most.)
func TestManyRings(t *testing.T) {
	const most = 128
	var descriptors unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &descriptors); err != nil {
		t.Fatal(err)
	}
	// Here both ends have descriptors: half of all that a process may have.
	many := int(min(300, descriptors.Cur/descriptorShare))
	if many <= most {
		t.Skipf("the limit of %d descriptors allows only %d rings", descriptors.Cur, many)
	}
	l, arrived := idleListener(t, 2)
	self := l.self
	self.Slot = 1
	for i := range many {
		out, err := Dial(l.path, self, 2, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		if l.serve(); !out.Alive() || !out.Taken() {
			t.Fatalf("ring %d was not taken", i)
		}
	}
	if len(*arrived) != many {
		t.Errorf("%d rings arrived, want %d", len(*arrived), many)
	}
}

// Rings have at most half of the descriptors that the process may have. Other processes are turned
// away at once.
func TestRingsLeaveDescriptors(t *testing.T) {
	l, arrived := idleListener(t, 2)
	self := l.self
	self.Slot = 1
	fill := func(n int, c any) {
		for range n {
			l.conns[int32(-1-len(l.conns))] = c
		}
	}
	fill(20, &In{})
	fill(10, &Out{})
	for _, c := range []struct {
		limit   uint64
		in, out bool
	}{{126, true, true}, {125, false, true}, {66, false, true}, {65, false, false}} {
		limited(t, c.limit, func() {
			l.mu.Lock()
			in, out := l.roomLocked(false), l.roomLocked(true)
			l.mu.Unlock()
			if in != c.in || out != c.out {
				t.Errorf("20 rings in and 10 out, of %d descriptors: room in %v, out %v", c.limit, in, out)
			}
			if _, err := l.Dial("", 2, 0); (err == errFull) == c.out {
				t.Errorf("a ring out, with 10 of them and %d descriptors: %v", c.limit, err)
			}
		})
	}
	fill(maxRings, &In{})
	out, err := Dial(l.path, self, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if l.serve(); out.Alive() {
		t.Error("a ring too many waits for an answer")
	}
	clear(l.conns)
	out, err = Dial(l.path, self, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if l.serve(); len(*arrived) != 1 || !out.Alive() || !out.Taken() {
		t.Error("where rings have ended there is no room for another")
	}
}

// dialIdle dials l, which answers in Serve.
func dialIdle(t *testing.T, l *Listener) *Out {
	t.Helper()
	self := l.self
	self.Slot = 1
	out, err := Dial(l.path, self, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.Close)
	return out
}

// A process without a descriptor for a caller turns it away, and does not try again for ever. (The
// caller took it for one that was held up, and waited for as long as it lived.)
func TestCallersOfAProcessWithoutDescriptors(t *testing.T) {
	l, arrived := idleListener(t, 2)
	dial := func() *Out { return dialIdle(t, l) }
	callers := []*Out{dial(), dial()}
	free, err := unix.Dup(l.epoll)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(free)
	limited(t, uint64(free), func() { l.Serve() })
	for i, out := range callers {
		if out.Alive() {
			t.Errorf("caller %d waits for an answer", i)
		}
	}
	if l.ready() {
		t.Error("callers that were turned away are reported")
	}
	out := dial()
	if l.serve(); len(*arrived) != 1 || !out.Alive() || !out.Taken() {
		t.Error("with descriptors left the next caller gets no ring")
	}
}

// Another thread may take the spare descriptor before the callers are turned away. They get rings
// once there are descriptors. (The process was not found any more for as long as it lived.)
func TestCallersOutliveTheLossOfTheSpareDescriptor(t *testing.T) {
	l, arrived := idleListener(t, 2)
	callers := []*Out{dialIdle(t, l), dialIdle(t, l)}
	limited(t, uint64(l.epoll), func() { // numbers that are closed now are too high, too
		l.Serve()
		if l.ready() {
			t.Error("callers that wait for descriptors are reported again and again")
		}
	})
	callers = append(callers, dialIdle(t, l))
	l.serve()
	for i, out := range callers {
		if !out.Alive() || !out.Taken() {
			t.Errorf("caller %d has no ring", i)
		}
	}
	if len(*arrived) != len(callers) {
		t.Errorf("%d rings arrived, want %d", len(*arrived), len(callers))
	}
}

// The name of the process may have become another's meanwhile. Its descriptors are its own still.
// (It closed the listening socket, failed to make another, and went on with the old number.)
func TestListenerKeepsItsSocket(t *testing.T) {
	l, _ := idleListener(t, 2)
	fd, out := l.fd, dialIdle(t, l)
	if err := os.Remove(l.path); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(l.path, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	free, err := unix.Dup(l.epoll)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(free)
	limited(t, uint64(free), func() { l.Serve() })
	if out.Alive() {
		t.Error("the caller waits for an answer")
	}
	listens, err := unix.GetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if l.fd != fd || err != nil || listens != 1 {
		t.Errorf("descriptor %d, before %d, listens: %d, %v", l.fd, fd, listens, err)
	}
}
