// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"encoding/binary"
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/queue"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// The shared receive queues of the tests: the script's, another of another
// protection domain, and one that does not exist.
const (
	ours    ib.SRQN = 0x31
	others  ib.SRQN = 0x32
	nowhere ib.SRQN = 0x33

	otherPD mem.PD = script.PD + 1
)

// target is a script of an XRC target with two shared receive queues.
type target struct {
	*script.Script
	qp    *rc.QP
	boxes map[ib.SRQN]*rc.Inbox
	other *queue.SRQ
	mr    *mem.Region // of the other domain
	bytes []byte      // its memory
}

func newTarget(t *testing.T, options ...func(*script.Setup)) *target {
	return newTargetOf(t, rc.NewXRCRecv, options...)
}

// newTargetOf is newTarget of a constructor.
func newTargetOf(t *testing.T, construct func(roce.Config, rc.Domain) *rc.QP, options ...func(*script.Setup)) *target {
	x := &target{boxes: map[ib.SRQN]*rc.Inbox{}, other: queue.NewSRQ(8, 4, nil), bytes: script.Bytes(3<<16, 9)}
	make := func(c roce.Config) roce.Machine {
		x.boxes[ours] = &rc.Inbox{PD: c.PD, Mem: c.Mem, RQ: c.RQ, CQ: c.RecvCQ}
		x.boxes[others] = &rc.Inbox{PD: otherPD, Mem: c.Mem, RQ: x.other, CQ: c.RecvCQ}
		var err error
		if x.mr, err = c.Mem.Register(otherPD, x.bytes, 0x90000, ib.AccessLocalWrite|ib.AccessRemote); err != nil {
			t.Fatal(err)
		}
		x.qp = construct(c, func(n ib.SRQN) *rc.Inbox { return x.boxes[n] })
		return x.qp
	}
	x.Script = script.New(t, make, append(options, func(s *script.Setup) { s.SRQ, s.SRQPD = true, script.PD })...)
	return x
}

// forSRQ makes an XRC request of an RC one, for a shared receive queue.
func forSRQ(n ib.SRQN, p wire.Packet) wire.Packet {
	p.Opcode += wire.XRCSendFirst
	p.XRCETH.SRQ = n
	return p
}

// wantAnswer takes the next packet, an XRC acknowledgement with a syndrome.
func (x *target) wantAnswer(t *testing.T, why string, psn ib.PSN, s wire.Syndrome) {
	t.Helper()
	if p := x.WantPacket(why, wire.XRCAcknowledge, psn); p.AETH.Syndrome != s {
		t.Fatalf("%s: syndrome %#x, want %#x", why, uint8(p.AETH.Syndrome), uint8(s))
	}
}

var noCredits = wire.ACK(wire.CreditsInvalid)

// Each message takes its receive from the queue that it names, and completes
// with the target's number.
func TestXRCReceive(t *testing.T) {
	x := newTarget(t)
	x.PostRecv(0, 2048)
	if err := x.other.Post(77, []ib.SGE{{Addr: 0x90000, Length: 100, LKey: x.mr.LKey()}}); err != nil {
		t.Fatal(err)
	}
	x.Recv(forSRQ(others, script.Request(wire.RCSendOnlyImm, peerPSN, script.Bytes(100, 1))))
	x.wantAnswer(t, "acknowledged without credits", peerPSN, noCredits)
	if wc := x.WantRecvWC("from the other queue", 77, ib.WCSuccess); wc.ByteLen != 100 || wc.Flags != ib.WCWithImm || wc.QPN != script.QPN {
		t.Errorf("%+v", wc)
	}
	if string(x.bytes[:100]) != string(script.Bytes(100, 1)) {
		t.Error("not in the other domain's memory")
	}
	x.Recv(forSRQ(ours, script.Request(wire.RCSendFirst, peerPSN+1, script.Bytes(1024, 2))))
	x.Recv(forSRQ(ours, script.Request(wire.RCSendLast, peerPSN+2, script.Bytes(10, 3))))
	x.wantAnswer(t, "the long one", peerPSN+2, noCredits)
	x.WantRecvWC("from ours", 1001, ib.WCSuccess)
	x.WantMemory("first packet", 0, script.Bytes(1024, 2))
	x.Recv(x.At(forSRQ(ours, script.Request(wire.RCRDMAWriteOnly, peerPSN+3, script.Bytes(50, 4))), 3000, 50))
	x.wantAnswer(t, "WRITE", peerPSN+3, noCredits)
	x.WantMemory("WRITE", 3000, script.Bytes(50, 4))
	x.WantIdle("done")
}

