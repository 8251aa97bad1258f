// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"testing"

	"verbena/ib"
	"verbena/verbs"
)

// TestRNRIsWaitedFor: with rnr_retry 7 a message waits for its receive.
func TestRNRIsWaitedFor(t *testing.T) {
	a, b := rcPair(t, 64)
	_, err := a.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, 8)}})
	check(t, err)
	b.raised("send_rnr_err", b.counter("send_rnr_err")+12) // more often than any finite rnr_retry
	b.recv(1, 64)
	b.one()
	a.one()
}

// TestRNRRetriesRunOut: with a finite rnr_retry the message fails.
func TestRNRRetriesRunOut(t *testing.T) {
	a, b := rcPair(t, 64, func(q *ib.QPAttr) { q.RNRRetry = 2 })
	was := b.counter("send_rnr_err")
	wc := a.post(verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{a.mr.SGE(0, 8)}})
	if wantStatus(t, wc.Status, ib.WCRNRRetryExcErr); wc.VendorErr != ib.VendorRNR {
		t.Errorf("vendor error %v", wc.VendorErr)
	}
	// More if a busy machine makes the requester repeat on its own account.
	if n := b.counter("send_rnr_err") - was; n < 3 {
		t.Errorf("%d RNR NAKs for one try and two retries", n)
	}
	if a.qp.State() != ib.QPErr || b.qp.State() != ib.QPRTS {
		t.Errorf("states %v, %v: the responder has done nothing wrong", a.qp.State(), b.qp.State())
	}
}

// TestDeadPeer: a request that nobody answers ends with RETRY_EXC_ERR, and the requests behind it
// are flushed.
func TestDeadPeer(t *testing.T) {
	a, b := rcPair(t, 64, func(q *ib.QPAttr) { q.Timeout, q.RetryCnt = 8, 2 })
	check(t, b.qp.Destroy())
	was := a.counter("local_ack_timeout_err")
	for i := range 3 {
		_, err := a.qp.PostSend(verbs.SendWR{ID: uint64(i), Opcode: ib.WRSend})
		check(t, err)
	}
	wc := a.poll(3)
	if wc[0].Status != ib.WCRetryExcErr || wc[0].VendorErr != ib.VendorSilent || wc[0].WRID != 0 {
		t.Errorf("%+v", wc[0])
	}
	for i := 1; i < 3; i++ {
		if wc[i].Status != ib.WCWRFlushErr || wc[i].WRID != uint64(i) {
			t.Errorf("%+v", wc[i])
		}
	}
	if n := a.counter("local_ack_timeout_err") - was; n != 3 {
		t.Errorf("%d time-outs for one try and two retries", n)
	}
}

// TestErrorsReachTheRequester provokes each refusal of a responder. It wants the right status at
// the requester, the right event at the responder, and both in the error state.
func TestErrorsReachTheRequester(t *testing.T) {
	for _, c := range []struct {
		name   string
		wr     func(a, b *end) verbs.SendWR
		status ib.WCStatus
		event  ib.EventType
	}{
		{"read without a key", func(a, b *end) verbs.SendWR {
			return verbs.SendWR{Opcode: ib.WRRDMARead, SGList: []ib.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() + 1}
		}, ib.WCRemAccessErr, ib.EventQPAccessErr},
		{"write beyond the end", func(a, b *end) verbs.SendWR {
			return verbs.SendWR{Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{a.mr.SGE(0, 2048)}, RemoteAddr: b.mr.Addr() + 4096 - 2047, RKey: b.mr.RKey()}
		}, ib.WCRemAccessErr, ib.EventQPAccessErr},
		{"send with a key that is not there", func(a, b *end) verbs.SendWR {
			return verbs.SendWR{Opcode: ib.WRSendWithInv, InvalidateRKey: 5}
		}, ib.WCRemAccessErr, ib.EventQPAccessErr},
		{"send longer than the receive", func(a, b *end) verbs.SendWR {
			return verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{a.mr.SGE(0, 65)}}
		}, ib.WCRemInvReqErr, ib.EventQPReqErr},
		{"atomic across words", func(a, b *end) verbs.SendWR {
			off, _ := b.pd.RegMRIOVA(b.buf[4:], 0, allAccess)
			return verbs.SendWR{Opcode: ib.WRAtomicFetchAndAdd, SGList: []ib.SGE{a.mr.SGE(0, 8)}, RKey: off.RKey()}
		}, ib.WCRemInvReqErr, ib.EventQPReqErr},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := rcPair(t, 4096)
			b.recv(2, 64)
			wantStatus(t, a.post(c.wr(a, b)).Status, c.status)
			if ev := b.event(c.event); ev.QP != b.qp {
				t.Errorf("event %+v", ev)
			}
			if a.qp.State() != ib.QPErr || b.qp.State() != ib.QPErr {
				t.Errorf("states %v, %v", a.qp.State(), b.qp.State())
			}
			for i, wc := range b.poll(2) {
				if wc.WRID != uint64(i) || wc.Status == ib.WCSuccess {
					t.Errorf("receive %d: %+v", i, wc)
				}
			}
		})
	}
}

