// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"testing"

	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

const (
	ect0      = 2
	congested = 3
	cnpPeriod = 50 * monotime.Microsecond
)

func cnp() wire.Packet {
	return wire.Packet{BTH: wire.BTH{Opcode: wire.CNP, BECN: true}, Payload: make([]byte, 16)}
}

// wantCNP takes a CNP, which must have the fields of IBTA A17.9.3 and not be ECN-capable.
func wantCNP(t *testing.T, s *script.Script, why string) {
	t.Helper()
	p := s.WantPacket(why, wire.CNP, 0)
	if !p.BECN || p.FECN || p.AckReq || p.MigReq || p.Solicited || p.PKey != ib.DefaultPKey ||
		p.DestQP != script.PeerQPN || len(p.Payload) != 16 || [16]byte(p.Payload) != [16]byte{} {
		t.Errorf("%s: %+v", why, p)
	}
	if s.TClass != 0 {
		t.Errorf("%s: traffic class %#x", why, s.TClass)
	}
}

// A marked packet is answered by a CNP, before anything else, and by no more than one in 50 µs.
func TestMarkIsAnswered(t *testing.T) {
	s := receiver(t, 100)
	for range 3 {
		s.PostRecv(0, 4096)
	}
	s.TOS = congested
	s.Recv(script.Request(wire.RCSendOnly, peerPSN, nil))
	s.WantCount("marked", roce.CEMarked, 1)
	s.WantCount("sent", roce.SentCNP, 1)
	p := s.Packets()
	if len(p) != 2 || p[0].Opcode != wire.CNP || p[1].Opcode != wire.RCAcknowledge {
		t.Fatalf("%d packets: %v", len(p), p)
	}
	if s.TClass != ect0 {
		t.Errorf("traffic class %#x of the acknowledgement", s.TClass)
	}
	s.Advance(cnpPeriod - 1)
	s.Recv(script.Request(wire.RCSendOnly, peerPSN+1, nil))
	s.WantAck("no CNP so soon", peerPSN+1, 2)
	s.Advance(1)
	s.TOS = ect0
	s.Recv(script.Request(wire.RCSendOnly, peerPSN+2, nil))
	s.WantAck("this one was not marked", peerPSN+2, 3)
	s.TOS = congested
	s.Recv(script.Request(wire.RCSendFirst, peerPSN+3, make([]byte, 1024)))
	wantCNP(t, s, "the next")
	s.WantCount("sent", roce.SentCNP, 2)
}

// The DSCP of the address vector stays.
func TestTrafficClass(t *testing.T) {
	s := script.New(t, newRC)
	s.Post(script.Write(10))
	s.WantPacket("a request", wire.RCRDMAWriteOnly, psn)
	if s.TClass != ect0 {
		t.Errorf("traffic class %#x", s.TClass)
	}
	for _, c := range []struct{ given, sent uint8 }{{0x68, 0x6a}, {0x6b, 0x6a}, {1, 2}} {
		p := roce.NewPath(script.Local, 0xc123, &ib.GRH{DGID: ib.GIDFromAddr(script.Peer),
			TrafficClass: c.given}).WithECN(roce.ECT0)
		if p.TClass != c.sent {
			t.Errorf("traffic class %#x becomes %#x, want %#x", c.given, p.TClass, c.sent)
		}
	}
}

// No CNP answers a CNP, and strangers' CNPs are not obeyed.
func TestCNPFromAStranger(t *testing.T) {
	s := script.New(t, newRC)
	s.TOS = congested
	s.Recv(cnp())
	s.WantCount("obeyed", roce.RcvdCNP, 1)
	s.TOS = 0
	s.RecvFrom(cnp(), script.Local)
	s.WantCount("a stranger's is not", roce.RcvdCNP, 1)
	s.WantCount("but counted", roce.WrongSource, 1)
	s.WantIdle("nothing is sent")
}