// The keys of a request are looked up in the domain of the queue it names.
func TestXRCMemoryIsTheQueues(t *testing.T) {
	x := newTarget(t)
	read := func(n ib.SRQN, at ib.PSN) wire.Packet {
		p := forSRQ(n, script.Request(wire.RCRDMAReadRequest, at, nil))
		p.RETH = wire.RETH{VA: 0x90000, RKey: x.mr.RKey(), DMALen: 1500}
		return p
	}
	x.Recv(read(others, peerPSN))
	x.WantPacket("READ", wire.XRCRDMAReadResponseFirst, peerPSN)
	x.WantPacket("READ", wire.XRCRDMAReadResponseLast, peerPSN+1)
	x.Recv(read(others, peerPSN))
	x.WantPacket("READ again", wire.XRCRDMAReadResponseFirst, peerPSN)
	x.WantPacket("READ again", wire.XRCRDMAReadResponseLast, peerPSN+1)
	x.Recv(read(ours, peerPSN+2))
	x.wantAnswer(t, "a key of another domain", peerPSN+2, wire.NAKRemoteAccess)
	x.WantEvent("it ends the target", ib.EventQPAccessErr)
	x.WantState("it ends the target", ib.QPErr)
	x.WantIdle("no last WQE: the queues are not its own")
}

// Every operation of RC has its answer, atomics only once.
func TestXRCSingleAnswers(t *testing.T) {
	x := newTarget(t)
	binary.NativeEndian.PutUint64(x.Memory[64:], 40)
	add := x.At(forSRQ(ours, script.Request(wire.RCFetchAdd, peerPSN, nil)), 64, 8)
	add.AtomicETH.SwapAdd = 2
	x.Recv(add)
	if p := x.WantPacket("fetch and add", wire.XRCAtomicAcknowledge, peerPSN); p.AtomicAck.Orig != 40 {
		t.Errorf("found %d", p.AtomicAck.Orig)
	}
	x.Recv(add)
	if p := x.WantPacket("repeated, not done again", wire.XRCAtomicAcknowledge, peerPSN); p.AtomicAck.Orig != 40 {
		t.Errorf("found %d", p.AtomicAck.Orig)
	}
	x.Recv(x.At(forSRQ(ours, script.Request(wire.RCAtomicWrite, peerPSN+1, script.Bytes(8, 5))), 128, 8))
	x.WantPacket("ATOMIC WRITE", wire.XRCRDMAReadResponseOnly, peerPSN+1)
	flush := x.At(forSRQ(ours, script.Request(wire.RCFlush, peerPSN+2, nil)), 0, 64)
	flush.FETH.PLT = ib.FlushGlobal
	x.Recv(flush)
	x.WantPacket("FLUSH", wire.XRCRDMAReadResponseOnly, peerPSN+2)
	if v := binary.NativeEndian.Uint64(x.Memory[64:]); v != 42 {
		t.Errorf("the word is %d", v)
	}
	x.WantIdle("done")
}

func TestXRCRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		first bool // SEND First for ours comes before
		bad   wire.Packet
		nak   wire.Syndrome
		event ib.EventType
	}{
		{"no such queue", false, forSRQ(nowhere, script.Request(wire.RCSendOnly, peerPSN, nil)), wire.NAKRemoteAccess, ib.EventQPAccessErr},
		{"WRITE for no such queue", false, forSRQ(nowhere, script.Request(wire.RCRDMAWriteOnly, peerPSN, nil)), wire.NAKRemoteAccess, ib.EventQPAccessErr},
		{"another queue within a message", true, forSRQ(others, script.Request(wire.RCSendLast, peerPSN+1, []byte{1})), wire.NAKInvalidRequest, ib.EventQPReqErr},
		{"a message within a message", true, forSRQ(ours, script.Request(wire.RCSendOnly, peerPSN+1, []byte{1})), wire.NAKInvalidRequest, ib.EventQPReqErr},
		{"reserved opcode", false, wire.Packet{BTH: wire.BTH{Opcode: 0xb5, PSN: peerPSN}}, wire.NAKInvalidRequest, ib.EventQPReqErr},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newTarget(t)
			x.PostRecv(0, 4096)
			if c.first {
				x.Recv(forSRQ(ours, script.Request(wire.RCSendFirst, peerPSN, script.Bytes(1024, 1))))
			}
			x.Recv(c.bad)
			x.wantAnswer(t, c.name, c.bad.PSN, c.nak)
			x.WantEvent(c.name, c.event)
			if c.first {
				x.WantRecvWC("the receive begun is flushed", 1001, ib.WCWRFlushErr)
			}
			x.WantIdle(c.name)
		})
	}
}

