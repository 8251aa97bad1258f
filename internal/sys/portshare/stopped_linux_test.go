// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"fmt"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/udp"
)

// stop stops the child and returns when all of its threads have stopped. Until
// then one of them may do anything, even become keeper.
func (p *process) stop() {
	p.t.Helper()
	p.cmd.Process.Signal(syscall.SIGSTOP)
	var info unix.Siginfo
	err := error(unix.EINTR)
	for err == unix.EINTR {
		err = unix.Waitid(unix.P_PID, p.cmd.Process.Pid, &info, unix.WSTOPPED|unix.WNOWAIT, nil)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// A member that a debugger holds must not keep the others from their datagrams.
func TestStoppedMemberHoldsUpNobody(t *testing.T) {
	n := newNetwork(t, 21)
	ps := startMany(t, n.dir, 2)
	stopped, other := ps[0], ps[1] // it comes first: it would be the keeper, if a member were
	other.must("", "socket %v", n.a)
	stopped.must("", "socket %v", n.a)
	stopped.must("", "will 1 %v %v early", n.a, n.sender.LocalAddr())
	stopped.must("", "listen stopped")
	other.must("", "listen other")
	stopped.stop()
	// More than a unix socket and the backlog queue.
	n.burst(t, maxBacklog+1500, "stopped", other)
	n.send(t, n.a, datagram(1, 0, "other"))
	other.must("other", "mad")
	stopped.cmd.Process.Signal(syscall.SIGCONT)
	stopped.must("stopped/0", "mad") // from its queue
	stopped.must("", "listen again")
	stopped.must("0", "keepers") // it was not cut off, which costs a wait first
	// It is as good as before: its socket and its keys.
	n.flood(t, n.a, 100, stopped)
	stopped.must("0", "read %v 100", n.a)
	other.must("", "listen sync")
	if got := other.ask("listen stopped"); got == "" {
		t.Error("what a stopped member listens for is given away once it goes on")
	}
	if m, _ := n.sender.ReadBatch(udp.NewRxBatch()); m != 0 {
		t.Error("the will of a member that lives was sent")
	}
}

// TestMemberLearnsThatThereIsNoRoom has a member send more than a keeper that is stopped has room
// for. The datagrams that Send took are sent when the keeper goes on, and the member can send
// again.
func TestMemberLearnsThatThereIsNoRoom(t *testing.T) {
	n := newNetwork(t, 39)
	p := start(t, n.dir)
	p.must("", "receive %v", n.a)
	keeper := n.keeper(t)
	unix.Kill(keeper, unix.SIGSTOP)
	defer unix.Kill(keeper, unix.SIGCONT)
	taken := 0
	for ; ; taken++ {
		got := p.ask("send %v %v %d", n.a, n.sender.LocalAddr(), taken)
		if got == "error "+unix.EAGAIN.Error() {
			break
		}
		if got != "" || taken == 100_000 {
			t.Fatalf("datagram %d: %s", taken, got)
		}
	}
	unix.Kill(keeper, unix.SIGCONT)
	for i, got := range readTexts(t, n.sender, taken) {
		if got != fmt.Sprint(i) {
			t.Fatalf("datagram %d is %q", i, got)
		}
	}
	p.must("", "send %v %v last", n.a, n.sender.LocalAddr())
	if got := readTexts(t, n.sender, 1); got[0] != "last" {
		t.Errorf("%q came", got)
	}
}

// burst sends as many datagrams for the listener of key. They are numbered, and no more are under
// way than the keeper's UDP socket holds: other, which listens for "other", says that it has read
// them.
func (n *network) burst(t *testing.T, count int, key string, other *process) {
	t.Helper()
	for i := range count {
		n.send(t, n.a, datagram(1, 0, fmt.Sprintf("%s/%d", key, i)))
		if i%100 == 99 {
			n.send(t, n.a, datagram(1, 0, "other"))
			other.must("other", "mad")
		}
	}
}

// burstAt sends a burst to a member that is stopped, and has it go on.
func (n *network) burstAt(t *testing.T, slow, other *process) {
	t.Helper()
	slow.stop()
	n.burst(t, slowBurst, "slow", other)
	slow.cmd.Process.Signal(syscall.SIGCONT)
}

// slowBurst connections end at once: many more than a unix socket holds, and fewer than a backlog.
const slowBurst = 8000

// mustGetBurst reads it.
func (p *process) mustGetBurst() {
	p.t.Helper()
	for i := range slowBurst {
		p.must(fmt.Sprintf("slow/%d", i), "mad")
	}
}

// A member that is slower than a burst gets all of it, in order, and more afterwards. So
// it does if the keeper, which is a member, leaves then.
func TestBurstIsNotLost(t *testing.T) {
	t.Setenv(here, "1")
	n := newNetwork(t, 37)
	ps := startMany(t, n.dir, 3)
	keeper, others := keeperOf(t, ps)
	slow, other := others[0], others[1]
	keeper.must("", "socket %v", n.a)
	slow.must("", "listen slow")
	other.must("", "listen other")
	n.burstAt(t, slow, other)
	slow.mustGetBurst()
	n.burstAt(t, slow, other)
	keeper.must("", "close")
	slow.mustGetBurst()
}

// The backlog of a member is bounded, the rest is counted, and nothing waits for a link that has
// ended.
func TestBacklogIsBounded(t *testing.T) {
	for _, c := range []struct {
		name, bound  string
		bytes, waits int
	}{
		{"MADs", "number", 280, maxBacklog},
		{"long datagrams", "bytes", maxForwardBytes, maxBacklogBytes / maxForwardBytes},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := newWatch()
			if err != nil {
				t.Fatal(err)
			}
			defer w.close()
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fds[1])
			l, err := newLink(w, fds[0])
			if err != nil {
				t.Fatal(err)
			}
			defer l.close()
			l.room = func() {}
			k := &keeper{}
			const n = 2 * maxBacklog
			for range n {
				k.forward(l, MAD{Payload: make([]byte, c.bytes)})
			}
			sent := 0
			for buf := make([]byte, maxFrameBytes); ; sent++ {
				if _, _, err := unix.Recvfrom(fds[1], buf, unix.MSG_DONTWAIT); err != nil {
					break
				}
			}
			if waits := len(l.backlog.mads); waits != c.waits || sent == 0 || uint64(n-sent-waits) != k.lost.Load() {
				t.Errorf("%d sent, %d wait, %d counted as lost; want %d to wait, by the %s", sent, waits, k.lost.Load(), c.waits, c.bound)
			}
			l.close()
			if k.catchUp(); len(k.behind) != 0 || l.backlog.mads != nil {
				t.Error("datagrams wait for a link that has ended")
			}
		})
	}
}

