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

// SQD finishes messages that are begun, starts nothing new, and reports once that the queue is
// drained. RTS goes on where it stopped.
func TestSendQueueDrain(t *testing.T) {
	s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.MaxRdAtomic = 1 }))
	s.Post(script.Write(2048), script.Read(10), script.Read(10))
	s.WantDrain("WRITE and one READ", 3)
	s.Modify(ib.QPAttr{State: ib.QPSQD, EnSQDAsyncNotify: true}, ib.QPStateAttr|ib.QPEnSQDAsyncNotify)
	var q ib.QPAttr
	s.Machine.Query(&q)
	if !q.SQDraining {
		t.Fatal("not draining")
	}
	s.Post(script.Send(1))
	s.WantQuiet("nothing new")
	s.Recv(script.Nak(psn+1, wire.NAKPSNSequence))
	s.WantPacket("what was begun is still repeated", wire.RCRDMAWriteLast, psn+1)
	s.WantPacket("what was begun is still repeated", wire.RCRDMAReadRequest, psn+2)
	s.Recv(script.Response(wire.RCRDMAReadResponseOnly, psn+2, script.Bytes(10, 1)))
	s.WantWC("WRITE", 1, ib.WCSuccess)
	s.WantWC("READ", 2, ib.WCSuccess)
	s.WantEvent("drained", ib.EventSQDrained)
	s.Machine.Query(&q)
	if q.SQDraining {
		t.Fatal("still draining")
	}
	s.PostRecv(100, 10)
	s.Recv(script.Request(wire.RCSendOnly, peerPSN, nil))
	s.WantAck("receiving goes on", peerPSN, 1)
	s.WantRecvWC("receiving goes on", 1001, ib.WCSuccess)
	s.WantIdle("quiet")
	s.SetState(ib.QPRTS)
	s.WantPacket("on again", wire.RCRDMAReadRequest, psn+3)
	s.WantPacket("on again", wire.RCSendOnly, psn+4)
}

// A queue pair that is idle is drained at once.
func TestDrainIdle(t *testing.T) {
	s := script.New(t, newRC)
	s.Modify(ib.QPAttr{State: ib.QPSQD, EnSQDAsyncNotify: true}, ib.QPStateAttr|ib.QPEnSQDAsyncNotify)
	s.WantEvent("drained", ib.EventSQDrained)
	s.WantIdle("once")
}

// In the error state everything posted is flushed in the order posted, sends
// and receives each.
func TestFlushOrder(t *testing.T) {
	s := receiver(t, 2048)
	s.PostRecv(0, 10)
	s.PostRecv(0, 10)
	s.Recv(script.Request(wire.RCSendFirst, peerPSN, script.Bytes(1024, 1)))
	s.Post(script.Send(1), script.Read(8).Unsignaled(), script.Write(5000), script.Send(1).Unsignaled())
	s.Packets()
	s.SetState(ib.QPErr)
	for i := range uint64(4) {
		s.WantWC("send", 1+i, ib.WCWRFlushErr)
	}
	for i := range uint64(3) {
		s.WantRecvWC("the one in use first", 1001+i, ib.WCWRFlushErr)
	}
	s.PostRecv(0, 10)
	s.WantRecvWC("posted after", 1004, ib.WCWRFlushErr)
	s.Advance(10 * monotime.Second)
	s.WantIdle("no timer is left")
	s.Recv(script.Request(wire.RCSendOnly, peerPSN+1, nil))
	s.Recv(script.Ack(psn, 1))
	s.WantIdle("deaf")
}

// With a shared receive queue only the receives that the queue pair holds are flushed, and an event
// reports that it takes no more.
func TestFlushShared(t *testing.T) {
	s := receiver(t, 2048, func(s *script.Setup) { s.SRQ = true })
	s.PostRecv(0, 10)
	s.Recv(script.Request(wire.RCSendFirst, peerPSN, script.Bytes(1024, 1)))
	s.SetState(ib.QPErr)
	s.WantRecvWC("the one in use", 1001, ib.WCWRFlushErr)
	s.WantEvent("last", ib.EventQPLastWQEReached)
	s.WantIdle("done")
	if s.SRQ.Len() != 1 {
		t.Fatal("flushed what others share")
	}
}

