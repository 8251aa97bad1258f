// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/roce/uc"
	"verbena/internal/sys/shmring"
)

// sleepy is a machine whose ring's reader sleeps before each burst, so that the
// pump gives its lock back to wake it.
type sleepy struct {
	roce.Machine
	before func()
}

func (s sleepy) PollOutput(now monotime.Time, b *roce.Burst) bool {
	s.before()
	return s.Machine.PollOutput(now, b)
}

// TestModifiedWhileTheReaderIsWoken resets a queue pair while its pump, which has more to write,
// wakes the reader of the ring: the rest has no ring.
func TestModifiedWhileTheReaderIsWoken(t *testing.T) {
	n := newNode(t, policy.Nap)
	a, b := n.Parts(4096), newEndpoint(n, 4096)
	var err error
	a.Conn, err = Of(n.Eng).NewConn(n.Counters, func(qpn ib.QPN) roce.Machine { // UC waits for no answer
		return uc.New(roce.Config{QPN: qpn, PD: 1, Mem: n.Keys, SQ: a.SQ, RQ: a.RQ, SendCQ: a.CQ, RecvCQ: a.CQ})
	}, func(ib.EventType) {}, n.Eng.FirstLane())
	if err != nil {
		t.Fatal(err)
	}
	connect(a, b)
	tx, rx := shmring.NewPair() // which only this test reads
	var asked, bursts atomic.Int32
	begun := make(chan struct{})
	posted := 0
	post := func() { // as many WRITEs as there is room for: bursts are of equal packets, two at a time
		for {
			w, ok := a.SQ.Reserve()
			if !ok {
				return
			}
			w.Opcode, w.Length, w.RKey = ib.WRRDMAWrite, uint32(16-posted%2*8), b.Region.RKey()
			w.SGE = append(w.SGE, ib.SGE{Length: w.Length, LKey: a.Region.LKey()})
			a.SQ.Commit()
			posted++
		}
	}
	// The goroutine that waits for the lock may be held up for long: until it has the lock, there
	// is always more to write. 4 s are more than any slice of a processor.
	const enough = 2000
	a.Lock()
	connOf(a).ring = ringsOf(n).NewOut(tx)
	machine := connOf(a).packets
	connOf(a).packets = sleepy{machine, func() {
		switch n := bursts.Add(1); {
		case n == 1:
			close(begun)
			for asked.Load() == 0 {
				runtime.Gosched() // until the other goroutine is about to take the lock
			}
		case n < enough:
			post()
		}
		var m shmring.Message
		for ok, _ := rx.Next(&m); ok; ok, _ = rx.Next(&m) {
			rx.Advance()
		}
		rx.Arm()
		// A goroutine that waits for a lock for 1 ms is given it.
		for begin := time.Now(); time.Since(begin) < 2*time.Millisecond; {
		}
	}}
	post()
	var both sync.WaitGroup
	both.Go(func() {
		<-begun
		asked.Store(1)
		if err := a.ModifyTo(&ib.QPAttr{State: ib.QPReset}, 0); err != nil {
			t.Error(err)
		}
	})
	both.Go(func() { a.SubmitUnlock(1) })
	both.Wait()
	if got := bursts.Load(); got >= enough {
		t.Errorf("%d bursts were written before the queue pair was reset", got)
	}
	a.Close()
	b.Close()
}

// failing is a machine that an error of its own ends while somebody waits for an
// acknowledgement to go out.
type failing struct {
	roce.Machine
}

func (f failing) AckMayWait() (ib.PSN, bool) {
	f.Modify(monotime.Now(), &ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr, nil)
	return 0, false
}

// TestFailedWhileAModificationSettles fails a queue pair after its modification was asked for,
// while delayed output is sent: the new state decides.
func TestFailedWhileAModificationSettles(t *testing.T) {
	n := newNode(t, policy.Nap)
	a, b := newEndpoint(n, 64), newEndpoint(n, 64)
	connect(a, b)
	a.Lock()
	machine := connOf(a).packets
	connOf(a).packets = failing{machine}
	n.Eng.Probe().SetPumping(a.Conn, true) // another thread writes
	a.Unlock()
	refused := errors.New("refused")
	err := a.Modify(&ib.QPAttr{State: ib.QPSQD}, ib.QPStateAttr, n.Addr, func(cur ib.QPState) error {
		if cur != ib.QPRTS {
			return refused
		}
		return nil
	})
	if err != refused {
		t.Errorf("in the error state: %v", err)
	}
	a.Lock()
	connOf(a).packets = machine
	n.Eng.Probe().SetPumping(a.Conn, false)
	a.Unlock()
	a.Close()
	b.Close()
}
