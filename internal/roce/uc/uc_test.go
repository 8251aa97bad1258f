// SPDX-License-Identifier: BSD-2-Clause

package uc_test

import (
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/roce/uc"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

func newUC(c roce.Config) roce.Machine { return uc.New(c) }

const (
	psn     = script.PSN
	peerPSN = script.PeerPSN
)

func request(op wire.Opcode, at ib.PSN, payload []byte) wire.Packet {
	p := script.Request(op, at, payload)
	p.AckReq = false
	return p
}

// Work is complete when its last packet is handed to the wire, and the bytes
// are the application's again.
func TestSend(t *testing.T) {
	s := script.New(t, newUC)
	copy(s.Memory, script.Bytes(3000, 1))
	s.Post(script.SendImm(2500, 7), script.Write(3000).Unsignaled(), script.Send(0), script.WriteImm(1, 8).Solicited())
	want := []wire.Opcode{
		wire.UCSendFirst, wire.UCSendMiddle, wire.UCSendLastImm, wire.UCRDMAWriteFirst, wire.UCRDMAWriteMiddle, wire.UCRDMAWriteLast,
		wire.UCSendOnly, wire.UCRDMAWriteOnlyImm,
	}
	for i, op := range want {
		p := s.WantPacket("in order", op, psn.Add(uint32(i)))
		if p.AckReq || p.Solicited != (i == 7) || p.DestQP != script.PeerQPN {
			t.Fatalf("%+v", p.BTH)
		}
		if op == wire.UCRDMAWriteFirst && p.RETH.DMALen != 3000 {
			t.Fatalf("%+v", p.RETH)
		}
		if op == wire.UCSendMiddle && string(p.Payload) != string(s.Memory[1024:2048]) {
			t.Fatal("payload")
		}
	}
	s.WantWC("SEND", 1, ib.WCSuccess)
	s.WantWC("empty SEND", 3, ib.WCSuccess)
	s.WantWC("WRITE with immediate", 4, ib.WCSuccess)
	s.WantIdle("nothing is waited for")
}

// A failed send stops the send queue, not the receives. RTS starts it again.
func TestSendQueueError(t *testing.T) {
	s := script.New(t, newUC)
	bad := s.SGE(0, 10)
	bad.LKey++
	s.Post(script.Send(1), script.Send(2048).List(s.SGE(0, 1024), bad, s.SGE(0, 1014)), script.Send(1).Unsignaled())
	s.WantPacket("the first", wire.UCSendOnly, psn)
	s.WantPacket("what could be sent", wire.UCSendFirst, psn+1)
	s.WantWC("first", 1, ib.WCSuccess)
	s.WantWC("bad key", 2, ib.WCLocProtErr)
	s.WantWC("flushed, signaled or not", 3, ib.WCWRFlushErr)
	s.WantState("stopped", ib.QPSQE)
	s.Post(script.Send(1))
	s.WantWC("flushed", 4, ib.WCWRFlushErr)
	s.PostRecv(0, 10)
	s.Recv(request(wire.UCSendOnly, peerPSN, script.Bytes(10, 1)))
	s.WantRecvWC("receiving goes on", 1001, ib.WCSuccess)
	s.SetState(ib.QPRTS)
	s.Post(script.Send(1))
	s.WantPacket("on again", wire.UCSendOnly, psn+2)
	s.WantWC("on again", 5, ib.WCSuccess)
}

// READs, atomics and SEND with invalidate are not UC's.
func TestOperationsNotCarried(t *testing.T) {
	for _, wr := range []script.WR{script.Read(8), script.FetchAdd(1), script.CompareSwap(1, 2), script.AtomicWrite(), script.Flush(8), script.SendInv(1, 5)} {
		s := script.New(t, newUC)
		s.Post(wr)
		if wc := s.WantWC("refused", 1, ib.WCLocQPOpErr); wc.VendorErr != ib.VendorOpcode {
			t.Fatal(wc.VendorErr)
		}
		s.WantQuiet("nothing sent")
	}
}

// LOCAL_INV and BIND_MW work as on RC.
func TestLocalOperations(t *testing.T) {
	s := script.New(t, newUC)
	w, err := s.Mem.AllocWindow(script.PD, ib.MWType2)
	if err != nil {
		t.Fatal(err)
	}
	key := w.RKey()&^0xff | 5
	s.Post(script.BindMW(w, key, s.MR, script.Base, 100, ib.AccessRemoteWrite))
	s.WantWC("bound", 1, ib.WCSuccess)
	p := request(wire.UCRDMAWriteOnly, peerPSN, script.Bytes(10, 1))
	p.RETH = wire.RETH{VA: script.Base, RKey: key, DMALen: 10}
	s.Recv(p)
	s.WantMemory("through the window", 0, script.Bytes(10, 1))
	s.Post(script.LocalInv(key))
	s.WantWC("invalidated", 2, ib.WCSuccess)
	p.PSN, p.Payload = peerPSN+1, script.Bytes(10, 9)
	s.Recv(p)
	s.WantMemory("closed", 0, script.Bytes(10, 1))
	s.WantCount("dropped in silence", roce.DroppedMessage, 1)
	s.WantState("and no harm done", ib.QPRTS)
	s.Post(script.LocalInv(s.MR.RKey()))
	s.WantWC("no window", 3, ib.WCLocQPOpErr)
	s.WantState("stopped", ib.QPSQE)
}

func TestReceive(t *testing.T) {
	s := script.New(t, newUC)
	s.PostRecv(0, 4096)
	s.PostRecv(0, 0)
	s.Recv(request(wire.UCSendFirst, peerPSN, script.Bytes(1024, 1)))
	p := request(wire.UCSendLastImm, peerPSN+1, script.Bytes(6, 2))
	p.ImmDt.Data = 77
	s.Recv(p)
	wc := s.WantRecvWC("SEND", 1001, ib.WCSuccess)
	if wc.ByteLen != 1030 || wc.ImmData != 77 || wc.Flags != ib.WCWithImm {
		t.Fatalf("%+v", wc)
	}
	s.WantMemory("data", 1024, script.Bytes(6, 2))
	s.Recv(s.At(request(wire.UCRDMAWriteFirst, peerPSN+2, script.Bytes(1024, 3)), 8192, 1500))
	p = request(wire.UCRDMAWriteLastImm, peerPSN+3, script.Bytes(476, 4))
	s.Recv(p)
	wc = s.WantRecvWC("WRITE", 1002, ib.WCSuccess)
	if wc.Opcode != ib.WCRecvRDMAWithImm || wc.ByteLen != 1500 {
		t.Fatalf("%+v", wc)
	}
	s.WantMemory("data", 8192+1024, script.Bytes(476, 4))
	s.WantQuiet("no acknowledgement, ever")
}

// Whatever breaks a message off, the next First or Only starts anew, with the
// receive of the broken one.
func TestBrokenMessages(t *testing.T) {
	type step struct {
		op wire.Opcode
		at ib.PSN
		n  int
	}
	for name, steps := range map[string][]step{
		"middle lost":            {{wire.UCSendFirst, 0, 1024}, {wire.UCSendMiddle, 2, 1024}, {wire.UCSendLast, 3, 5}},
		"last lost":              {{wire.UCSendFirst, 0, 1024}, {wire.UCSendMiddle, 1, 1024}},
		"first lost":             {{wire.UCSendMiddle, 1, 1024}, {wire.UCSendLast, 2, 5}},
		"two lost, last remains": {{wire.UCSendFirst, 0, 1024}, {wire.UCSendLast, 3, 5}},
		"SEND goes on as WRITE":  {{wire.UCSendFirst, 0, 1024}, {wire.UCRDMAWriteMiddle, 1, 1024}, {wire.UCRDMAWriteLast, 2, 4}},
		"middle too short":       {{wire.UCSendFirst, 0, 1024}, {wire.UCSendMiddle, 1, 1000}, {wire.UCSendLast, 2, 5}},
		"last empty":             {{wire.UCSendFirst, 0, 1024}, {wire.UCSendLast, 1, 0}},
		"above the MTU":          {{wire.UCSendOnly, 0, 1028}},
		"longer than the buffer": {{wire.UCSendFirst, 0, 1024}, {wire.UCSendMiddle, 1, 1024}, {wire.UCSendLast, 2, 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			s := script.New(t, newUC)
			s.PostRecv(0, 3000)
			next := ib.PSN(0)
			for _, st := range steps {
				s.Recv(request(st.op, peerPSN+st.at, script.Bytes(st.n, 1)))
				next = st.at + 1
			}
			s.WantNoWC("broken")
			s.WantUntouched("nothing beyond the buffer", 3000, 1000)
			s.Recv(request(wire.UCSendFirst, peerPSN+next, script.Bytes(1024, 5)))
			s.Recv(request(wire.UCSendLast, peerPSN+next+1, script.Bytes(7, 6)))
			if wc := s.WantRecvWC("the next message", 1001, ib.WCSuccess); wc.ByteLen != 1031 {
				t.Fatalf("%+v", wc)
			}
			s.WantMemory("is whole", 0, script.Bytes(1024, 5))
			s.WantMemory("is whole", 1024, script.Bytes(7, 6))
			s.WantState("unharmed", ib.QPRTS)
			s.WantIdle("in silence")
		})
	}
}

// A WRITE that may not be is dropped in silence and placed nowhere.
func TestWriteRefused(t *testing.T) {
	for name, f := range map[string]func(p *wire.Packet){
		"key":      func(p *wire.Packet) { p.RETH.RKey++ },
		"beyond":   func(p *wire.Packet) { p.RETH.VA += 1 << 18 },
		"wraps":    func(p *wire.Packet) { p.RETH.VA = ^uint64(0) - 3 },
		"too long": func(p *wire.Packet) { p.RETH.DMALen = 1<<31 + 1 },
		"length":   func(p *wire.Packet) { p.RETH.DMALen = 17 },
	} {
		t.Run(name, func(t *testing.T) {
			s := script.New(t, newUC)
			s.PostRecv(0, 10)
			p := s.At(request(wire.UCRDMAWriteOnlyImm, peerPSN, script.Bytes(16, 1)), 0, 16)
			f(&p)
			s.Recv(p)
			s.WantIdle("in silence")
			s.WantCount("counted", roce.DroppedMessage, 1)
			s.WantUntouched("nothing placed", 0, 64)
			s.WantUntouched("nothing placed", len(s.Memory)-64, 64)
		})
	}
	s := script.New(t, newUC, func(s *script.Setup) { s.Attr.AccessFlags = 0 })
	s.Recv(s.At(request(wire.UCRDMAWriteOnly, peerPSN, script.Bytes(16, 1)), 0, 16))
	s.WantUntouched("the queue pair does not accept WRITEs", 0, 16)
}

// No receive: the message is lost.
func TestNoReceive(t *testing.T) {
	s := script.New(t, newUC)
	s.Recv(request(wire.UCSendFirst, peerPSN, script.Bytes(1024, 1)))
	s.PostRecv(0, 2048)
	s.Recv(request(wire.UCSendLast, peerPSN+1, script.Bytes(10, 1)))
	s.WantIdle("lost")
	s.WantCount("counted", roce.DroppedNoRecv, 1)
	s.Recv(request(wire.UCSendOnly, peerPSN+2, script.Bytes(10, 2)))
	s.WantRecvWC("the next", 1001, ib.WCSuccess)
}

// A receive whose key does not allow writing ends the queue pair.
func TestReceiveWrongLKey(t *testing.T) {
	s := script.New(t, newUC)
	g := s.SGE(0, 100)
	g.LKey++
	s.PostRecvList(g)
	s.PostRecv(0, 10)
	s.Recv(request(wire.UCSendOnly, peerPSN, script.Bytes(10, 1)))
	s.WantRecvWC("protection", 1001, ib.WCLocProtErr)
	s.WantRecvWC("flushed", 1002, ib.WCWRFlushErr)
	s.WantState("over", ib.QPErr)
	s.WantEvent("told", ib.EventQPFatal)
}

// SQD finishes the message that is half sent: with a burst of one packet the
// state changes in between.
func TestDrain(t *testing.T) {
	s := script.New(t, newUC)
	s.Together(func() {
		s.Post(script.Send(1))
		s.Modify(ib.QPAttr{State: ib.QPSQD, EnSQDAsyncNotify: true}, ib.QPStateAttr|ib.QPEnSQDAsyncNotify)
	})
	s.WantEvent("nothing half sent", ib.EventSQDrained)
	s.WantIdle("nothing starts")
	s.SetState(ib.QPRTS)
	s.WantPacket("now", wire.UCSendOnly, psn)
	s.WantWC("now", 1, ib.WCSuccess)
}

func TestErrorAndReset(t *testing.T) {
	s := script.New(t, newUC)
	s.PostRecv(0, 4096)
	s.PostRecv(0, 10)
	s.Recv(request(wire.UCSendFirst, peerPSN, script.Bytes(1024, 1)))
	s.SetState(ib.QPErr)
	s.WantRecvWC("in use", 1001, ib.WCWRFlushErr)
	s.WantRecvWC("posted", 1002, ib.WCWRFlushErr)
	s.Post(script.Send(1))
	s.WantWC("flushed", 1, ib.WCWRFlushErr)
	s.Recv(request(wire.UCSendOnly, peerPSN+1, nil))
	s.Advance(monotime.Second)
	s.WantIdle("deaf")
	s.SetState(ib.QPReset)
	s.WantIdle("forgotten")
}

// A limit of the rate, here of a byte a microsecond, holds packets back in the middle of a message.
func TestRateLimit(t *testing.T) {
	const us = monotime.Microsecond
	s := script.New(t, newUC)
	s.Modify(ib.QPAttr{RateLimit: 8000, RateBurst: 1}, ib.QPRateLimit)
	s.Post(script.Send(2048))
	s.WantPacket("at once", wire.UCSendFirst, psn)
	s.Advance((wire.BTHBytes+1024+wire.ICRCBytes)*us - 1)
	s.WantQuiet("too early")
	s.Advance(1)
	s.WantPacket("at the rate", wire.UCSendLast, psn+1)
	s.WantWC("done", 1, ib.WCSuccess)
	s.WantIdle("nothing is held")
}

// A packet by the alternate path is followed only if its PSN is near the one expected.
func TestMigrationIsNotGuessed(t *testing.T) {
	s := script.New(t, newUC)
	other := netip.MustParseAddr("192.0.2.7")
	a := ib.QPAttr{PathMigState: ib.MigRearm, AltAH: ib.AHAttr{IsGlobal: true, GRH: ib.GRH{DGID: ib.GIDFromAddr(other)}}}
	s.Machine.SetAlternate(roce.NewPath(script.Local, 9, &a.AltAH.GRH))
	s.Modify(a, ib.QPAltPath|ib.QPPathMigState)
	s.PostRecv(0, 100)
	s.Recv(request(wire.UCSendOnly, peerPSN, nil)) // MigReq 0: the peer is in REARM, too
	expected := ib.PSN(peerPSN).Add(1)
	for _, test := range []struct {
		psn  ib.PSN
		want netip.Addr
	}{
		{expected.Add(1<<20 + 1), script.Peer}, {expected.Add(1<<24 - 1<<20 - 1), script.Peer},
		{expected.Add(1 << 20), other},
	} {
		p := request(wire.UCSendOnly, test.psn, nil)
		p.MigReq = true
		s.RecvFrom(p, other)
		if got := s.Machine.CurrentPath().Dst; got != test.want {
			t.Errorf("PSN %v: path to %v, want %v", test.psn, got, test.want)
		}
	}
}
