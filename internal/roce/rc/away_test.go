// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"testing"

	"verbena/ib"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// theirs and far are shared receive queues of two other processes.
const (
	theirs ib.SRQN = 0x71
	far    ib.SRQN = 0x82
)

// neighbours are the other processes of a target's domain, by the high digit of a queue's number.
type neighbours struct {
	asked []int
	first ib.PSN // of the last that was asked
	left  bool
}

func (n *neighbours) Owner(q ib.SRQN) (int, bool) { return int(q >> 4), q>>4 > 6 }
func (n *neighbours) LeaveAll()                   { n.left = true }
func (n *neighbours) Ask(process int, first ib.PSN) {
	n.asked, n.first = append(n.asked, process), first
}

// ring takes the packets that are passed on to a process.
type ring struct {
	got  []wire.Packet
	says rc.Passage
}

func (r *ring) Forward(p *wire.Packet, _ uint32) rc.Passage {
	if r.says == rc.Passed {
		r.got = append(r.got, *p)
	}
	return r.says
}

// sharing is a target whose domain two other processes share.
type sharing struct {
	*target
	t           *testing.T
	others      neighbours
	their, fars ring
}

func newSharing(t *testing.T) *sharing {
	x := &sharing{target: newTarget(t), t: t}
	x.qp.Share(&x.others)
	return x
}

// do has the caller of the target do something.
func (x *sharing) do(f func()) {
	x.t.Helper()
	x.Together(f)
}

func (x *sharing) takes(process int, r *ring) {
	x.t.Helper()
	x.do(func() { x.qp.Answered(process, r) })
}

func (x *sharing) answers(psn ib.PSN, s wire.Syndrome) {
	x.t.Helper()
	p := wire.Packet{BTH: wire.BTH{Opcode: wire.XRCAcknowledge, PSN: psn}, AETH: wire.AETH{Syndrome: s}}
	x.data(p, 1)
}

// data gives the target a response of the other process, which stands for n packets.
func (x *sharing) data(p wire.Packet, n uint32) {
	x.t.Helper()
	p.Info = p.Opcode.Info()
	x.do(func() { x.qp.HandleAnswer(0, 7, &p, n) })
}

// send is a SEND of one packet.
func send(n ib.SRQN, psn ib.PSN) wire.Packet {
	return forSRQ(n, script.Request(wire.RCSendOnly, psn, script.Bytes(10, byte(psn))))
}

// wantPassed takes all that was passed on, which must have these PSNs.
func (r *ring) wantPassed(t *testing.T, why string, psns ...ib.PSN) {
	t.Helper()
	if len(r.got) != len(psns) {
		t.Fatalf("%s: %d packets were passed on, want %d", why, len(r.got), len(psns))
	}
	for i, p := range r.got {
		if p.PSN != psns[i] || !p.AckReq {
			t.Errorf("%s: packet %d has PSN %v, want %v", why, i, p.PSN, psns[i])
		}
	}
	r.got = nil
}

// The requester gets the other process's acknowledgement, and what is for this process waits.
func TestXRCPassedOn(t *testing.T) {
	x := newSharing(t)
	x.Recv(send(theirs, peerPSN))
	x.Recv(send(theirs, peerPSN+1))
	if len(x.others.asked) != 1 || x.others.asked[0] != 7 {
		t.Fatalf("asked %v", x.others.asked)
	}
	x.WantQuiet("the process has not answered")
	x.takes(7, &x.their)
	x.their.wantPassed(t, "it takes requests", 0, 1)
	x.PostRecv(0, 100)
	x.Recv(send(ours, peerPSN+2))
	x.Recv(send(theirs, peerPSN)) // again
	x.WantQuiet("nothing is answered")
	x.WantNoWC("what came later waits")
	x.answers(0, noCredits)
	x.wantAnswer(t, "the first", peerPSN, noCredits)
	x.WantNoWC("what came later waits for all")
	x.answers(1, noCredits)
	x.WantRecvWC("its turn", 1001, ib.WCSuccess)
	x.wantAnswer(t, "all", peerPSN+2, noCredits)
	x.Recv(send(theirs, peerPSN+1))
	x.wantAnswer(t, "a duplicate", peerPSN+2, noCredits)
	x.their.wantPassed(t, "nothing twice")
	x.Recv(send(far, peerPSN+3))
	x.takes(8, &x.fars)
	x.fars.wantPassed(t, "another process has PSNs of its own", 0)
	x.WantIdle("done")
}

