// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"testing"

	"verbena/ib"
	"verbena/internal/roce"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// readsRETHs has the peer answer WRITEs, which open the window, and say that it reads the RETHs of
// all packets.
func readsRETHs(s *script.Script) { open(s, true) }

func open(s *script.Script, says bool) {
	const writes = 8
	for range writes {
		s.Post(script.Write(128 << 10))
		for list := s.Packets(); len(list) > 0; list = s.Packets() {
			a := script.Ack(list[len(list)-1].PSN, 0)
			a.AllRETH = says
			s.Recv(a)
		}
	}
	for i := range uint64(writes) {
		s.WantWC("acknowledged", i+1, ib.WCSuccess)
	}
	s.Bursts = 0
}

// large has the path MTU for which all packets of a WRITE have a RETH.
var large = attr(func(a *ib.QPAttr) { a.PathMTU = ib.MTU4096 })

// Once the peer has said that it reads them, all packets of a WRITE that are as long as the path
// MTU have a RETH. So they are as long as the First, and the WRITEs of a queue share bursts.
func TestAllRETH(t *testing.T) {
	same := func(*script.Setup) {}
	two := func(n int) []script.WR { return []script.WR{script.Write(n), script.Write(n)} }
	for _, c := range []struct {
		name   string
		says   bool
		set    func(*script.Setup)
		post   []script.WR
		reths  int // of Middle and Last packets
		bursts int
	}{
		{"not said", false, same, two(16 << 10), 0, 4},
		{"two WRITEs", true, same, two(16 << 10), 6, 1},
		{"a short end", true, same, two(16<<10 - 1), 4, 2},
		{"immediate data", true, same, []script.WR{script.WriteImm(16<<10, 7)}, 2, 1},
		{"SENDs", true, same, []script.WR{script.Send(16 << 10), script.Send(16 << 10)}, 0, 1},
		{"64 KiB", true, same, []script.WR{script.Write(64 << 10)}, 15, 2},
		{"a smaller path MTU", true, attr(func(a *ib.QPAttr) { a.PathMTU = ib.MTU2048 }), two(16 << 10), 0, 4},
		{"datagram by datagram", true, func(s *script.Setup) { s.Segments = 1 }, two(16 << 10), 0, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := script.New(t, newRC, large, c.set)
			copy(s.Memory, script.Bytes(len(s.Memory), 3))
			open(s, c.says)
			s.Post(c.post...)
			off, reths := 0, 0
			for _, p := range s.Packets() {
				if p.Info.First {
					off = 0
				}
				if string(p.Payload) != string(s.Memory[off:off+len(p.Payload)]) {
					t.Errorf("%v: wrong payload", script.Format(&p))
				}
				if !p.Info.First && p.Info.HasRETH {
					reths++
				}
				want := wire.RETH{VA: script.RemoteAddr + uint64(off), RKey: script.RemoteKey,
					DMALen: c.post[0].Length - uint32(off)}
				if p.Info.HasRETH && p.RETH != want {
					t.Errorf("RETH %+v, want %+v", p.RETH, want)
				}
				off += len(p.Payload)
			}
			if reths != c.reths || s.Bursts != c.bursts {
				t.Errorf("%d RETHs in %d bursts, want %d in %d", reths, s.Bursts, c.reths, c.bursts)
			}
		})
	}
}

// A WRITE of more than 64 packets has one in its First only.
func TestAllRETHOfLongWrites(t *testing.T) {
	for n, want := range map[int]bool{256 << 10: true, 256<<10 + 1: false} {
		s := script.New(t, newRC, large)
		readsRETHs(s)
		s.Post(script.Write(n).List(s.SGE(0, n/2), s.SGE(0, n-n/2)))
		if p := s.Packets()[1]; p.Opcode != wire.RCRDMAWriteMiddle || p.Info.HasRETH != want {
			t.Errorf("%d bytes: %v", n, script.Format(&p))
		}
	}
}

// Nothing is cut within a host, where packets go by memory.
func TestAllRETHNotInRings(t *testing.T) {
	s := script.New(t, newRC, large, func(s *script.Setup) { s.Ring = 9000 })
	s.Post(script.Write(1))
	s.WantPacket("a byte", wire.RCRDMAWriteOnly, psn)
	a := script.Ack(psn, 1)
	a.AllRETH = true
	s.Recv(a)
	s.Post(script.Write(16 << 10))
	s.WantPacket("first", wire.RCRDMAWriteFirst, psn+1)
	if p := s.Packets()[0]; p.Info.First || p.Info.HasRETH {
		t.Errorf("%v", script.Format(&p))
	}
}

