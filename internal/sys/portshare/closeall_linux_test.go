// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"verbena/internal/monotime"
	"verbena/internal/sys/fdtrack"
)

// runtimePollers counts the epoll descriptors of this process that are not ours.
func runtimePollers() (n int) {
	ours := map[string]bool{}
	fdtrack.Each(func(fd int) { ours[strconv.Itoa(fd)] = true })
	list, _ := os.ReadDir("/proc/self/fd")
	for _, e := range list {
		is, _ := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		if is == "anon_inode:[eventpoll]" && !ours[e.Name()] {
			n++
		}
	}
	return n
}

// A process that closes all its descriptors is out of the game and lives: the Go
// runtime, which would end it, has none that it misses.
func TestProcessThatClosesAllDescriptors(t *testing.T) { inBothPlaces(t, closeAllDescriptors) }

func closeAllDescriptors(t *testing.T) {
	n := newNetwork(t, 31)
	ps := startMany(t, n.dir, 3)
	for _, p := range ps {
		p.must("", "socket %v", n.a)
		p.must("", "listen key-%d", p.slot)
		p.must("", "will 1 %v %v will-%d", n.a, n.sender.LocalAddr(), p.slot)
	}
	// The first is the keeper, if a member is. It is the last to close: the other one would be
	// about to become the keeper.
	gone, stays := []*process{ps[1], ps[0]}, ps[2]
	for _, p := range gone {
		p.must("0", "pollers")
		p.must("", "closeall")
	}
	// Both are gone for the third: their ports are free.
	for _, p := range gone {
		for until := monotime.Now().Add(patience); stays.ask("listen key-%d", p.slot) != ""; {
			if until.Before(monotime.Now()) {
				t.Fatalf("slot %d is listened for still", p.slot)
			}
		}
	}
	n.flood(t, n.a, 100, stays)
	stays.must("0", "read %v 100", n.a)
	for _, p := range gone {
		if got := p.ask("will 2 %v %v late", n.a, n.sender.LocalAddr()); got == "" {
			t.Errorf("slot %d: a will is taken", p.slot)
		}
		if got := p.ask("pending %v", n.a); got == "" {
			t.Errorf("slot %d: its socket is read", p.slot)
		}
		if got := p.ask("close"); got == "" {
			t.Errorf("slot %d: it is closed in order", p.slot)
		}
	}
	start(t, n.dir).must("", "listen another")
}
