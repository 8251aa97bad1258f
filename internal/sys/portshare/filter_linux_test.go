// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/sys/udp"
)

// arrived reads the datagrams that wait in a socket, and returns the low bits of their numbers.
func arrived(t *testing.T, s *udp.Socket) (low []int) {
	t.Helper()
	b := udp.NewRxBatch()
	for {
		n, err := s.ReadBatch(b)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return low
		}
		for i := range n {
			m := b.Message(i)
			for j := range m.Segments() {
				d := m.Segment(j)
				low = append(low, (int(d[6])<<8|int(d[7]))&(1<<SlotShift-1))
			}
		}
	}
}

// TestKernelDropsWhatIsForNobody has the set of one member change, and another's stay
// as it is. Loopback delivers before a send returns.
func TestKernelDropsWhatIsForNobody(t *testing.T) {
	n := newNetwork(t, 41)
	m, other := joinHere(t, n.dir), joinHere(t, n.dir)
	socket := func(m Member, addr netip.Addr) *udp.Socket {
		s, err := m.Socket(addr)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	mine, others := socket(m, n.a), socket(other, n.a)
	before := mine.Counters().KernelDropped
	want := func(what string, addr netip.Addr, s *udp.Socket, of Member, want ...int) {
		t.Helper()
		for _, low := range []ib.QPN{1000, 1001, 2000} {
			n.send(t, addr, datagram(ib.QPN(of.Slot())<<SlotShift|low, 0, "data"))
		}
		if got := arrived(t, s); !slices.Equal(got, want) {
			t.Errorf("%s: %v came, not %v", what, got, want)
		}
	}
	var set Numbers
	want("without a set", n.a, mine, m, 1000, 1001, 2000)
	m.Pass(&set)
	want("with an empty set", n.a, mine, m)
	set.Add(1001)
	want("before the set is passed", n.a, mine, m)
	m.Pass(&set)
	want("with one number", n.a, mine, m, 1001)
	want("at an address that was asked for later", n.b, socket(m, n.b), m, 1001)
	want("at the other member", n.a, others, other, 1000, 1001, 2000)
	if mine.Counters().KernelDropped != before+3+3+2 {
		t.Errorf("%d are counted as dropped, not 8", mine.Counters().KernelDropped-before)
	}
}

// TestSlotsNextOwnerHasItsOwnNumbers has a member end whose set the socket still has,
// and the next one in its slot, which knows nothing of it, receive.
func TestSlotsNextOwnerHasItsOwnNumbers(t *testing.T) {
	n := newNetwork(t, 43)
	first := joinHere(t, n.dir)
	if _, err := first.Socket(n.a); err != nil {
		t.Fatal(err)
	}
	var set Numbers
	set.Add(77)
	first.Pass(&set)
	slot := first.Slot()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	next := joinHere(t, n.dir)
	for next.Slot() != slot { // slots are given out in turn
		next.Close()
		next = joinHere(t, n.dir)
	}
	to := datagram(ib.QPN(slot)<<SlotShift|78, 0, "data")
	n.send(t, n.a, to) // before anybody is to read it
	s, err := next.Socket(n.a)
	if err != nil {
		t.Fatal(err)
	}
	if got := arrived(t, s); len(got) != 0 {
		t.Errorf("%v came before the socket was asked for", got)
	}
	n.send(t, n.a, to)
	if got := arrived(t, s); len(got) != 1 {
		t.Errorf("%v came, not one datagram", got)
	}
}

// TestKeeperDropsAreCounted has each member tell the datagrams that were dropped at the keeper's
// socket. A member that asks a stopped keeper is not held up.
func TestKeeperDropsAreCounted(t *testing.T) {
	n := newNetwork(t, 45)
	m, other := joinHere(t, n.dir), joinHere(t, n.dir)
	if err := m.Receive(n.a); err != nil {
		t.Fatal(err)
	}
	counts := func() [2]uint64 { return [2]uint64{m.KeeperDropped(), other.KeeperDropped()} }
	become := func(want uint64) { // an answer may be late
		t.Helper()
		until := time.Now().Add(time.Duration(patience))
		for p := (pause{}); counts() != [2]uint64{want, want}; p.wait() {
			if time.Now().After(until) {
				t.Fatalf("%v are counted, not %d", counts(), want)
			}
		}
	}
	become(0)

	for range 3 {
		n.send(t, n.a, datagram(0, 0, "data")) // no management datagram
	}
	become(3)
	keeper := n.keeper(t)
	unix.Kill(keeper, unix.SIGSTOP)
	defer unix.Kill(keeper, unix.SIGCONT)
	awaitStop(t, keeper)
	n.send(t, n.a, datagram(0, 0, "data"))
	begun := time.Now()
	const times = 100
	for range times {
		if got := counts(); got != [2]uint64{3, 3} {
			t.Errorf("%v are counted while the keeper is stopped", got)
		}
	}
	if d := time.Since(begun); d > times*askPatience {
		t.Errorf("a stopped keeper holds up each question: %d took %v", 2*times, d)
	}
	unix.Kill(keeper, unix.SIGCONT)
	become(4)
}

// awaitStop returns when all threads of a process have stopped. Until then one of them may do
// anything.
func awaitStop(t *testing.T, pid int) {
	t.Helper()
	running := func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("process %d: %v", pid, err)
		}
		return slices.ContainsFunc(threads, func(file string) bool {
			stat, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, state, _ := strings.Cut(string(stat), ") ") // behind the name
			return !strings.HasPrefix(state, "T")
		})
	}
	for p := (pause{}); running(); p.wait() {
	}
}
