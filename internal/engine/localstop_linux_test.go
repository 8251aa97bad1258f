// SPDX-License-Identifier: BSD-2-Clause

package engine

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
	n := meet(t, Options{})[0]
	var p *peerProcess
	var e *endpoint
	var peer remote
	until(t, "there are rings", func() bool { // a busy machine may answer too late once
		if p != nil {
			p.kill()
			e.Close()
		}
		var err error
		p, e = startPeer(t, n.dir), n.endpoint(killBytes)
		e.grant(survivor)
		if peer, err = p.meet(e); err != nil {
			t.Fatal(err)
		}
		return peer.Local && e.roce.ring != nil
	})
	defer e.Close()
	rnd := rand.New(rand.NewPCG(1, 2))
	done := 0
	write := func(what string, ok func() bool) {
		t.Helper()
		until(t, what, func() bool {
			e.writeTo(peer, rnd)
			n.eng.Poll()
			n.eng.Flush()
			var wc [64]ib.WC
			for _, c := range wc[:e.cq.Poll(wc[:])] {
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
		stopped, behind := time.Now(), n.counter("local_behind")
		write("the peer is waited for", func() bool {
			return time.Since(stopped) > 150*time.Millisecond && n.counter("local_behind") > behind
		})
		p.cmd.Process.Signal(syscall.SIGCONT)
		done = 100 * (round + 1)
	}
	write("writes are done", func() bool { return done > 1000 })
	e.notRepeated()
	e.judge(survivor, victim)

	p.pause(t) // so that there is work under way
	write("the queue is full", func() bool { return !e.writeTo(peer, rnd) })
	killed := time.Now()
	p.kill()
	wc := e.await()
	for wc.Status == ib.WCSuccess { // it had written more than was read
		wc = e.await()
	}
	if after := time.Since(killed); after < willPatience {
		t.Errorf("the queue pair failed %v after the kill: a DREQ may come for %v", after, willPatience)
	}
	if wc.Status != ib.WCRetryExcErr || wc.VendorErr != ib.VendorPeerGone {
		t.Errorf("the peer was killed: %v (%v)", wc.Status, wc.VendorErr)
	}
	e.Lock()
	if got := e.roce.packets.Counters()[roce.LocalACKTimeout]; got != 0 {
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
	a.roce.packets.Modify(monotime.Now(), &quick, ib.QPTimeout|ib.QPRetryCnt, nil)
	a.Unlock()
	b.Lock()
	b.roce.packets.Modify(monotime.Now(), &ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr, nil)
	b.Unlock()
	a.post(b, ib.WRRDMAWrite, 8)
	if wc := a.await(); wc.Status != ib.WCRetryExcErr || wc.VendorErr != ib.VendorSilent {
		t.Errorf("%v (%v)", wc.Status, wc.VendorErr)
	}
	a.Lock()
	defer a.Unlock()
	if got := a.roce.packets.Counters()[roce.LocalACKTimeout]; got != 2 {
		t.Errorf("%d time-outs", got)
	}
}