// A packet that is repeated has the form of the others, whatever the one had that was lost: the
// peer's answer may come while a WRITE is on its way.
func TestAllRETHRepeated(t *testing.T) {
	s := script.New(t, newRC, large)
	open(s, false)
	s.Post(script.Write(16 << 10))
	psn := s.WantDrain("sent", 4)[0].PSN
	n := script.Nak(psn+1, wire.NAKPSNSequence)
	n.AllRETH = true
	s.Recv(n)
	list := s.Packets()
	s.Recv(script.Ack(psn+1, 0)) // where one packet alone was repeated
	list = append(list, s.Packets()...)
	for i, op := range []wire.Opcode{wire.RCRDMAWriteMiddle, wire.RCRDMAWriteMiddle, wire.RCRDMAWriteLast} {
		p, at := list[i], uint32(i+1)*4096
		if p.Opcode != op || p.PSN != psn+1+ib.PSN(i) || !p.AllRETH ||
			p.RETH != (wire.RETH{VA: script.RemoteAddr + uint64(at), RKey: script.RemoteKey, DMALen: 16<<10 - at}) {
			t.Errorf("%v, RETH %+v", script.Format(&p), p.RETH)
		}
	}
	s.Recv(script.Ack(psn+3, 1))
	s.WantWC("done", 9, ib.WCSuccess)
}

// withRETH is a packet of a WRITE of 4,096 bytes to the machine's memory.
func withRETH(s *script.Script, op wire.Opcode, i int) wire.Packet {
	p := script.Request(op, peerPSN+ib.PSN(i), script.Bytes(1024, byte(i)))
	p.RETH = wire.RETH{VA: script.Base + uint64(i*1024), RKey: s.MR.RKey(), DMALen: uint32(4-i) * 1024}
	p.AllRETH = true
	return p
}

// A responder takes packets with a RETH, without, and some of each. They are one message, and what
// comes before its turn is kept.
func TestAllRETHIsOneMessage(t *testing.T) {
	ops := []wire.Opcode{wire.RCRDMAWriteFirst, wire.RCRDMAWriteMiddle, wire.RCRDMAWriteMiddle, wire.RCRDMAWriteLast}
	for bits := range 8 {
		for _, order := range [][]int{{0, 1, 2, 3}, {0, 3, 1, 2}, {0, 1, 1, 3, 2}} {
			s := script.New(t, newRC)
			for _, i := range order {
				p := withRETH(s, ops[i], i)
				p.AllRETH = i > 0 && bits>>(i-1)&1 != 0
				p.AckReq = i == 3
				s.Recv(p)
			}
			all := s.Packets()
			a := all[len(all)-1]
			if a.Opcode != wire.RCAcknowledge || a.PSN != peerPSN+3 || a.AETH.MSN != 1 || !a.AllRETH {
				t.Errorf("%v, AllRETH %v", script.Format(&a), a.AllRETH)
			}
			for i := range 4 {
				s.WantMemory("placed", i*1024, script.Bytes(1024, byte(i)))
			}
			s.WantCount("one message", roce.RcvdMessages, 1)
		}
	}
}

// A RETH that is not where the WRITE goes on is refused, and nothing is placed.
func TestAllRETHThatDiffers(t *testing.T) {
	for name, change := range map[string]func(*wire.RETH){
		"address": func(h *wire.RETH) { h.VA++ },
		"key":     func(h *wire.RETH) { h.RKey++ },
		"longer":  func(h *wire.RETH) { h.DMALen++ },
		"shorter": func(h *wire.RETH) { h.DMALen = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			s := script.New(t, newRC)
			s.Recv(withRETH(s, wire.RCRDMAWriteFirst, 0))
			p := withRETH(s, wire.RCRDMAWriteMiddle, 1)
			change(&p.RETH)
			s.Recv(p)
			s.WantNak("refused", peerPSN+1, wire.NAKInvalidRequest)
			s.WantUntouched("nothing placed", 1024, 3072)
		})
	}
}

// A WRITE that leaves its region is refused by its First, as one without those RETHs is.
func TestAllRETHOfARangeRefused(t *testing.T) {
	s := script.New(t, newRC)
	p := withRETH(s, wire.RCRDMAWriteFirst, 0)
	p.RETH.DMALen = uint32(len(s.Memory)) + 1
	s.Recv(p)
	s.WantNak("refused", peerPSN, wire.NAKRemoteAccess)
	s.WantUntouched("nothing placed", 0, 1024)
}