func TestXRCReceiverNotReady(t *testing.T) {
	x := newTarget(t)
	send := forSRQ(ours, script.Request(wire.RCSendOnly, peerPSN, script.Bytes(10, 1)))
	x.Recv(send)
	x.wantAnswer(t, "nothing is posted there", peerPSN, wire.RNRNAK(12))
	x.PostRecv(0, 100)
	x.Recv(send)
	x.wantAnswer(t, "now it is", peerPSN, noCredits)
	x.WantRecvWC("received", 1001, ib.WCSuccess)
}

// A shared receive queue may be destroyed in the midst of a message and of a
// READ: nothing completes and no memory is touched any more.
func TestXRCQueueGoes(t *testing.T) {
	x := newTarget(t)
	x.PostRecv(0, 4096)
	x.Recv(forSRQ(ours, script.Request(wire.RCSendFirst, peerPSN, script.Bytes(1024, 1))))
	delete(x.boxes, ours)
	x.qp.Forget(others)
	x.qp.Forget(ours)
	x.Recv(forSRQ(ours, script.Request(wire.RCSendLast, peerPSN+1, script.Bytes(10, 2))))
	x.wantAnswer(t, "it is gone", peerPSN+1, wire.NAKRemoteAccess)
	x.WantEvent("it is gone", ib.EventQPAccessErr)
	x.WantUntouched("second packet", 1024, 10)
	x.WantIdle("no completion")

	x = newTarget(t)
	x.Together(func() {
		x.Recv(x.At(forSRQ(ours, script.Request(wire.RCRDMAReadRequest, peerPSN, nil)), 0, 100))
		delete(x.boxes, ours)
	})
	x.wantAnswer(t, "gone before the READ was answered", peerPSN, wire.NAKRemoteAccess)
}

// A target takes no responses and an initiator no requests, nor either the
// packets of RC.
func TestXRCWrongWay(t *testing.T) {
	x := newTarget(t)
	x.Recv(script.Request(wire.RCSendOnly, peerPSN, nil))
	ack := script.Ack(psn, 1)
	ack.Opcode = wire.XRCAcknowledge
	x.Recv(ack)
	x.WantCount("RC, and a response", roce.UnexpectedPacket, 2)
	x.WantIdle("ignored")

	s := script.New(t, newXRCSend)
	s.Recv(forSRQ(ours, script.Request(wire.RCSendOnly, peerPSN, nil)))
	s.SetState(ib.QPErr)
	s.Recv(forSRQ(ours, script.Request(wire.RCSendOnly, peerPSN, nil)))
	s.WantCount("requests", roce.UnexpectedPacket, 2)
	s.WantIdle("ignored")
}

func newXRCSend(c roce.Config) roce.Machine { return rc.NewXRCSend(c) }

// to gives a work request its shared receive queue.
func to(n ib.SRQN, w script.WR) script.WR {
	w.SetRemoteSRQ(n)
	return w
}

func xrc(p wire.Packet) wire.Packet {
	p.Opcode += wire.XRCSendFirst
	return p
}