// TestResponderWithoutRights refuses rights that the queue pair's access flags lack, whatever the
// region grants.
func TestResponderWithoutRights(t *testing.T) {
	a, b := rcPair(t, 64)
	check(t, b.qp.Modify(&ib.QPAttr{AccessFlags: ib.AccessRemoteRead}, ib.QPAccessFlags))
	wantStatus(t, a.write(8, b.mr.Addr(), b.mr.RKey()), ib.WCRemInvReqErr)
}

// TestReadIntoReadOnly fails at the requester, whose own memory it is.
func TestReadIntoReadOnly(t *testing.T) {
	a, b := rcPair(t, 64)
	ro, err := a.pd.RegMR(make([]byte, 8), 0)
	check(t, err)
	wantStatus(t, a.post(verbs.SendWR{Opcode: ib.WRRDMARead, SGList: []ib.SGE{ro.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}).Status, ib.WCLocProtErr)
}

// TestSendQueueDrain: SQD lets requests in progress end, holds the rest back and raises an event
// when it is drained. RTS lets the rest go.
func TestSendQueueDrain(t *testing.T) {
	a, b := rcPair(t, 4096)
	_, err := a.qp.PostSend(verbs.SendWR{ID: 1, Opcode: ib.WRSend, Flags: ib.SendSignaled}) // begun: waits for a receive
	check(t, err)
	b.raised("send_rnr_err", b.counter("send_rnr_err"))
	check(t, a.qp.Modify(&ib.QPAttr{State: ib.QPSQD, EnSQDAsyncNotify: true}, ib.QPStateAttr|ib.QPEnSQDAsyncNotify))
	if attr, _ := a.qp.Query(); attr.State != ib.QPSQD || !attr.SQDraining {
		t.Errorf("state %v, draining %v", attr.State, attr.SQDraining)
	}
	_, err = a.qp.PostSend(verbs.SendWR{ID: 2, Opcode: ib.WRSend, Flags: ib.SendSignaled})
	check(t, err)
	b.recv(2, 64)
	if wc := a.one(); wc.WRID != 1 {
		t.Errorf("%+v", wc)
	}
	b.one()
	if ev := a.event(ib.EventSQDrained); ev.QP != a.qp {
		t.Errorf("event %+v", ev)
	}
	if attr, _ := a.qp.Query(); attr.SQDraining {
		t.Error("drained and draining")
	}
	check(t, a.qp.Modify(&ib.QPAttr{RetryCnt: 3}, ib.QPRetryCnt)) // only SQD allows this change
	check(t, a.qp.Modify(&ib.QPAttr{State: ib.QPRTS}, ib.QPStateAttr))
	if wc := a.one(); wc.WRID != 2 {
		t.Errorf("%+v", wc)
	}
	if attr, _ := a.qp.Query(); attr.RetryCnt != 3 {
		t.Errorf("retry_cnt %d", attr.RetryCnt)
	}
}

// TestResetAndUseAgain drops posted requests and completions by a reset, and connects the same
// queue pair again.
func TestResetAndUseAgain(t *testing.T) {
	a, b := rcPair(t, 64)
	for range 3 {
		b.recv(2, 64)
		_, err := a.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled})
		check(t, err)
		b.one()
		check(t, a.qp.Modify(&ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr))
		reconnect(t, a, b)
		for _, e := range []*end{a, b} {
			if n, err := e.cq.Poll(make([]ib.WC, 4)); n != 0 || err != nil {
				t.Fatalf("%d completions of the time before, %v", n, err)
			}
		}
		wantStatus(t, a.write(64, b.mr.Addr(), b.mr.RKey()), ib.WCSuccess)
	}
}

// TestFence holds a SEND back until the READ before it has brought its data,
// which the SEND then carries.
func TestFence(t *testing.T) {
	a, b := rcPair(t, 256<<10)
	for i := range 20 {
		pattern(b.buf, byte(i))
		b.recv(1, 8)
		last := len(a.buf) - 8
		want := string(b.buf[last:])
		a.peer.sync()
		_, err := a.qp.PostSend(
			verbs.SendWR{Opcode: ib.WRRDMARead, SGList: []ib.SGE{a.mr.SGE(8, last)}, RemoteAddr: b.mr.Addr() + 8, RKey: b.mr.RKey()},
			verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled | ib.SendFence, SGList: []ib.SGE{a.mr.SGE(last, 8)}})
		check(t, err)
		a.one()
		b.one()
		if string(b.buf[:8]) != want {
			t.Fatalf("the SEND carried % x, not % x that the READ brings", b.buf[:8], want)
		}
	}
}
