// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// putOff lets the timer come due and puts it off, so many times.
func putOff(s *script.Script, times int, behind bool) {
	m := s.Machine.(roce.Acknowledged)
	for range times {
		s.Now = m.ACKTimer()
		m.PutOff(s.Now, behind)
	}
}

// A peer that has not come to the packets sent is waited for as long as it takes: nothing is
// repeated, and no retry is spent.
func TestPeerIsBehind(t *testing.T) {
	s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.RetryCnt = 0 }))
	s.Post(script.Write(10))
	s.WantPacket("once", wire.RCRDMAWriteOnly, psn)
	begin := s.Now
	putOff(s, 100, true)
	if waited := s.Now.Sub(begin); waited < 10*monotime.Second || waited > 200*monotime.Second {
		t.Errorf("looked 100 times in %v: at most once a second, in the end", waited)
	}
	s.WantQuiet("nothing is repeated")
	s.WantNoWC("it is waited for")
	s.Recv(script.Ack(psn, 1))
	s.WantWC("and is back", 1, ib.WCSuccess)
	if s.Machine.(roce.Acknowledged).ACKTimer() != monotime.Never {
		t.Error("a timer runs for nothing")
	}
}

// A look alone does not begin the time-out anew: one that is due takes place then.
func TestPeerIsSilent(t *testing.T) {
	s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.RetryCnt = 0 }))
	s.Post(script.Write(10))
	putOff(s, 1, false)
	s.WantNoWC("it is asked first")
	s.Advance(ackTimeout)
	if wc := s.WantWC("no retry is left", 1, ib.WCRetryExcErr); wc.VendorErr != ib.VendorSilent {
		t.Error(wc.VendorErr)
	}
}

// A process that runs and has no such queue pair is given up after the time-outs that retry_cnt
// allows. That it is asked before each of them does not make them longer by the round trip's
// back-off.
func TestPeerHasNoSuchQueuePair(t *testing.T) {
	const (
		retries = 7
		timeout = 4 * 4096 * monotime.Nanosecond << 12
	)
	for name, answersOnce := range map[string]bool{"never there": false, "gone": true} {
		s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.Timeout, a.RetryCnt = 12, retries }))
		if answersOnce { // and the round trip is known
			s.Post(script.Write(10))
			s.Recv(script.Ack(psn, 1))
			s.WantWC("it was there", 1, ib.WCSuccess)
		}
		s.Post(script.Write(10))
		m, begin := s.Machine.(roce.Acknowledged), s.Now
		for s.Machine.State() == ib.QPRTS {
			putOff(s, 2, false) // the question, and the wait after its answer
			s.Advance(m.ACKTimer().Sub(s.Now))
		}
		// Two waits for each time-out, and the rest of the one in which the last retry is spent.
		if took, most := s.Now.Sub(begin), 3*(retries+1)*timeout; took > most {
			t.Errorf("%s: given up after %v, more than %v", name, took, most)
		}
	}
}

// The end of the peer's process ends queue pairs that have work for it, at once, and no others.
func TestPeerIsGone(t *testing.T) {
	s := script.New(t, newRC)
	m := s.Machine.(roce.Acknowledged)
	m.PeerGone(s.Now)
	s.WantState("nothing to be done for it", ib.QPRTS)
	s.Post(script.Write(10), script.Send(1))
	m.PeerGone(s.Now)
	if wc := s.WantWC("the oldest ends with the reason", 1, ib.WCRetryExcErr); wc.VendorErr != ib.VendorPeerGone {
		t.Error(wc.VendorErr)
	}
	s.WantWC("the others are flushed", 2, ib.WCWRFlushErr)
	s.WantState("over", ib.QPErr)
}

// An operation of our own that stands before work for a process that has ended takes
// place.
func TestLocalOperationBeforeTheEnd(t *testing.T) {
	s := script.New(t, newRC)
	r := fast(t, s, 1000, 100)
	s.Together(func() {
		s.Post(script.RegMR(r, r.RKey()&^0xff|0x42, fastAccess), script.Send(1))
		s.Machine.(roce.Acknowledged).PeerGone(s.Now)
	})
	s.WantWC("our own", 1, ib.WCSuccess)
	if wc := s.WantWC("the work for the peer", 2, ib.WCRetryExcErr); wc.VendorErr != ib.VendorPeerGone {
		t.Error(wc.VendorErr)
	}
}
