// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"bytes"
	"testing"

	"verbena/ib"
	"verbena/internal/roce/rc"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// readOf is a READ of n bytes of another process's memory.
func readOf(q ib.SRQN, psn ib.PSN, n uint32) wire.Packet {
	p := forSRQ(q, script.Request(wire.RCRDMAReadRequest, psn, nil))
	p.RETH = wire.RETH{VA: 0x5000, RKey: 77, DMALen: n}
	return p
}

// piece gives the target a part of a READ response in packets of 1024 bytes.
func (x *sharing) piece(psn ib.PSN, data []byte) {
	x.t.Helper()
	for len(data) > 0 {
		n := min(len(data), 1024)
		x.data(wire.Packet{BTH: wire.BTH{Opcode: wire.XRCRDMAReadResponseMiddle, PSN: psn}, Payload: data[:n]}, 1)
		data, psn = data[n:], psn.Add(1)
	}
}

// fetch has the target ask for data that it needs, as its caller does after output.
func (x *sharing) fetch() {
	x.t.Helper()
	x.do(func() { x.qp.FetchMore() })
}

// wantRead takes one READ request that was passed on.
func (r *ring) wantRead(t *testing.T, why string, psn ib.PSN, va uint64, n uint32) {
	t.Helper()
	if len(r.got) != 1 {
		t.Fatalf("%s: %d packets were passed on", why, len(r.got))
	}
	p := r.got[0]
	if p.Opcode != wire.XRCRDMAReadRequest || p.PSN != psn || p.RETH.VA != va || p.RETH.DMALen != n || p.RETH.RKey != 77 || p.XRCETH.SRQ != theirs {
		t.Fatalf("%s: passed on %v", why, script.Format(&p))
	}
	r.got = nil
}

// wantResponse takes the responses of a READ of data.
func (x *sharing) wantResponse(why string, psn ib.PSN, first, last bool, data []byte) {
	x.t.Helper()
	for i := 0; i < len(data); i += 1024 {
		part := data[i:min(i+1024, len(data))]
		op := wire.XRCRDMAReadResponseMiddle
		switch begins, ends := first && i == 0, last && i+len(part) == len(data); {
		case begins && ends:
			op = wire.XRCRDMAReadResponseOnly
		case begins:
			op = wire.XRCRDMAReadResponseFirst
		case ends:
			op = wire.XRCRDMAReadResponseLast
		}
		if p := x.WantPacket(why, op, psn); !bytes.Equal(p.Payload, part) {
			x.t.Fatalf("%s: other data at PSN %v", why, psn)
		}
		psn = psn.Add(1)
	}
}

const pieceBytes = 64 << 10

// reading is a target that knows the other process, and a READ of n bytes that it has passed on.
func reading(t *testing.T, n uint32) *sharing {
	x := newSharing(t)
	x.Recv(readOf(theirs, peerPSN, n))
	x.takes(7, &x.their)
	x.their.wantRead(t, "the READ", 0, 0x5000, n)
	x.WantQuiet("the process has not answered")
	return x
}

// A READ is answered when the other process has answered, and what follows it then.
func TestXRCReadPassedOn(t *testing.T) {
	x := reading(t, 1500)
	x.PostRecv(0, 100)
	x.Recv(send(ours, peerPSN+2))
	x.Recv(readOf(theirs, peerPSN, 1500)) // again
	x.WantQuiet("nothing is answered")
	x.their.wantPassed(t, "nothing twice")
	data := script.Bytes(1500, 9)
	x.piece(0, data)
	x.wantResponse("the response", peerPSN, true, true, data)
	x.fetch()
	x.wantAnswer(t, "behind it", peerPSN+2, noCredits)
	x.WantRecvWC("behind it", 1001, ib.WCSuccess)

	// It was lost on the way: the memory is read again.
	x.Recv(readOf(theirs, peerPSN, 1500))
	x.WantQuiet("the process is to answer again")
	x.fetch()
	x.their.wantRead(t, "again", 2, 0x5000, 1500)
	x.fetch()
	x.their.wantPassed(t, "asked once")
	x.piece(2, data)
	x.wantResponse("again", peerPSN, true, true, data)
	x.Recv(readOf(theirs, peerPSN+3, 0))
	x.their.wantRead(t, "no bytes", 4, 0x5000, 0)
	x.data(wire.Packet{BTH: wire.BTH{Opcode: wire.XRCRDMAReadResponseOnly, PSN: 4}}, 1)
	x.WantPacket("no bytes", wire.XRCRDMAReadResponseOnly, peerPSN+3)
	x.WantIdle("done")
}