// judge makes a keeper without members pass a datagram on, and reports its fate.
func judge(t *testing.T, lock lockFile, joined time.Time, d MAD, came time.Time) (kept, refused bool) {
	t.Helper()
	rules := testRules(t.TempDir())
	rules.Refuse = func(MAD, []byte) []byte { refused = true; return nil }
	k := &keeper{rules: rules, lock: lock, peers: map[int]*link{}, joined: joined, groups: map[netip.Addr]*group{d.Dst: {}}}
	k.passOn(d, came)
	return len(k.late) == 1, refused
}

// A datagram for a stopped member that has not come to the new keeper is not refused in that
// member's name, even late.
func TestNothingOfALivingMemberIsRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		owned bool
	}{{"its owner lives", true}, {"nobody owns it", false}} {
		t.Run(c.name, func(t *testing.T) {
			p, err := openDir(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			ours, err := openLock(p.lock)
			if err != nil {
				t.Fatal(err)
			}
			defer ours.close()
			stopped, err := openLock(p.lock)
			if err != nil {
				t.Fatal(err)
			}
			defer stopped.close()
			if c.owned && !stopped.try(byteOf(7)) {
				t.Fatal("the slot is taken")
			}
			d := MAD{Payload: datagram(1, 7, "")}
			if kept, refused := judge(t, ours, time.Time{}, d, time.Now()); kept != c.owned || refused == c.owned {
				t.Errorf("at once: kept %v, refused %v", kept, refused)
			}
			if kept, refused := judge(t, ours, time.Time{}, d, time.Now().Add(-reapPatience)); kept || refused == c.owned {
				t.Errorf("in the end: kept %v, refused %v", kept, refused)
			}
		})
	}
}

// A request that nobody listens for is refused in the end, although there are
// processes that have just come all the time.
func TestRequestIsRefusedWhileProcessesCome(t *testing.T) {
	d := MAD{Payload: datagram(1, 0, "nobody's")}
	if _, refused := judge(t, lockFile{}, time.Now().Add(time.Hour), d, time.Now().Add(-reapPatience)); !refused {
		t.Error("it waits")
	}
}

// A request for a key that somebody has listened for until a moment ago waits for longer.
func TestRequestWaitsForWhoListensAnew(t *testing.T) {
	rules := testRules(t.TempDir())
	rules.Refuse = nil
	k := &keeper{rules: rules, lately: map[string]time.Time{}, groups: map[netip.Addr]*group{{}: {}}}
	d, came := MAD{Payload: datagram(1, 0, "again")}, time.Now().Add(-2*listenPatience)
	if k.passOn(d, came); len(k.late) != 0 {
		t.Error("it waits for nobody")
	}
	k.endedLocked("again")
	if k.passOn(d, came); len(k.late) != 1 {
		t.Error("it does not wait")
	}
	k.late = nil
	if k.passOn(d, came.Add(-relistenPatience)); len(k.late) != 0 {
		t.Error("it waits for ever")
	}
}
