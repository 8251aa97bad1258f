// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"maps"
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/roce"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// otherPeer is the peer's address on the alternate path.
var otherPeer = netip.MustParseAddr("192.0.2.7")

// alternate has the attributes of a modification that loads the alternate path and arms it.
var alternate = ib.QPAttr{PathMigState: ib.MigRearm, AltPortNum: 1, AltTimeout: 15,
	AltAH: ib.AHAttr{IsGlobal: true, GRH: ib.GRH{DGID: ib.GIDFromAddr(otherPeer), TrafficClass: 8}}}

// rearmed returns a machine in REARM.
func rearmed(t *testing.T, options ...func(*script.Setup)) *script.Script {
	s := script.New(t, newRC, options...)
	s.Machine.SetAlternate(roce.NewPath(script.Local, 9, &alternate.AltAH.GRH))
	s.Modify(alternate, ib.QPAltPath|ib.QPPathMigState)
	wantMigration(s, t, "loaded", ib.MigRearm, script.Peer)
	return s
}

// armed returns a machine in ARMED whose first message, of 10 bytes, is acknowledged.
func armed(t *testing.T, options ...func(*script.Setup)) *script.Script {
	s := rearmed(t, options...)
	s.Post(script.Write(10))
	if p := s.WantPacket("it could migrate", wire.RCRDMAWriteOnly, psn); p.MigReq {
		t.Fatal("MigReq is set")
	}
	s.Recv(script.Ack(psn, 1)) // MigReq 0
	s.WantWC("acknowledged", 1, ib.WCSuccess)
	wantMigration(s, t, "the peer is in REARM, too", ib.MigArmed, script.Peer)
	return s
}

func wantMigration(s *script.Script, t *testing.T, why string, state ib.MigState, peer netip.Addr) {
	t.Helper()
	var a ib.QPAttr
	s.Machine.Query(&a)
	if a.PathMigState != state || s.Machine.CurrentPath().Dst != peer {
		t.Fatalf("%s: %v to %v, want %v to %v", why, a.PathMigState, s.Machine.CurrentPath().Dst, state, peer)
	}
}

// wantMigrated wants a machine that has just changed to the alternate path.
func wantMigrated(s *script.Script, t *testing.T) {
	t.Helper()
	s.WantEvent("migrated", ib.EventPathMig)
	wantMigration(s, t, "migrated", ib.MigMigrated, otherPeer)
	var a ib.QPAttr
	s.Machine.Query(&a)
	if a.AH != alternate.AltAH || a.Timeout != alternate.AltTimeout || a.AltAH != (ib.AHAttr{}) {
		t.Fatalf("%+v", a)
	}
}

// A path that fails is left for the alternate one before the queue pair ends.
func TestMigrationWhenPathFails(t *testing.T) {
	s := armed(t, attr(func(a *ib.QPAttr) { a.RetryCnt = 1 }))
	s.Post(script.Send(100))
	s.Advance(2*ackTimeout - 1)
	s.Packets()
	wantMigration(s, t, "a retry is left", ib.MigArmed, script.Peer)
	s.Advance(1)
	wantMigrated(s, t)
	p := s.WantPacket("it goes by the alternate path", wire.RCSendOnly, psn+1)
	if !p.MigReq || s.Dst != otherPeer || s.TClass != 8|roce.ECT0 {
		t.Fatalf("MigReq %v, to %v, class %d", p.MigReq, s.Dst, s.TClass)
	}
	s.Recv(script.Ack(psn+1, 2))
	s.WantNoWC("the old path is none any more")
	s.WantCount("its packets", roce.WrongSource, 1)
	ack := script.Ack(psn+1, 2)
	ack.MigReq = true
	s.RecvFrom(ack, otherPeer)
	s.WantWC("done", 2, ib.WCSuccess)

	// There is no second alternate path. A time-out is that of the first.
	s.Post(script.Send(100))
	s.Advance(4*ackTimeout - 1)
	s.WantNoWC("retries are left, of twice the length")
	s.Advance(1)
	s.WantWC("the end", 3, ib.WCRetryExcErr)
}

// The peer migrates: its packet by the alternate path is taken, and answered there.
func TestMigrationFollowsPeer(t *testing.T) {
	s := armed(t)
	s.PostRecv(0, 100)
	early := script.Request(wire.RCSendOnly, peerPSN, script.Bytes(10, 1))
	s.RecvFrom(early, otherPeer)
	s.WantCount("without MigReq it is a stranger's", roce.WrongSource, 1)
	p := early
	p.MigReq = true
	s.RecvFrom(p, netip.MustParseAddr("192.0.2.8"))
	s.WantCount("from elsewhere, too", roce.WrongSource, 2)
	s.Recv(p)
	wantMigration(s, t, "by the old path it asks for nothing", ib.MigArmed, script.Peer)
	s.WantAck("it is taken", peerPSN, 1)

	s.PostRecv(0, 100)
	p.PSN++
	s.RecvFrom(p, otherPeer)
	wantMigrated(s, t)
	if a := s.WantAck("the answer", peerPSN+1, 2); !a.MigReq || s.Dst != otherPeer {
		t.Fatalf("MigReq %v, to %v", a.MigReq, s.Dst)
	}
}