// A gap behind a READ is told of when the READ is answered.
func TestXRCReadPassedOnWithGap(t *testing.T) {
	for _, selective := range []bool{false, true} {
		x := reading(t, 1500)
		x.PostRecv(0, 100)
		later := send(ours, peerPSN+3)
		later.Selective = selective
		x.Recv(later)
		x.WantQuiet("the READ is not answered")
		x.piece(0, script.Bytes(1500, 9))
		x.wantResponse("the READ", peerPSN, true, true, script.Bytes(1500, 9))
		if selective {
			wantSack(t, x.Script, "then the gap", peerPSN+4, gap(peerPSN+2, peerPSN+2))
		} else {
			x.wantAnswer(t, "then the gap", peerPSN+2, wire.NAKPSNSequence)
		}
	}
}

// A long READ goes in pieces. A request for another process that follows waits for the last, and so
// does the refusal of one.
func TestXRCReadInPieces(t *testing.T) {
	const n = pieceBytes + 3000
	data := script.Bytes(n, 3)
	for _, refused := range []bool{false, true} {
		x := reading(t, n)
		x.piece(0, data[:pieceBytes])
		x.wantResponse("a piece", peerPSN, true, false, data[:pieceBytes])
		next := peerPSN + pieceBytes/1024 + 3
		x.fetch()
		x.their.wantRead(t, "the rest", 64, 0x5000+pieceBytes, 3000)
		if refused {
			x.Recv(send(nowhere, next))
		} else {
			x.Recv(send(theirs, next))
		}
		x.WantQuiet("the rest is missing")
		x.their.wantPassed(t, "the rest is missing")
		x.piece(64, data[pieceBytes:])
		x.wantResponse("the rest", peerPSN+64, false, true, data[pieceBytes:])
		x.fetch()
		if refused {
			x.wantAnswer(t, "then the error", next, wire.NAKRemoteAccess)
			continue
		}
		x.their.wantPassed(t, "then the next", 67)
		x.answers(67, noCredits)
		x.wantAnswer(t, "the next", next, noCredits)
	}
}

// Atomics, ATOMIC WRITE and FLUSH are carried out once by the other process, and answered again
// from here.
func TestXRCSinglesPassedOn(t *testing.T) {
	for _, c := range []struct {
		op       wire.Opcode
		reply    wire.Opcode
		payload  []byte
		orig     uint64
		prepared func(*wire.Packet)
	}{
		{op: wire.RCFetchAdd, reply: wire.XRCAtomicAcknowledge, orig: 0x1122334455667788},
		{op: wire.RCCompareSwap, reply: wire.XRCAtomicAcknowledge, orig: 5},
		{op: wire.RCAtomicWrite, reply: wire.XRCRDMAReadResponseOnly, payload: script.Bytes(8, 1),
			prepared: func(p *wire.Packet) { p.RETH.DMALen = 8 }},
		{op: wire.RCFlush, reply: wire.XRCRDMAReadResponseOnly,
			prepared: func(p *wire.Packet) { p.FETH = wire.FETH{PLT: ib.FlushGlobal, SEL: ib.FlushMR} }},
	} {
		t.Run(c.op.String(), func(t *testing.T) {
			x := newSharing(t)
			p := forSRQ(theirs, script.Request(c.op, peerPSN, c.payload))
			if c.prepared != nil {
				c.prepared(&p)
			}
			x.Recv(p)
			x.takes(7, &x.their)
			if len(x.their.got) != 1 || x.their.got[0].Opcode != c.op+wire.XRCSendFirst || string(x.their.got[0].Payload) != string(c.payload) {
				t.Fatalf("passed on %v", x.their.got)
			}
			x.Recv(p)
			x.WantQuiet("the process has not answered")
			x.data(wire.Packet{BTH: wire.BTH{Opcode: c.reply, PSN: 0}, AtomicAck: wire.AtomicAckETH{Orig: c.orig}}, 1)
			for _, why := range []string{"the answer", "again"} {
				if got := x.WantPacket(why, c.reply, peerPSN); got.AtomicAck.Orig != c.orig {
					t.Errorf("%s: %#x", why, got.AtomicAck.Orig)
				}
				if why == "the answer" {
					x.Recv(p)
				}
			}
			x.their.got = x.their.got[1:]
			x.their.wantPassed(t, "once")
			x.WantIdle("done")
		})
	}
}

