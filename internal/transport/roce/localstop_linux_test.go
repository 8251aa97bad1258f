// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/testkit/rig"
)

// pause stops the process and returns when it has stopped.
func (p *peerProcess) pause(t *testing.T) {
	t.Helper()
	p.cmd.Process.Signal(syscall.SIGSTOP)
	var info unix.Siginfo
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = unix.Waitid(unix.P_PID, p.cmd.Process.Pid, &info, unix.WSTOPPED|unix.WNOWAIT, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A process that is stopped in the middle of transfers both ways, for several times as
// long as all retries would take, keeps its connection: nothing is sent twice. When it
// is killed its peer learns of that at once.
func TestPeerIsStopped(t *testing.T) {
	n := meet(t, how{})[0]
	var p *peerProcess
	var e *endpoint
	var peer remote
	rig.Until(t, "there are rings", func() bool { // a busy machine may answer too late once
		if p != nil {
			p.kill()
			e.Close()
		}
		var err error
		p, e = startPeer(t, n.Dir), newEndpoint(n, killBytes)
		grant(e, survivor)
		if peer, err = p.meet(e); err != nil {
			t.Fatal(err)
		}
		return peer.Local && connOf(e).ring != nil
	})
	defer e.Close()
	rnd := rand.New(rand.NewPCG(1, 2))
	done := 0
	write := func(what string, ok func() bool) {
		t.Helper()
		rig.Until(t, what, func() bool {
			writeTo(e, peer, rnd)
			n.Eng.FirstLane().Poll()
			n.Eng.Flush()
			var wc [64]ib.WC
			for _, c := range wc[:e.CQ.Poll(wc[:])] {
				if c.Status != ib.WCSuccess {
					t.Fatal(c.Err())
				}
				done++
			}
			return ok()
		})
	}
	for round := range 3 {
		write("writes are done", func() bool { return done > 100*(round+1) })
		p.pause(t)
		// Timeout 10 and RetryCnt 2: 3 × 4 × 4.2 ms.
		stopped, behind := time.Now(), n.Counter("local_behind")
		write("the peer is waited for", func() bool {
			return time.Since(stopped) > 150*time.Millisecond && n.Counter("local_behind") > behind
		})
		p.cmd.Process.Signal(syscall.SIGCONT)
		done = 100 * (round + 1)
	}
	write("writes are done", func() bool { return done > 1000 })
	notRepeated(e)
	judge(e, survivor, victim)

	p.pause(t) // so that there is work under way
	write("the queue is full", func() bool { return !writeTo(e, peer, rnd) })
	killed := time.Now()
	p.kill()
	wc := e.Await()
	for wc.Status == ib.WCSuccess { // it had written more than was read
		wc = e.Await()
	}
	if after := time.Since(killed); after < willTimeout {
		t.Errorf("the queue pair failed %v after the kill: a DREQ may come for %v", after, willTimeout)
	}
	if wc.Status != ib.WCRetryExcErr || wc.VendorErr != ib.VendorPeerGone {
		t.Errorf("the peer was killed: %v (%v)", wc.Status, wc.VendorErr)
	}
	e.Lock()
	if got := connOf(e).packets.Counters()[roce.LocalACKTimeout]; got != 0 {
		t.Errorf("%d time-outs", got)
	}
	e.Unlock()
}

// A queue pair that does not answer, of a process that lives, is found out by the
// protocol's time-outs.
func TestQueuePairIsSilent(t *testing.T) {
	a, b := localPair(t, 4096)
	quick := ib.QPAttr{Timeout: 8, RetryCnt: 1}
	a.Lock()
	connOf(a).packets.Modify(monotime.Now(), &quick, ib.QPTimeout|ib.QPRetryCnt, nil)
	a.Unlock()
	b.Lock()
	connOf(b).packets.Modify(monotime.Now(), &ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr, nil)
	b.Unlock()
	a.Post(b, ib.WRRDMAWrite, 8)
	if wc := a.Await(); wc.Status != ib.WCRetryExcErr || wc.VendorErr != ib.VendorSilent {
		t.Errorf("%v (%v)", wc.Status, wc.VendorErr)
	}
	a.Lock()
	defer a.Unlock()
	if got := connOf(a).packets.Counters()[roce.LocalACKTimeout]; got != 2 {
		t.Errorf("%d time-outs", got)
	}
}
