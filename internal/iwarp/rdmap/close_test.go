// SPDX-License-Identifier: BSD-2-Clause

package rdmap

import (
	"bytes"
	"testing"

	"verbena/ib"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	wire "verbena/internal/wire/iwarp"
)

// TestGracefulClose: posted requests go out, the peer's requests are answered, then the stream
// ends.
func TestGracefulClose(t *testing.T) {
	a, b := pair(t)
	b.postRecv(1, b.sge(0, 100))
	b.postRecv(2, b.sge(0, 100))
	a.post(a.send(0, 10), a.read(0, 5000, b, 0))
	a.s.Disconnect(0)
	if a.s.Closing() != KeepOpen {
		t.Fatal("closes with a READ outstanding")
	}
	carry(a, b)
	a.wantWC("SEND", 1, ib.WCSuccess)
	a.wantWC("READ", 2, ib.WCSuccess)
	if a.s.Closing() != Shut || a.s.NextTimeout() == monotime.Never {
		t.Fatalf("closing %d", a.s.Closing())
	}
	b.s.HandleClose(0, false)
	b.wantRecv("SEND", 1, ib.WCSuccess)
	b.wantRecv("flushed", 2, ib.WCWRFlushErr)
	b.wantState("the stream is gone", ib.QPErr)
	if b.s.Closing() != Shut {
		t.Errorf("closing %d", b.s.Closing())
	}
	a.s.HandleClose(0, false)
	if a.wantState("closed", ib.QPErr); a.s.NextTimeout() != monotime.Never {
		t.Error("a timer runs")
	}
	a.wantQuiet("closed")
}

// TestPeerDoesNotClose: patience ends.
func TestPeerDoesNotClose(t *testing.T) {
	a, _ := pair(t)
	a.s.Disconnect(0)
	at := a.s.NextTimeout()
	a.s.HandleTimeout(at - 1)
	if a.s.Closing() != Shut {
		t.Fatalf("closing %d", a.s.Closing())
	}
	a.s.HandleTimeout(at)
	if a.s.Closing() != Abort || a.s.NextTimeout() != monotime.Never {
		t.Errorf("closing %d", a.s.Closing())
	}
	a.wantState("aborted", ib.QPErr)
}

// TestLostStream flushes; one that ends within an FPDU is lost too.
func TestLostStream(t *testing.T) {
	for _, n := range []int{0, 1, 2, 30, 1500} {
		a, b := pair(t)
		b.postRecv(1, b.sge(0, 5000))
		a.post(a.send(0, 5000))
		b.take(a.out[:n], whole, always)
		b.s.HandleClose(0, false)
		b.wantRecv("torn", 1, ib.WCWRFlushErr)
		want := Abort
		if n == 0 {
			want = Shut
		}
		if b.s.Closing() != want {
			t.Errorf("after %d bytes: closing %d, want %d", n, b.s.Closing(), want)
		}
		b.wantState("lost", ib.QPErr)
		b.freed()
	}
}

// TestModifyToError flushes and closes, RESET forgets.
func TestModifyToErrorAndReset(t *testing.T) {
	a, b := pair(t)
	a.postRecv(1, a.sge(0, 10))
	a.post(a.read(0, 10, b, 0), a.send(0, 10))
	a.s.Modify(0, &ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr)
	a.wantWC("READ", 1, ib.WCWRFlushErr)
	a.wantWC("SEND", 2, ib.WCWRFlushErr)
	a.wantRecv("receive", 1, ib.WCWRFlushErr)
	if _, ok := a.s.PollEvent(); ok || a.s.Closing() != Shut {
		t.Error("the application knows")
	}
	a.s.Modify(0, &ib.QPAttr{State: ib.QPReset}, ib.QPStateAttr)
	if a.s.Closing() != KeepOpen || a.s.NextTimeout() != monotime.Never || a.s.PeerReady() {
		t.Error("RESET keeps something")
	}
	var attr ib.QPAttr
	if a.s.Query(&attr); attr.State != ib.QPReset {
		t.Errorf("%v", attr.State)
	}
}

// TestDrain: in SQD requests in progress finish, and no new one begins.
func TestDrain(t *testing.T) {
	a, b := pair(t)
	a.nothing = true
	a.post(a.write(0, 3000, b, 0), a.read(0, 100, b, 0))
	a.s.PollOutput(0, a.burst)
	n := a.burst.Bytes()
	a.s.Modify(0, &ib.QPAttr{State: ib.QPSQD, EnSQDAsyncNotify: true}, ib.QPStateAttr|ib.QPEnSQDAsyncNotify)
	a.post(a.write(0, 10, b, 0))
	a.out = append(a.out, bytes.Join(a.burst.Iov(), nil)...)
	a.burst.Reset()
	a.s.HandleWritten(0, n)
	a.nothing = false
	if _, ok := a.s.PollEvent(); ok {
		t.Error("drained with a READ outstanding")
	}
	carry(a, b)
	a.wantWC("WRITE", 1, ib.WCSuccess)
	a.wantWC("READ", 2, ib.WCSuccess)
	a.wantEvent("drained", ib.EventSQDrained)
	a.wantQuiet("what came after")
	a.s.Modify(0, &ib.QPAttr{State: ib.QPRTS}, ib.QPStateAttr)
	carry(a, b)
	a.wantWC("goes on", 3, ib.WCSuccess)
}

// TestInputBeforeRTS is dropped: a header that was read before is no header
// that was checked.
func TestInputBeforeRTS(t *testing.T) {
	_, b := pair(t)
	s := NewStream(qp.Config{QPN: 1, PD: pd, Mem: b.table, SQ: b.sq, RQ: b.rq, SendCQ: &b.sends, RecvCQ: &b.recvs})
	s.Connect(mpa.Settled{CRC: true}, false, false, 1460)
	f := segment(tagged(wire.RDMAWrite, true, b.mr.RKey()+0x100, base), 1, 2, 3, 4)
	s.HandleInput(0, f[:20])
	for _, st := range []ib.QPState{ib.QPInit, ib.QPRTR} {
		s.Modify(0, &ib.QPAttr{State: st, AccessFlags: allAccess}, ib.QPStateAttr|ib.QPAccessFlags)
	}
	s.HandleInput(0, f[20:])
	if s.State() != ib.QPRTR || s.Counters()[DroppedState] != 1 {
		t.Errorf("%v, %d dropped", s.State(), s.Counters()[DroppedState])
	}
	b.wantUntouched("unchecked", 0, 100)
}

// TestOutputFaults: the kernel cannot read the memory of a burst. Nothing more goes into the
// stream, which may have stopped anywhere.
func TestOutputFaults(t *testing.T) {
	for _, n := range []int{3000, 700000} { // the second is longer than a burst
		a, b := pair(t)
		a.nothing = true
		a.post(a.write(0, n, b, 0), a.send(0, 1))
		a.s.PollOutput(0, a.burst)
		a.burst.Reset()
		a.s.HandleFault(0)
		a.wantWC("WRITE", 1, ib.WCLocProtErr)
		a.wantWC("SEND", 2, ib.WCWRFlushErr)
		a.wantEvent("fault", ib.EventQPFatal)
		a.nothing = false
		if a.wantQuiet("aborted"); a.s.Closing() != Abort {
			t.Errorf("closing %d", a.s.Closing())
		}
		a.freed()
	}
}
