// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

const fastAccess = ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessRemoteRead

// fast returns a fast-registration region mapped over n bytes from off.
func fast(t *testing.T, s *script.Script, off, n int) *mem.Region {
	t.Helper()
	r, err := s.Mem.AllocFast(script.PD, 4)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Map([][]byte{s.Memory[off : off+n]}, 0x5000); err != nil {
		t.Fatal(err)
	}
	return r
}

// REG_MR, use, LOCAL_INV, and the key is void.
func TestFastRegistration(t *testing.T) {
	s := script.New(t, newRC)
	r := fast(t, s, 1000, 100)
	key := r.RKey()&^0xff | 0x42
	s.Post(script.RegMR(r, key, fastAccess), script.Send(1))
	s.WantWC("registered at once", 1, ib.WCSuccess)
	s.WantPacket("the key can be told", wire.RCSendOnly, psn)
	w := script.Request(wire.RCRDMAWriteOnly, peerPSN, script.Bytes(10, 1))
	w.RETH.VA, w.RETH.RKey, w.RETH.DMALen = 0x5000, key, 10
	s.Recv(w)
	s.WantAck("written", peerPSN, 1)
	s.WantMemory("written", 1000, script.Bytes(10, 1))

	s.Post(script.LocalInv(key))
	s.WantNoWC("waits for what was sent before")
	s.Recv(script.Ack(psn, 1))
	s.WantWC("sent", 2, ib.WCSuccess)
	if wc := s.WantWC("invalidated", 3, ib.WCSuccess); wc.Opcode != ib.WCLocalInv {
		t.Fatal(wc.Opcode)
	}
	w.PSN++
	s.Recv(w)
	s.WantNak("void", peerPSN+1, wire.NAKRemoteAccess)
}

// LOCAL_INV of a key that cannot be invalidated fails, and the queue with it.
func TestLocalInvFails(t *testing.T) {
	s := script.New(t, newRC)
	s.Post(script.LocalInv(s.MR.RKey()), script.Send(1))
	if wc := s.WantWC("a plain region", 1, ib.WCLocQPOpErr); wc.VendorErr != ib.VendorAccess {
		t.Fatal(wc.VendorErr)
	}
	s.WantWC("flushed", 2, ib.WCWRFlushErr)
	s.WantState("over", ib.QPErr)
}

// A SEND with invalidate voids the key and tells which.
func TestRemoteInvalidate(t *testing.T) {
	s := receiver(t, 100)
	r := fast(t, s, 1000, 100)
	key := r.RKey()&^0xff | 7
	s.Post(script.RegMR(r, key, fastAccess))
	s.WantWC("registered", 1, ib.WCSuccess)
	p := script.Request(wire.RCSendOnlyInvalidate, peerPSN, script.Bytes(5, 1))
	p.IETH.RKey = key
	s.Recv(p)
	wc := s.WantRecvWC("received", 1001, ib.WCSuccess)
	if wc.Flags != ib.WCWithInv || wc.InvalidatedRKey != key {
		t.Fatalf("%+v", wc)
	}
	s.WantAck("acknowledged", peerPSN, 1)
	s.Recv(p) // repeated by the network: not invalidated twice, no error
	s.WantAck("acknowledged again", peerPSN, 1)
	w := script.Request(wire.RCRDMAWriteOnly, peerPSN+1, script.Bytes(10, 1))
	w.RETH.VA, w.RETH.RKey, w.RETH.DMALen = 0x5000, key, 10
	s.Recv(w)
	s.WantNak("void", peerPSN+1, wire.NAKRemoteAccess)
}

// The requester sends the key to invalidate.
func TestSendInvalidate(t *testing.T) {
	s := script.New(t, newRC)
	s.Post(script.SendInv(2000, 0xabcd))
	s.WantPacket("first", wire.RCSendFirst, psn)
	if p := s.WantPacket("last", wire.RCSendLastInvalidate, psn+1); p.IETH.RKey != 0xabcd {
		t.Fatal(p.IETH.RKey)
	}
}

// A type 2 window opens part of a region to this queue pair until invalidated.
func TestWindow(t *testing.T) {
	s := receiver(t, 10)
	w, err := s.Mem.AllocWindow(script.PD, ib.MWType2)
	if err != nil {
		t.Fatal(err)
	}
	key := w.RKey()&^0xff | 9
	s.Post(script.BindMW(w, key, s.MR, script.Base+100, 50, ib.AccessRemoteWrite))
	if wc := s.WantWC("bound", 1, ib.WCSuccess); wc.Opcode != ib.WCBindMW {
		t.Fatal(wc.Opcode)
	}
	write := func(at ib.PSN, off, n int) wire.Packet {
		p := script.Request(wire.RCRDMAWriteOnly, at, script.Bytes(n, 1))
		p.RETH.VA, p.RETH.RKey, p.RETH.DMALen = script.Base+uint64(off), key, uint32(n)
		return p
	}
	s.Recv(write(peerPSN, 100, 50))
	s.WantAck("inside", peerPSN, 1)
	s.Recv(write(peerPSN+1, 101, 50))
	s.WantNak("one byte outside", peerPSN+1, wire.NAKRemoteAccess)
	s.WantUntouched("outside", 150, 10)
}

func TestBindFails(t *testing.T) {
	s := script.New(t, newRC)
	w, err := s.Mem.AllocWindow(script.PD, ib.MWType2)
	if err != nil {
		t.Fatal(err)
	}
	s.Post(script.BindMW(w, w.RKey(), s.MR, script.Base+uint64(len(s.Memory)), 50, ib.AccessRemoteWrite))
	if wc := s.WantWC("out of bounds", 1, ib.WCMWBindErr); wc.VendorErr != ib.VendorBounds {
		t.Fatal(wc.VendorErr)
	}
}