// An RNR NAK takes both ends back to the message. Packets that the requester was told were kept
// come from here, and all others from the requester.
func TestXRCPassedOnNotReady(t *testing.T) {
	x := newSharing(t)
	x.Recv(send(theirs, peerPSN))
	x.takes(7, &x.their)
	x.answers(0, noCredits)
	x.wantAnswer(t, "the first", peerPSN, noCredits)
	x.their.wantPassed(t, "the first", 0)

	kept := send(theirs, peerPSN+2)
	kept.Selective = true
	x.Recv(kept)
	wantSack(t, x.Script, "a gap", peerPSN+3, gap(peerPSN+1, peerPSN+1))
	x.Recv(send(theirs, peerPSN+1))
	x.Recv(send(theirs, peerPSN+3))
	x.their.wantPassed(t, "three", 1, 2, 3)
	x.answers(1, wire.RNRNAK(5))
	x.wantAnswer(t, "not ready", peerPSN+1, wire.RNRNAK(x.qp.Attr.MinRNRTimer))
	x.WantCount("not ready", roce.SentRNRNAK, 1)
	x.Recv(send(theirs, peerPSN+1))
	x.their.wantPassed(t, "repeated, with the one kept behind it", 1, 2)
	x.Recv(send(theirs, peerPSN+3))
	x.their.wantPassed(t, "the last", 3)
	x.answers(3, noCredits)
	x.wantAnswer(t, "all", peerPSN+3, noCredits)
	x.WantIdle("done")
}

// A SACK and a NAK acknowledge what is before the gap, so they wait for the other process.
func TestXRCPassedOnWithGap(t *testing.T) {
	for _, selective := range []bool{false, true} {
		x := newSharing(t)
		x.Recv(send(theirs, peerPSN))
		x.takes(7, &x.their)
		later := send(theirs, peerPSN+2)
		later.Selective = selective
		x.Recv(later)
		x.WantQuiet("the first is not answered")
		x.answers(0, noCredits)
		x.wantAnswer(t, "the first", peerPSN, noCredits)
		if selective {
			wantSack(t, x.Script, "then the gap", peerPSN+3, gap(peerPSN+1, peerPSN+1))
		} else {
			x.wantAnswer(t, "then the gap", peerPSN+1, wire.NAKPSNSequence)
		}
		x.Recv(send(theirs, peerPSN+1))
		x.their.wantPassed(t, "all in order", 0, 1, 2)
		x.answers(2, noCredits)
		x.wantAnswer(t, "all", peerPSN+2, noCredits)
	}
}

// Each error ends the target at the packet that it is of.
func TestXRCPassedOnFails(t *testing.T) {
	for _, c := range []struct {
		name  string
		what  func(x *sharing)
		nak   wire.Syndrome
		at    ib.PSN
		event ib.EventType
	}{
		{"length", func(x *sharing) { x.answers(1, wire.NAKInvalidRequest) }, wire.NAKInvalidRequest, 1, ib.EventQPReqErr},
		{"key", func(x *sharing) { x.answers(0, wire.NAKRemoteAccess) }, wire.NAKRemoteAccess, 0, ib.EventQPAccessErr},
		{"gone", func(x *sharing) { x.do(func() { x.qp.Lost(7) }) }, wire.NAKRemoteOperational, 0, ib.EventQPFatal},
		{"its ring gone", func(x *sharing) { x.their.says = rc.NoWay; x.Recv(send(theirs, peerPSN+2)) }, wire.NAKRemoteOperational, 0, ib.EventQPFatal},
		{"a wrong answer", func(x *sharing) { x.answers(0, wire.NAKPSNSequence) }, wire.NAKRemoteOperational, 0, ib.EventQPFatal},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newSharing(t)
			x.Recv(send(theirs, peerPSN))
			x.Recv(send(theirs, peerPSN+1))
			x.takes(7, &x.their)
			c.what(x)
			if c.at > 0 {
				x.wantAnswer(t, "before it", peerPSN, noCredits)
			}
			x.wantAnswer(t, "the error", peerPSN+c.at, c.nak)
			x.WantEvent("the error", c.event)
			x.WantState("the error", ib.QPErr)
			if !x.others.left {
				t.Error("the others were not left")
			}
		})
	}
	x := newSharing(t)
	x.Recv(send(theirs, peerPSN))
	x.Recv(send(theirs, peerPSN+1))
	x.takes(7, &x.their)
	x.their.says = rc.NoRoom
	x.Recv(send(theirs, peerPSN+2))
	x.their.says = rc.NoWay // when the first is acknowledged
	x.answers(1, wire.RNRNAK(5))
	x.wantAnswer(t, "the first", peerPSN, noCredits)
	x.wantAnswer(t, "its ring gone, behind a NAK", peerPSN+1, wire.NAKRemoteOperational)
	x.WantEvent("its ring gone, behind a NAK", ib.EventQPFatal)
	x.WantQuiet("its ring gone, behind a NAK")

	x = newSharing(t)
	x.Recv(send(theirs, peerPSN))
	x.do(func() { x.qp.Answered(7, nil) })
	x.wantAnswer(t, "the process has no such domain", peerPSN, wire.NAKRemoteAccess)
}

