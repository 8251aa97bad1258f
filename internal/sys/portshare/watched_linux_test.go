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