// A process that refuses, or goes, ends the target at the READ.
func TestXRCReadPassedOnFails(t *testing.T) {
	x := reading(t, 1500)
	x.answers(0, wire.NAKRemoteAccess)
	x.wantAnswer(t, "a key", peerPSN, wire.NAKRemoteAccess)
	x.WantEvent("a key", ib.EventQPAccessErr)

	x = reading(t, 1500)
	x.do(func() { x.qp.Lost(7) })
	x.wantAnswer(t, "gone", peerPSN, wire.NAKRemoteOperational)
	x.WantEvent("gone", ib.EventQPFatal)

	x = newSharing(t)
	x.their.says = rc.NoWay
	x.Recv(readOf(theirs, peerPSN, 10))
	x.takes(7, &x.their)
	x.wantAnswer(t, "its ring gone", peerPSN, wire.NAKRemoteOperational)
	x.WantEvent("its ring gone", ib.EventQPFatal)

	for why, how := range map[string]func(x *sharing){
		"refused": func(x *sharing) { x.answers(64, wire.NAKRemoteAccess) },
		"gone":    func(x *sharing) { x.do(func() { x.qp.Lost(7) }) },
	} {
		data := script.Bytes(pieceBytes, 3)
		x = reading(t, pieceBytes+10)
		x.piece(0, data)
		x.wantResponse("a piece", peerPSN, true, false, data)
		x.fetch()
		x.their.wantRead(t, "the rest", 64, 0x5000+pieceBytes, 10)
		how(x)
		nak := wire.NAKRemoteAccess
		if why == "gone" {
			nak = wire.NAKRemoteOperational
		}
		x.wantAnswer(t, why, peerPSN+64, nak)
		x.WantState(why, ib.QPErr)
	}

	// A copy of a READ that is long done does not end the target.
	x = reading(t, 10)
	x.piece(0, script.Bytes(10, 1))
	x.wantResponse("done", peerPSN, true, true, script.Bytes(10, 1))
	x.Recv(readOf(theirs, peerPSN, 10))
	x.fetch()
	x.their.wantRead(t, "again", 1, 0x5000, 10)
	x.answers(1, wire.NAKRemoteAccess)
	x.wantAnswer(t, "its memory has gone", peerPSN, wire.NAKRemoteAccess)
	x.WantState("its memory has gone", ib.QPRTS)
}

// Answers that nothing asked for, or of another length, change nothing.
func TestXRCReadOtherAnswers(t *testing.T) {
	x := reading(t, 1500)
	resp := func(psn ib.PSN, n int) wire.Packet {
		return wire.Packet{BTH: wire.BTH{Opcode: wire.XRCRDMAReadResponseFirst, PSN: psn}, Payload: make([]byte, n)}
	}
	x.data(resp(0, 1000), 1)
	x.data(resp(1, 476), 1)
	x.data(resp(0, 1500), 3)
	x.data(resp(2, 1024), 1)
	x.data(wire.Packet{BTH: wire.BTH{Opcode: wire.RCRDMAReadResponseFirst}, Payload: make([]byte, 1024)}, 1)
	x.WantQuiet("none is an answer")
	x.data(resp(0, 1500), 2) // as one long packet
	x.wantResponse("the answer", peerPSN, true, true, make([]byte, 1500))
	x.data(resp(0, 1500), 2)
	x.WantIdle("it was answered")
}

// An RNR NAK takes back a READ that was asked for behind the message, for a repeated response.
func TestXRCReadAfterNotReady(t *testing.T) {
	x := reading(t, 10)
	x.piece(0, script.Bytes(10, 1))
	x.wantResponse("done", peerPSN, true, true, script.Bytes(10, 1))
	x.Recv(send(theirs, peerPSN+1))
	x.their.wantPassed(t, "a SEND", 1)
	x.Recv(readOf(theirs, peerPSN, 10))
	x.fetch()
	x.their.wantRead(t, "again", 2, 0x5000, 10)
	x.answers(1, wire.RNRNAK(5))
	x.WantQuiet("the response comes first")
	x.fetch()
	x.their.wantRead(t, "after the RNR NAK", 1, 0x5000, 10)
	x.piece(1, script.Bytes(10, 1))
	x.wantResponse("again", peerPSN, true, true, script.Bytes(10, 1))
	x.wantAnswer(t, "not ready", peerPSN+1, wire.RNRNAK(x.qp.Attr.MinRNRTimer))
	x.Recv(send(theirs, peerPSN+1))
	x.their.wantPassed(t, "the SEND", 2)
	x.answers(2, noCredits)
	x.wantAnswer(t, "the SEND", peerPSN+1, noCredits)
}