// CNPs shrink the window, once a round trip, and not to less than one packet. In slow start those
// of the first round trip are only counted: a burst may have been marked.
func TestCNPShrinksTheWindow(t *testing.T) {
	before := outstandingAfter(t, 1)
	if after := outstandingAfter(t, 2); after > before*9/16 || after < before*7/16 {
		t.Errorf("%d packets after a round trip with CNPs, %d before", after, before)
	}
	if after := outstandingAfter(t, 100); after != 1 {
		t.Errorf("%d packets after 100 round trips with CNPs", after)
	}
}

// outstandingAfter returns how many packets are sent at once after n round trips with CNPs.
func outstandingAfter(t *testing.T, n int) int {
	t.Helper()
	s := script.New(t, newRC)
	s.Post(script.Write(10))
	s.WantPacket("measures the round trip", wire.RCRDMAWriteOnly, psn)
	s.Advance(100 * monotime.Microsecond)
	s.Recv(script.Ack(psn, 1))
	for range n {
		for range 10 {
			s.Recv(cnp())
		}
		s.Advance(200 * monotime.Microsecond)
	}
	s.Post(script.Write(250 << 10))
	return len(s.Packets())
}

// A marked READ response shrinks the requester's window, which decides how much comes.
func TestMarkedResponseShrinksTheWindow(t *testing.T) {
	ask := func(tos uint8) uint32 {
		s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.MaxRdAtomic = 1 }))
		s.Post(script.Read(1024))
		s.WantPacket("a READ", wire.RCRDMAReadRequest, psn)
		s.Advance(100 * monotime.Microsecond)
		s.TOS = tos
		s.Recv(script.Response(wire.RCRDMAReadResponseOnly, psn, make([]byte, 1024)))
		s.Packets()
		s.Post(script.Read(1024))
		s.WantPacket("a second", wire.RCRDMAReadRequest, psn+1)
		s.Advance(200 * monotime.Microsecond)
		s.Recv(script.Response(wire.RCRDMAReadResponseOnly, psn+1, make([]byte, 1024)))
		s.Packets()
		s.Post(script.Read(250 << 10))
		return s.WantPacket("a piece of the next", wire.RCRDMAReadRequest, psn+2).RETH.DMALen
	}
	if plain, marked := ask(ect0), ask(congested); marked > plain*9/16 {
		t.Errorf("READ requests of %d bytes, %d after two marks", plain, marked)
	}
}

// Where DCQCN has cut the rate, acknowledgements are asked for about once a millisecond. So it is
// in the last message of the queue, and on a long path. Else packets would be taken for lost.
func TestAsksOftenAtLowRate(t *testing.T) {
	const us, low = monotime.Microsecond, 4_000_000 // bytes a second
	for _, trip := range []monotime.Duration{100 * us, 2000 * us} {
		t.Run(trip.String(), func(t *testing.T) {
			s := script.New(t, func(c roce.Config) roce.Machine {
				c.Congestion = congestion.DCQCN
				return newRC(c)
			}, attr(func(a *ib.QPAttr) { a.PathMTU = ib.MTU4096 }))
			write := func(n int) { // each packet that asks for it is acknowledged a round trip later
				type answer struct {
					at  monotime.Time
					psn ib.PSN
				}
				var due []answer
				s.Post(script.Write(n))
				for s.SQ.Len() > 0 {
					for _, p := range s.Packets() {
						if p.AckReq {
							due = append(due, answer{s.Now.Add(trip), p.PSN})
						}
					}
					for len(due) > 0 && due[0].at <= s.Now {
						s.Recv(script.Ack(due[0].psn, 0))
						due = due[1:]
					}
					s.Advance(50 * us)
				}
			}
			for s.Machine.PathState().WindowBytes < 1<<20 { // 32 packets are an eighth of it
				write(250 << 10)
			}
			for rate := int64(0); rate == 0 || rate > low; rate = s.Machine.PathState().PaceRate {
				s.Recv(cnp())
				s.Advance(trip)
			}
			write(64 << 10)
			s.WantCount("probes", roce.TailProbe, 0)
			s.WantCount("nothing was lost", roce.Retransmitted, 0)
		})
	}
}
