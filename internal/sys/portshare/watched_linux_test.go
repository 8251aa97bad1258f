// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"verbena/ib"
)

// waitsInEpoll reports whether a thread of this process is in epoll_wait.
func waitsInEpoll(t *testing.T, thread int32) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", thread))
	if err != nil {
		t.Fatal(err)
	}
	number, _, _ := strings.Cut(string(b), " ")
	return number == fmt.Sprint(unix.SYS_EPOLL_PWAIT)
}

// awaitsFrames returns when a member's goroutine has read all frames and waits for others.
func awaitsFrames() {
	stacks := make([]byte, 1<<20)
	for {
		for _, s := range strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if strings.Contains(s, "(*member).follow(") && strings.Contains(s, "(*socket).wait(") &&
				strings.Contains(s, " [select") {
				return
			}
		}
		runtime.Gosched()
	}
}

// A thread that waits for a set of Watch reads management datagrams, and the kernel wakes none of
// the member's. The member reads where no thread waits: the last one left, was cancelled, or jumped
// out of its wait. A new keeper changes nothing.
func TestThreadThatWaitsReadsMADs(t *testing.T) {
	n := newNetwork(t, 60)
	var byThread, byMember atomic.Int32
	var reading atomic.Bool
	told := make(chan struct{}, 1)
	m, err := Join(n.dir, Options{MADRules: testRules(n.dir), OnMAD: func(MAD) {
		if reading.Load() {
			byThread.Add(1)
		} else {
			byMember.Add(1)
		}
	}, OnKeeper: func() { told <- struct{}{} }})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	awaitsFrames()
	if err := m.Receive(n.a); err != nil {
		t.Fatal(err)
	}
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(set)
	if err := m.Watch(set); err != nil {
		t.Fatal(err)
	}
	mad := datagram(ib.QP1, m.Slot(), "")
	waits := func() {
		t.Helper()
		awaitsFrames() // it would read the datagram while it reads others
		var thread atomic.Int32
		ended := make(chan error)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			thread.Store(int32(unix.Gettid()))
			_, err := unix.EpollWait(set, make([]unix.EpollEvent, 1), -1)
			reading.Store(true)
			m.Read()
			reading.Store(false)
			ended <- err
		}()
		for thread.Load() == 0 || !waitsInEpoll(t, thread.Load()) {
			runtime.Gosched()
		}
		want := byThread.Load() + 1
		n.send(t, n.a, mad)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if byThread.Load() != want {
			t.Fatalf("the thread that waits has read %d datagrams, want %d; the member has read %d",
				byThread.Load(), want, byMember.Load())
		}
	}
	away := func() {
		t.Helper()
		want := byMember.Load() + 1
		n.send(t, n.a, mad)
		for byMember.Load() < want {
			runtime.Gosched()
		}
	}
	for range 50 {
		waits()
		away()
	}
	p, err := os.FindProcess(n.keeper(t))
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	<-told
	for range 50 {
		waits()
		away()
	}
	m.Unwatch(set)
	away()
	if k, err := unix.EpollWait(set, make([]unix.EpollEvent, 1), 0); k != 0 || err != nil {
		t.Errorf("after Unwatch the set has %d events, %v", k, err)
	}
}

// readableLink returns a link, and opens a readable descriptor under the number that it had when
// the link has been closed.
func readableLink(t *testing.T, w *watch) (l *link, reuse func()) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[1]) })
	l, err = newLink(w, fds[0])
	if err != nil {
		t.Fatal(err)
	}
	return l, func() {
		other, err := unix.Eventfd(1, unix.EFD_CLOEXEC)
		if err == nil && other != fds[0] {
			err = unix.Dup3(other, fds[0], unix.O_CLOEXEC)
			unix.Close(other)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fds[0]) })
	}
}

// A thread that fails to send closes the link before the member follows it. The number of its
// descriptor may then be another's.
func TestClosedLinkIsNotWatched(t *testing.T) {
	w, err := newWatch()
	if err != nil {
		t.Fatal(err)
	}
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(set)
	l, reuse := readableLink(t, w)
	l.close()
	reuse()
	m := &member{vault: -1, watched: []int{set}}
	m.follow(l)
	if k, err := unix.EpollWait(set, make([]unix.EpollEvent, 1), 0); k != 0 || err != nil {
		t.Errorf("the set has another's descriptor: %d events, %v", k, err)
	}
	w.close()
}

// The caller closes a set that Watch has refused.
func TestRefusedSetIsNotWatched(t *testing.T) {
	w, err := newWatch()
	if err != nil {
		t.Fatal(err)
	}
	l, _ := readableLink(t, w)
	l.close()
	m := &member{vault: -1, role: following, link: l, watched: []int{1 << 20}}
	if err := m.Watch(1<<20 + 1); err == nil || len(m.watched) != 1 || m.watched[0] != 1<<20 {
		t.Errorf("Watch returned %v; the sets are %v", err, m.watched)
	}
	w.close()
}