// A peer that migrates before this end is armed is not followed, and the application is notified.
func TestMigrationTooEarly(t *testing.T) {
	s := rearmed(t)
	p := script.Request(wire.RCSendOnly, peerPSN, nil)
	p.MigReq = true
	for range 3 {
		s.RecvFrom(p, otherPeer)
	}
	s.WantEvent("once", ib.EventPathMigErr)
	if e, ok := s.Machine.PollEvent(); ok {
		t.Fatalf("%v", e)
	}
	s.WantCount("not taken", roce.WrongSource, 3)
	wantMigration(s, t, "not followed", ib.MigRearm, script.Peer)
	s.Recv(wire.Packet{BTH: wire.BTH{Opcode: wire.CNP, BECN: true}})
	wantMigration(s, t, "the bit of a CNP says nothing", ib.MigRearm, script.Peer)

	// Disarmed, nothing is said any more, and there is no change of path.
	s.Modify(ib.QPAttr{PathMigState: ib.MigMigrated}, ib.QPPathMigState)
	wantMigration(s, t, "disarmed", ib.MigMigrated, script.Peer)
	s.RecvFrom(p, otherPeer)
	s.WantCount("a stranger's", roce.WrongSource, 4)
	if e, ok := s.Machine.PollEvent(); ok {
		t.Fatalf("%v", e)
	}
}

// The application migrates.
func TestMigrationByModify(t *testing.T) {
	s := armed(t)
	s.Modify(ib.QPAttr{PathMigState: ib.MigMigrated}, ib.QPPathMigState)
	wantMigrated(s, t)
	if a := s.WantAck("the peer is told, so that it follows", peerPSN-1, 0); !a.MigReq || s.Dst != otherPeer {
		t.Fatalf("MigReq %v, to %v", a.MigReq, s.Dst)
	}
	s.Post(script.Write(10))
	if p := s.WantPacket("by the new path", wire.RCRDMAWriteOnly, psn+1); !p.MigReq || s.Dst != otherPeer {
		t.Fatalf("MigReq %v, to %v", p.MigReq, s.Dst)
	}
	s.Modify(ib.QPAttr{PathMigState: ib.MigRearm}, ib.QPPathMigState)
	wantMigration(s, t, "there is nothing to arm", ib.MigMigrated, otherPeer)
}

// All outstanding packets go again by the new path at once, with all retries: after the peer has
// migrated, and after the application has.
func TestMigrationRepeatsOutstanding(t *testing.T) {
	for who, migrate := range map[string]func(*script.Script){
		"the peer": func(s *script.Script) {
			p := script.Ack(psn, 1)
			p.MigReq = true
			s.RecvFrom(p, otherPeer)
		},
		"the application": func(s *script.Script) {
			s.Modify(ib.QPAttr{PathMigState: ib.MigMigrated}, ib.QPPathMigState)
		},
	} {
		s := armed(t, attr(func(a *ib.QPAttr) { a.RetryCnt = 1 }))
		s.Post(script.Send(100))
		s.Advance(2*ackTimeout - 1)
		s.Packets()
		migrate(s)
		wantMigrated(s, t)
		got := map[wire.Opcode]ib.PSN{}
		for _, p := range s.Packets() {
			got[p.Opcode] = p.PSN
		}
		want := map[wire.Opcode]ib.PSN{wire.RCSendOnly: psn + 1, wire.RCAcknowledge: peerPSN - 1}
		if !maps.Equal(got, want) || s.Dst != otherPeer {
			t.Fatalf("%s: %v to %v", who, got, s.Dst)
		}
		s.Advance(1)
		s.WantNoWC("the time-out was that of the old path")
		s.Packets()
		p := script.Ack(psn+1, 2)
		p.MigReq = true
		s.RecvFrom(p, otherPeer)
		s.WantWC("done", 2, ib.WCSuccess)
	}
}

// A packet by the alternate path whose PSN nobody expects is a stranger's.
func TestMigrationIsNotGuessed(t *testing.T) {
	s := armed(t)
	s.Post(script.Send(100))
	s.Packets()
	far := []wire.Packet{
		script.Request(wire.RCSendOnly, peerPSN+1<<18+1, nil),
		script.Request(wire.RCSendOnly, peerPSN.Add(1<<24-1<<18-1), nil),
		script.Ack(psn-1, 1), script.Ack(psn+2, 1),
		script.Nak(psn+2, wire.NAKPSNSequence),
		{BTH: wire.BTH{Opcode: wire.CNP, BECN: true}},
	}
	for i, p := range far {
		p.MigReq = true
		s.RecvFrom(p, otherPeer)
		wantMigration(s, t, p.Opcode.String(), ib.MigArmed, script.Peer)
		s.WantCount("a stranger's", roce.WrongSource, uint64(i+1))
	}
	p := script.Ack(psn, 1) // the newest one again
	p.MigReq = true
	s.RecvFrom(p, otherPeer)
	wantMigrated(s, t)
}
