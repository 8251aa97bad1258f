// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"verbena/ib"
)

// limitVariable is the limit of open files, soft and hard, that a child gives itself.
const limitVariable = "VERBENA_SHARE_LIMIT"

func limitSelf() {
	if n, err := strconv.ParseUint(os.Getenv(limitVariable), 10, 64); err == nil {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			panic(err)
		}
	}
}

// many returns addresses that only this test uses.
func (n *network) many(count int) (all []netip.Addr) {
	at := n.a.As4()
	for i := range count {
		all = append(all, netip.AddrFrom4([4]byte{127, at[1] ^ 0x20, at[2], byte(100 + i)}))
	}
	return all
}

// openIn counts the descriptors of a process.
func openIn(t *testing.T, pid int) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestDescriptorsAreThoseInUse has a process listen at many addresses and use a few. It has a
// socket of each address that it uses. The keeper has one of each address and one of each that a
// process uses there.
func TestDescriptorsAreThoseInUse(t *testing.T) {
	n := newNetwork(t, 41)
	p, q := start(t, n.dir), start(t, n.dir)
	p.must("", "receive %v", n.a)
	keeper := n.keeper(t)
	has := func(what string, p int, before, more int) {
		t.Helper()
		if got := openIn(t, p); got != before+more {
			t.Errorf("%s: %d descriptors, %d before, want %d more", what, got, before, more)
		}
	}
	keeperHas, pHas, qHas := openIn(t, keeper), openIn(t, p.cmd.Process.Pid), openIn(t, q.cmd.Process.Pid)
	all := n.many(23)
	for range 2 {
		for _, a := range all {
			p.must("", "receive %v", a)
		}
	}
	has("a listener at 23 addresses", p.cmd.Process.Pid, pHas, 0)
	has("its keeper", keeper, keeperHas, 23)
	for _, a := range all[:3] {
		p.must("", "socket %v", a)
	}
	q.must("", "socket %v", all[0])
	has("with sockets at 3 addresses", p.cmd.Process.Pid, pHas, 3)
	has("one at an address", q.cmd.Process.Pid, qHas, 1)
	has("the keeper of both", keeper, keeperHas, 23+4)

	// Requests to an address without a socket of its own arrive, and are answered.
	p.must("", "listen rping")
	n.send(t, all[22], datagram(1, 0, "rping"))
	p.must("rping", "mad")
	p.must("", "send %v %v answer", all[22], n.sender.LocalAddr())
	if got := readTexts(t, n.sender, 1); got[0] != "answer" {
		t.Errorf("%q was sent", got[0])
	}
}

// TestFewDescriptors runs keeper and members under a limit of 256 descriptors: a listener at 23
// addresses and 60 processes work. A process too many learns which limit it met, and takes nothing
// from the others.
func TestFewDescriptors(t *testing.T) {
	t.Setenv(limitVariable, "256")
	n := newNetwork(t, 43)
	listener := start(t, n.dir)
	for _, a := range n.many(23) {
		listener.must("", "receive %v", a)
	}
	var ps []*process
	for range 60 {
		p := start(t, n.dir)
		p.must("", "socket %v", n.a)
		ps = append(ps, p)
	}
	n.flood(t, n.a, 2, ps...)
	for _, p := range ps {
		p.must("0", "read %v 2", n.a)
	}
	full := ""
	for i := 0; full == "" && i < 10; i++ {
		for _, a := range n.many(40)[23:] {
			if got := ps[i].ask("socket %v", a); got != "" {
				full = got
				break
			}
		}
	}
	for _, word := range []string{"61 processes", "256", "ulimit -Hn"} {
		if !strings.Contains(full, word) {
			t.Errorf("the keeper has no descriptor left, and says %q without %q", full, word)
		}
	}
	n.flood(t, n.a, 2, ps...)
	for _, p := range ps {
		p.must("0", "read %v 2", n.a)
	}
	// No descriptor is left for the next process's connection, or its socket.
	for range 5 {
		if _, line := begin(t, n.dir); !strings.HasPrefix(line, "slot") {
			if !strings.Contains(line, "ulimit -Hn") {
				t.Errorf("a process that cannot join says %q", line)
			}
			return
		}
	}
	t.Error("the keeper of 256 descriptors takes any number of processes")
}

// TestNewKeeperOfMany has a keeper killed that has more sockets than a box of its vault: the
// next one has them all, in their places.
func TestNewKeeperOfMany(t *testing.T) {
	n := newNetwork(t, 45)
	var ps []*process
	for range 8 {
		ps = append(ps, start(t, n.dir))
	}
	all := n.many(boxSockets/8 + 2)
	for _, a := range all {
		for _, p := range ps {
			p.must("", "socket %v", a)
		}
	}
	n.killKeeper(t, nil)
	for _, p := range ps {
		p.must("", "told")
	}
	newcomer := start(t, n.dir)
	ps = append(ps, newcomer)
	for _, a := range all {
		newcomer.must("0", "pending %v", a)
		n.flood(t, a, 2, ps...)
		for _, p := range ps {
			p.must("0", "read %v 2", a)
		}
	}
}

// TestSteeringInTheKernel steers to slots that were given out in any order, and to none that
// was not.
func TestSteeringInTheKernel(t *testing.T) {
	n := newNetwork(t, 47)
	var ps []*process
	for range 20 {
		p := start(t, n.dir)
		if len(ps)%3 != 0 {
			p.must("", "socket %v", n.a)
		}
		ps = append(ps, p)
	}
	for _, p := range slices.Backward(ps) { // the rest, against the order of slots
		p.must("", "socket %v", n.a)
	}
	n.flood(t, n.a, 5, ps...)
	for _, p := range ps {
		p.must("0", "read %v 5", n.a)
	}
	n.send(t, n.a, datagram(ib.QPN(Slots-1)<<SlotShift|5, 0, "nobody's"))
	for _, p := range ps {
		p.must("0", "pending %v", n.a)
	}
}