// The target for another process's requests checks all of a READ, and answers a piece. One that it
// refuses does not end it: the target that asked judges that.
func TestXRCTargetForOthers(t *testing.T) {
	x := newTargetOf(t, rc.NewXRCForOthers)
	read := func(psn ib.PSN, va uint64, n uint32) wire.Packet {
		p := forSRQ(others, script.Request(wire.RCRDMAReadRequest, psn, nil))
		p.RETH = wire.RETH{VA: va, RKey: x.mr.RKey(), DMALen: n}
		return p
	}
	x.Recv(read(peerPSN, 0x90000, pieceBytes*3+1))
	x.wantAnswer(t, "too long", peerPSN, wire.NAKRemoteAccess)
	x.Recv(read(peerPSN+64, 0x90000, 1500))
	x.WantPacket("READ", wire.XRCRDMAReadResponseFirst, peerPSN+64)
	x.WantPacket("READ", wire.XRCRDMAReadResponseLast, peerPSN+65)
	x.Recv(read(peerPSN+66, 0x90000, 3*pieceBytes))
	got := x.Packets()
	if len(got) != pieceBytes/1024 || got[63].Opcode != wire.XRCRDMAReadResponseLast || got[63].PSN != peerPSN+66+63 {
		t.Fatalf("%d packets of a piece", len(got))
	}
}

// A request that waits for a response goes on where that ends in an error, too.
func TestXRCGoesOnAfterARefusedCopy(t *testing.T) {
	for why, how := range map[string]func(x *sharing){
		"refused": func(x *sharing) { x.answers(1, wire.NAKRemoteAccess) },
		"no way":  func(x *sharing) { x.their.says = rc.NoWay },
	} {
		x := reading(t, 10)
		x.piece(0, script.Bytes(10, 1))
		x.wantResponse("done", peerPSN, true, true, script.Bytes(10, 1))
		x.fetch()
		x.Recv(readOf(theirs, peerPSN, 10))
		if why == "refused" {
			x.fetch()
			x.their.wantRead(t, "a copy", 1, 0x5000, 10)
		}
		x.Recv(send(theirs, peerPSN+1))
		x.WantQuiet("the copy comes first")
		how(x)
		x.fetch()
		x.fetch()
		if why == "refused" {
			x.wantAnswer(t, why, peerPSN, wire.NAKRemoteAccess)
			x.their.wantPassed(t, "the SEND", 2)
			x.answers(2, noCredits)
			x.wantAnswer(t, "the SEND", peerPSN+1, noCredits)
		} else {
			x.wantAnswer(t, why, peerPSN, wire.NAKRemoteOperational)
			x.wantAnswer(t, "the SEND", peerPSN+1, wire.NAKRemoteOperational)
		}
	}
}

// A READ that was answered before its turn is not answered again, also if it waits at its turn.
func TestXRCEarlyReadBehindOneForOthers(t *testing.T) {
	x := newSharing(t)
	p := readOf(others, peerPSN+1, 10)
	p.RETH.VA, p.RETH.RKey = 0x90000, x.mr.RKey()
	p.Selective, p.Overtakes = true, true
	x.Recv(p)
	x.WantPacket("READ", wire.XRCRDMAReadResponseOnly, peerPSN+1)
	wantSack(t, x.Script, "the gap", peerPSN+2, gap(peerPSN, peerPSN))
	first := send(theirs, peerPSN)
	first.Selective = true
	x.Recv(first)
	x.takes(7, &x.their)
	x.their.wantPassed(t, "the SEND", 0)
	x.answers(0, noCredits)
	x.wantAnswer(t, "the SEND", peerPSN, noCredits)
	x.WantIdle("the READ was answered")
}