// Every packet of every request names the queue; answers are XRC's.
func TestXRCSend(t *testing.T) {
	s := script.New(t, newXRCSend)
	s.Post(to(ours, script.Send(1500)), to(others, script.WriteImm(10, 7)), to(ours, script.Read(2000)), to(others, script.FetchAdd(1)))
	for _, c := range []struct {
		op  wire.Opcode
		psn ib.PSN
		srq ib.SRQN
	}{
		{wire.XRCSendFirst, psn, ours}, {wire.XRCSendLast, psn + 1, ours}, {wire.XRCRDMAWriteOnlyImm, psn + 2, others},
		{wire.XRCRDMAReadRequest, psn + 3, ours}, {wire.XRCFetchAdd, psn + 5, others},
	} {
		if p := s.WantPacket("requests", c.op, c.psn); p.XRCETH.SRQ != c.srq {
			t.Errorf("%v is for %v, want %v", p.Opcode, p.XRCETH.SRQ, c.srq)
		}
	}
	s.Recv(xrc(script.Ack(psn+2, 2)))
	s.WantWC("SEND", 1, ib.WCSuccess)
	s.WantWC("WRITE", 2, ib.WCSuccess)
	s.Recv(xrc(script.Response(wire.RCRDMAReadResponseFirst, psn+3, script.Bytes(1024, 1))))
	s.Recv(xrc(script.Response(wire.RCRDMAReadResponseLast, psn+4, script.Bytes(976, 2))))
	s.WantWC("READ", 3, ib.WCSuccess)
	s.WantMemory("READ", 0, script.Bytes(1024, 1))
	s.Recv(xrc(script.AtomicAck(psn+5, 5)))
	s.WantWC("atomic", 4, ib.WCSuccess)
	s.WantIdle("done")
}

// Lost packets are sent again for the same queue.
func TestXRCRetransmits(t *testing.T) {
	s := script.New(t, newXRCSend)
	s.Post(to(ours, script.Write(2048)))
	s.WantDrain("WRITE", 2)
	s.Recv(xrc(script.Nak(psn+1, wire.NAKPSNSequence)))
	if p := s.WantPacket("the half that was lost", wire.XRCRDMAWriteLast, psn+1); p.XRCETH.SRQ != ours {
		t.Errorf("for %v", p.XRCETH.SRQ)
	}
	s.Recv(xrc(script.Ack(psn+1, 1)))
	s.WantWC("WRITE", 1, ib.WCSuccess)
}

// There are no end-to-end credits: those of a peer that encodes some bind
// nobody.
func TestXRCIgnoresCredits(t *testing.T) {
	s := script.New(t, newXRCSend)
	s.Post(to(ours, script.Send(1)))
	s.WantDrain("first", 1)
	s.Recv(xrc(script.AckCredits(psn, 1, 0)))
	s.WantWC("first", 1, ib.WCSuccess)
	s.Post(to(ours, script.Send(1)), to(ours, script.Send(1)), to(ours, script.Send(1)))
	s.WantDrain("all at once", 3)
}

// A NAK invalid RD request ends an initiator with the status that says so; RC
// knows no such NAK.
func TestInvalidRDRequest(t *testing.T) {
	s := script.New(t, newXRCSend)
	s.Post(to(ours, script.Send(1)))
	s.Recv(xrc(script.Nak(psn, wire.NAKInvalidRD)))
	s.WantWC("XRC", 1, ib.WCRemInvRDReqErr)
	s = script.New(t, newRC)
	s.Post(script.Send(1))
	s.Recv(script.Nak(psn, wire.NAKInvalidRD))
	s.WantWC("RC", 1, ib.WCBadRespErr)
}

// RESET keeps the kind of machine.
func TestXRCReset(t *testing.T) {
	x := newTarget(t)
	x.SetState(ib.QPErr)
	x.SetState(ib.QPReset)
	x.Modify(ib.QPAttr{State: ib.QPInit}, ib.QPStateAttr)
	x.Modify(ib.QPAttr{State: ib.QPRTR, PathMTU: ib.MTU1024, DestQPN: script.PeerQPN, RQPSN: 7}, ib.QPStateAttr|ib.QPAV|ib.QPPathMTU|ib.QPDestQPN|ib.QPRQPSN)
	x.PostRecv(0, 10)
	x.Recv(forSRQ(ours, script.Request(wire.RCSendOnly, 7, []byte{1})))
	x.WantPacket("a target still", wire.XRCAcknowledge, 7)
	x.WantRecvWC("received", 1001, ib.WCSuccess)
}