// Shared receives are judged by the domain of their queue, remote keys by the queue pair's.
//
// Spec: IBTA vol. 1, 10.2.3 (protection domains).
func TestSharedReceivesDomain(t *testing.T) {
	s := script.New(t, newRC, func(s *script.Setup) { s.SRQ = true })
	s.PostRecv(0, 10)
	s.PostRecvList(s.SGE(0, 10)) // by a key of the queue pair's domain
	s.Recv(s.At(script.Request(wire.RCRDMAWriteOnly, peerPSN, script.Bytes(8, 1)), 100, 8))
	s.WantAck("written", peerPSN, 1)
	s.Recv(script.Request(wire.RCSendOnly, peerPSN+1, script.Bytes(8, 2)))
	s.WantAck("received", peerPSN+1, 2)
	s.WantRecvWC("received", 1001, ib.WCSuccess)
	s.WantMemory("received", 0, script.Bytes(8, 2))
	s.Recv(script.Request(wire.RCSendOnly, peerPSN+2, script.Bytes(8, 3)))
	s.WantNak("refused", peerPSN+2, wire.NAKRemoteOperational)
	if wc := s.WantRecvWC("refused", 1002, ib.WCLocProtErr); wc.VendorErr != ib.VendorPD {
		t.Error(wc.VendorErr)
	}
}

// Destroying or resetting with the timer running (CVE-2026-45910: rxe's timer
// outlived its queue pair) leaves no timer and no completion, and the queue
// pair can be used anew.
func TestResetWithTimerPending(t *testing.T) {
	s := receiver(t, 10)
	s.Post(script.Write(3000), script.Read(10))
	s.Packets()
	s.SetState(ib.QPReset)
	s.WantIdle("all forgotten")
	s.Advance(10 * monotime.Second)
	s.WantIdle("for good")
	if s.SQ.Len() != 0 {
		t.Fatal("work left in the queue")
	}
	s.Recv(script.Ack(psn, 1))
	s.Recv(script.Request(wire.RCSendOnly, peerPSN, nil))
	s.WantIdle("deaf")
	s.WantCount("counted", roce.DroppedState, 2)
}

// Deregistering memory that is being sent (with the timer pending) frees nothing under the wire: a
// retransmission finds the key gone.
func TestDeregisterInFlight(t *testing.T) {
	s := script.New(t, newRC)
	s.Post(script.Write(2000))
	s.WantDrain("sent", 2)
	if err := s.Mem.Deregister(s.MR); err != nil {
		t.Fatal(err)
	}
	s.Advance(25 * monotime.Millisecond)
	s.WantWC("cannot be sent again", 1, ib.WCLocProtErr)
	s.WantState("over", ib.QPErr)
	s.WantIdle("done")
}

// A bad local key ends its work request after those before it have completed.
func TestSendWrongLKey(t *testing.T) {
	s := script.New(t, newRC)
	bad := s.SGE(0, 100)
	bad.LKey++
	s.Post(script.Send(10), script.Send(100).List(bad), script.Send(10))
	s.WantPacket("the first goes", wire.RCSendOnly, psn)
	s.WantQuiet("the others do not")
	s.WantNoWC("in order")
	s.Recv(script.Ack(psn, 1))
	s.WantWC("first", 1, ib.WCSuccess)
	s.WantWC("the bad one", 2, ib.WCLocProtErr)
	s.WantWC("flushed", 3, ib.WCWRFlushErr)
	s.WantIdle("done")
}

// The same in the middle of a message, where the peer waits for the rest.
func TestSendWrongLKeyMidway(t *testing.T) {
	s := script.New(t, newRC)
	bad := s.SGE(2048, 2048)
	bad.LKey++
	s.Post(script.Send(10), script.Send(4096).List(s.SGE(0, 2048), bad))
	s.WantDrain("as far as it goes", 3)
	s.Recv(script.Ack(psn, 1))
	s.WantWC("first", 1, ib.WCSuccess)
	s.WantWC("the bad one", 2, ib.WCLocProtErr)
	s.WantIdle("no time-out needed")
}

// The first packet in RTR shows that the peer is there.
func TestCommunicationEstablished(t *testing.T) {
	s := receiver(t, 10, func(s *script.Setup) { s.State = ib.QPRTR })
	s.PostRecv(0, 10)
	s.Recv(script.Request(wire.RCSendOnly, peerPSN, nil))
	s.Recv(script.Request(wire.RCSendOnly, peerPSN+1, nil))
	s.WantEvent("established", ib.EventCommEst)
	s.WantAck("answered in RTR", peerPSN, 1)
	s.WantAck("answered in RTR", peerPSN+1, 2)
	s.WantRecvWC("received", 1001, ib.WCSuccess)
	s.WantRecvWC("received", 1002, ib.WCSuccess)
	s.WantIdle("told once")
}

// An error before there is a path must not trip over it.
func TestErrorFromInit(t *testing.T) {
	s := receiver(t, 10, func(s *script.Setup) { s.State = ib.QPInit })
	s.SetState(ib.QPErr)
	s.WantRecvWC("flushed", 1001, ib.WCWRFlushErr)
	s.Recv(script.Request(wire.RCSendOnly, peerPSN, nil))
	s.WantIdle("deaf")
}