// A copy of a READ of a queue of this process that is gone is no other process's.
func TestXRCCopyOfAReadOfAQueueThatIsGone(t *testing.T) {
	x := newSharing(t)
	p := readOf(others, peerPSN, 10)
	p.RETH.VA, p.RETH.RKey = 0x90000, x.mr.RKey()
	x.Recv(p)
	x.WantPacket("READ", wire.XRCRDMAReadResponseOnly, peerPSN)
	delete(x.boxes, others)
	x.Recv(p)
	x.fetch()
	x.wantAnswer(t, "again", peerPSN, wire.NAKRemoteAccess)
	x.WantState("again", ib.QPRTS)
}

// A message that fails takes one receive, also where its refusal waits for a response.
func TestXRCFailureBehindAReadTakesOneReceive(t *testing.T) {
	const n = pieceBytes + 10
	data := script.Bytes(n, 3)
	x := reading(t, n)
	x.piece(0, data[:pieceBytes])
	x.wantResponse("a piece", peerPSN, true, false, data[:pieceBytes])
	x.PostRecv(0, 5)
	x.PostRecv(100, 5)
	x.Recv(send(ours, peerPSN+65))
	x.fetch()
	x.their.wantRead(t, "the rest", 64, 0x5000+pieceBytes, 10)
	x.piece(64, data[pieceBytes:])
	x.wantResponse("the rest", peerPSN+64, false, true, data[pieceBytes:])
	x.fetch()
	x.wantAnswer(t, "the SEND is too long", peerPSN+65, wire.NAKInvalidRequest)
	x.WantRecvWC("of the SEND", 1001, ib.WCLocLenErr)
	x.WantNoWC("the other receive is left")
}

// The other target reads for a repeated response in the middle of a message, and of another queue.
func TestXRCTargetForOthersReadsInAMessage(t *testing.T) {
	x := newTargetOf(t, rc.NewXRCForOthers)
	x.PostRecv(0, 2048)
	x.Recv(forSRQ(ours, script.Request(wire.RCSendFirst, peerPSN, script.Bytes(1024, 2))))
	p := forSRQ(others, script.Request(wire.RCRDMAReadRequest, peerPSN+1, nil))
	p.RETH = wire.RETH{VA: 0x90000, RKey: x.mr.RKey(), DMALen: 10}
	x.Recv(p)
	got := x.WantPacket("READ", wire.XRCRDMAReadResponseOnly, peerPSN+1)
	if !bytes.Equal(got.Payload, x.bytes[:10]) {
		t.Error("other data")
	}
	p.PSN, p.XRCETH.SRQ = peerPSN+2, ours
	x.Recv(p)
	x.wantAnswer(t, "a key of another domain", peerPSN+2, wire.NAKRemoteAccess)
	p.PSN, p.XRCETH.SRQ, p.RETH.DMALen = peerPSN+3, nowhere, 0
	x.Recv(p)
	x.wantAnswer(t, "a queue that is gone", peerPSN+3, wire.NAKRemoteAccess)
	x.Recv(forSRQ(ours, script.Request(wire.RCSendLast, peerPSN+4, script.Bytes(10, 3))))
	x.wantAnswer(t, "the rest", peerPSN+4, noCredits)
	if wc := x.WantRecvWC("of the SEND", 1001, ib.WCSuccess); wc.ByteLen != 1034 {
		t.Errorf("%d bytes", wc.ByteLen)
	}
}

// A queue pair that has failed fetches nothing. So it refuses a READ that is asked for again, which
// it had answered.
func TestXRCReadAgainAfterAFailure(t *testing.T) {
	data := script.Bytes(10, 3)
	x := reading(t, 10)
	x.piece(0, data)
	x.wantResponse("the READ", peerPSN, true, true, data)
	x.PostRecv(0, 5)
	x.Recv(send(ours, peerPSN+1)) // too long
	x.wantAnswer(t, "the SEND", peerPSN+1, wire.NAKInvalidRequest)
	x.WantRecvWC("of the SEND", 1001, ib.WCLocLenErr)
	x.WantEvent("of the SEND", ib.EventQPReqErr)
	x.Recv(readOf(theirs, peerPSN, 10))
	x.fetch()
	x.wantAnswer(t, "the READ again", peerPSN, wire.NAKRemoteOperational)
	x.WantIdle("nothing is fetched")
}
