// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/sys/udp"
)

// joinHere makes this process a member; several times, if need be.
func joinHere(t *testing.T, dir string) Member {
	t.Helper()
	m, err := Join(dir, Options{MADRules: testRules(dir), OnMAD: func(MAD) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// A kernel rxe, another user or another program: something that does not share.
func TestPortTakenBySomebodyElse(t *testing.T) {
	n, other := newNetwork(t, 11), newNetwork(t, 13)
	foreign, err := udp.Listen(n.a, Port, udp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	m := joinHere(t, n.dir)
	second := joinHere(t, n.dir)
	for _, m := range []Member{m, second} {
		_, err = m.Socket(n.a)
		var pe *PortError
		if !errors.As(err, &pe) || !errors.Is(err, syscall.EADDRINUSE) || pe.Addr != n.a {
			t.Fatalf("port taken by another program: %v", err)
		}
		for _, word := range []string{"4791", n.a.String(), "rdma_rxe", "ss -uanp"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("error does not mention %q: %v", word, err)
			}
		}
		if _, err := m.Socket(netip.MustParseAddr("192.0.2.77")); !errors.Is(err, syscall.EADDRNOTAVAIL) {
			t.Errorf("address that is not ours: %v", err)
		}
		// The member is none the worse for it.
		if _, err := m.Socket(n.b); err != nil {
			t.Error(err)
		}
	}
	// Ours, but meeting elsewhere: it must not mix with the group.
	stranger := joinHere(t, other.dir)
	if _, err := stranger.Socket(n.b); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("port shared by a group that meets elsewhere: %v", err)
	}
}

func TestDirectoryMustBeOurs(t *testing.T) {
	base := t.TempDir()
	plain, link, open := filepath.Join(base, "file"), filepath.Join(base, "link"), filepath.Join(base, "open")
	if err := errors.Join(os.WriteFile(plain, nil, 0o600), os.Symlink(base, link), os.Mkdir(open, 0o777), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	o := Options{MADRules: testRules(base), OnMAD: func(MAD) {}}
	for dir, want := range map[string]string{
		plain:                           "is not a directory of user",
		link:                            "is not a directory of user",
		open:                            "may be written by others",
		filepath.Join(base, "no/such"):  "no such file",
		base + strings.Repeat("/d", 60): "no such file",
	} {
		if m, err := Join(dir, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Join(%s): %v, want %q", dir, err, want)
			if m != nil {
				m.Close()
			}
		}
	}
	long := filepath.Join(base, strings.Repeat("d", 100))
	if _, err := Join(long, o); err == nil || !strings.Contains(err.Error(), "use a shorter directory") {
		t.Errorf("directory too long for a socket: %v", err)
	}
	if _, err := Join(base, Options{}); err == nil {
		t.Error("Join without MADRules.Route and OnMAD is not refused")
	}
}

func TestAllSlotsTaken(t *testing.T) {
	n := newNetwork(t, 15)
	seen := map[int]bool{}
	var last Member
	for range Slots {
		last = joinHere(t, n.dir)
		lo, hi := last.QPNRange()
		if s := last.Slot(); s < 0 || s >= Slots || seen[s] || SlotOf(lo) != s || SlotOf(hi) != s || hi == ib.QPMulticast {
			t.Fatalf("slot %d: taken before %v, queue pairs %v to %v", s, seen[s], lo, hi)
		}
		seen[last.Slot()] = true
	}
	o := Options{MADRules: testRules(n.dir), OnMAD: func(MAD) {}}
	if _, err := Join(n.dir, o); !errors.Is(err, errNoSlot) {
		t.Fatalf("one member too many: %v", err)
	}
	free := last.Slot()
	last.Close()
	if m := joinHere(t, n.dir); m.Slot() != free {
		t.Errorf("got slot %d, the free one is %d", m.Slot(), free)
	}
}

// Members that all come and go at once meet in one group.
func TestJoinAndLeaveAtOnce(t *testing.T) { inBothPlaces(t, joinAndLeaveAtOnce) }

func joinAndLeaveAtOnce(t *testing.T) {
	n := newNetwork(t, 17)
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 4 {
				m, err := Join(n.dir, Options{MADRules: testRules(n.dir), OnMAD: func(MAD) {}})
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := m.Socket(n.a); err != nil {
					t.Errorf("member %d: %v", i, err)
				}
				if err := m.Listen(fmt.Sprint(i)); err != nil {
					t.Errorf("member %d: %v", i, err)
				}
				if err := m.Close(); err != nil {
					t.Errorf("member %d: %v", i, err)
				}
				if err := m.Close(); !errors.Is(err, errClosed) {
					t.Errorf("member %d closed twice: %v", i, err)
				}
			}
		}()
	}
	wg.Wait()
}

func TestCloseLeavesNothing(t *testing.T) { inBothPlaces(t, closeLeavesNothing) }

func closeLeavesNothing(t *testing.T) {
	n := newNetwork(t, 19)
	cycle := func() {
		a, b := joinHere(t, n.dir), joinHere(t, n.dir)
		for _, m := range []Member{a, b} {
			if _, err := m.Socket(n.a); err != nil {
				t.Fatal(err)
			}
			if err := m.SetWill(1, Will{Local: n.a, Dst: netip.AddrPortFrom(n.a, 9), Datagram: []byte("x")}); err != nil {
				t.Fatal(err)
			}
		}
		a.Close()
		b.Close()
	}
	cycle()
	files, goroutines := openFiles(t), runtime.NumGoroutine()
	for range 3 {
		cycle()
	}
	if got := openFiles(t); got != files {
		t.Errorf("%d files are open, %d before", got, files)
	}
	// A goroutine that has said it is done is counted until it has returned.
	for until := monotime.Now().Add(patience); runtime.NumGoroutine() > goroutines; runtime.Gosched() {
		if until.Before(monotime.Now()) {
			t.Fatalf("%d goroutines run, %d before", runtime.NumGoroutine(), goroutines)
		}
	}
	awaitEmpty(t, n.dir)
}

func openFiles(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}