// A full ring holds the request up. Answers to packets that were not sent change nothing.
func TestXRCPassedOnWithoutRoom(t *testing.T) {
	x := newSharing(t)
	x.Recv(send(theirs, peerPSN))
	x.their.says = rc.NoRoom
	x.takes(7, &x.their)
	x.answers(0, noCredits)
	x.answers(5, wire.NAKRemoteAccess)
	x.answers(0, wire.RNRNAK(1))
	x.WantQuiet("nothing was passed on")
	x.their.says = rc.Passed
	x.do(x.qp.Retry)
	x.their.wantPassed(t, "room", 0)
	x.answers(0, noCredits)
	x.wantAnswer(t, "the first", peerPSN, noCredits)
}

// Answers of the connection before acknowledge nothing in the next one.
func TestXRCPassedOnAgain(t *testing.T) {
	for name, end := range map[string]func(x *sharing){
		"reset": func(x *sharing) {
			x.SetState(ib.QPReset)
			x.Connect()
		},
		"lost": func(x *sharing) {
			x.answers(0, noCredits)
			x.wantAnswer(t, "the first", peerPSN, noCredits)
			x.do(func() { x.qp.Lost(7) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newSharing(t)
			x.Recv(send(theirs, peerPSN))
			x.takes(7, &x.their)
			x.their.wantPassed(t, "the first", 0)
			end(x)
			psn := peerPSN
			if name == "lost" {
				psn++
			}
			x.Recv(send(theirs, psn))
			x.takes(7, &x.their)
			x.their.wantPassed(t, "the next", x.others.first)
			x.answers(0, noCredits)
			x.answers(0, wire.NAKRemoteAccess)
			x.WantQuiet("that was the first")
			x.answers(x.others.first, noCredits)
			x.wantAnswer(t, "the next", psn, noCredits)
		})
	}
}

// The memory of requests that were kept, and are passed on, counts until they are answered, and
// goes back in every case.
func TestXRCPassedOnTakesMemory(t *testing.T) {
	const requests = 3 // behind a gap
	for name, end := range map[string]func(x *sharing){
		"answered": func(x *sharing) { x.answers(1, noCredits); x.answers(1+requests, noCredits) },
		"not ready": func(x *sharing) {
			x.answers(2, wire.RNRNAK(5))
			x.Recv(send(theirs, peerPSN+2))
			x.answers(1+requests, noCredits)
		},
		"refused": func(x *sharing) { x.answers(2, wire.NAKRemoteAccess) },
		"lost":    func(x *sharing) { x.do(func() { x.qp.Lost(7) }) },
		"reset":   func(x *sharing) { x.SetState(ib.QPReset) },
		"no room": func(x *sharing) {
			x.answers(1+requests, noCredits)
			x.their.says = rc.NoRoom
			x.Recv(send(theirs, peerPSN+6))
			x.Recv(send(theirs, peerPSN+5)) // both wait for room
			x.their.says = rc.Passed
			x.do(x.qp.Retry)
			x.answers(6, noCredits)
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newSharing(t)
			b := x.qp.Reorder
			all := b.Left()
			x.Recv(send(theirs, peerPSN))
			x.takes(7, &x.their)
			x.answers(0, noCredits)
			before := b.Left()
			for i := range ib.PSN(requests) {
				x.Recv(send(theirs, peerPSN+2+i))
			}
			each := (before - b.Left()) / requests
			x.Recv(send(theirs, peerPSN+1))
			x.their.wantPassed(t, "the gap is filled", 0, 1, 2, 3, 4)
			if took := all - b.Left(); took < requests*10 || took > requests*each {
				t.Errorf("%d requests of 10 bytes that are passed on take %d bytes", requests, took)
			}
			end(x)
			if left := b.Left(); left != all {
				t.Errorf("%d bytes are not given back", all-left)
			}
		})
	}
}
