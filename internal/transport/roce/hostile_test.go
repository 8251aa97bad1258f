// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"bytes"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/engine/policy"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/sys/udp"
	"verbena/internal/testkit/rig"
	wire "verbena/internal/wire/roce"
)

// stranger is a plain UDP socket that sends anything to an engine.
type stranger struct {
	t      testing.TB
	sock   *net.UDPConn
	pseudo wire.Pseudo
}

// newStranger sends from the address of another node, whose queue pairs the
// target may be connected with.
func newStranger(t testing.TB, from netip.Addr, to *node) *stranger {
	t.Helper()
	s, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(to.Addr, roce.UDPPort)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	port := s.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	return &stranger{t: t, sock: s, pseudo: wire.NewPseudo(from, to.Addr, port, roce.UDPPort)}
}

func (s *stranger) send(b []byte) {
	s.t.Helper()
	if _, err := s.sock.Write(b); err != nil {
		s.t.Fatal(err)
	}
}

// seal appends the ICRC that makes b pass. The socket is connected and counts
// identifications up, as rxe does: the receiver finds any.
func (s *stranger) seal(b []byte) []byte { return s.pseudo.Seal(bytes.Clone(b), 0x1234) }

// header is a base transport header.
func header(op wire.Opcode, dst ib.QPN) []byte {
	return wire.BTH{Opcode: op, PKey: ib.DefaultPKey, DestQP: dst, PSN: 5}.Append(nil)
}

// TestEachMalformedPacketHasItsCounter sends one packet of each kind and wants
// its counter raised by one and no other.
func TestEachMalformedPacketHasItsCounter(t *testing.T) {
	a, b := pair(t, policy.Nap, 4096)
	s := newStranger(t, a.Node.Addr, b.Node)
	q := b.QPN()
	Of(b.Node.Eng).OnMAD(func(*roce.Meta, []byte) {})
	version := header(wire.RCSendOnly, q)
	version[1] |= 3
	pad := header(wire.RCSendOnly, q)
	pad[1] |= 3 << 4
	mad := func(key ib.QKey, n int) []byte {
		return append(wire.DETH{QKey: key, SrcQP: 1}.Append(header(wire.UDSendOnly, ib.QP1)), make([]byte, n)...)
	}
	elsewhere := header(wire.RCSendOnly, q)
	partition := wire.BTH{Opcode: wire.RCSendOnly, PKey: 0x8001, DestQP: q, PSN: 5}.Append(nil)
	outsider := newStranger(t, newNode(t, policy.Nap).Addr, b.Node)
	want := map[string]uint64{}
	for _, c := range []struct {
		counter string
		packet  []byte
		from    *stranger
	}{
		{"malformed_too_short", make([]byte, 15), s},
		{"malformed_too_short", nil, s},
		{"malformed_bad_length", append(header(wire.RCSendOnly, q), make([]byte, 7)...), s},
		{"malformed_bad_tver", s.seal(version), s},
		{"malformed_short_headers", s.seal(append(header(wire.RCRDMAWriteOnly, q), make([]byte, 12)...)), s},
		{"malformed_bad_pad", s.seal(pad), s},
		{"malformed_payload_not_allowed", s.seal(append(header(wire.RCRDMAReadRequest, q), make([]byte, 20)...)), s},
		{"bad_icrc", append(header(wire.RCSendOnly, q), 1, 2, 3, 4), s},
		{"malformed_bad_opcode", s.seal(header(0xe1, 0x77)), s},
		{"unknown_qp", s.seal(header(wire.RCSendOnly, 0x77)), s},
		{"unknown_qp", s.seal(wire.DETH{}.Append(header(wire.UDSendOnly, ib.QPMulticast))), s},
		{"bad_mad", s.seal(mad(ib.QKeyGSI, 252)), s},
		{"bad_mad", s.seal(header(wire.RCSendOnly, ib.QP1)), s},
		{"bad_mad_qkey", s.seal(mad(1, 256)), s},
		{"wrong_source", outsider.seal(elsewhere), outsider},
		{"bad_pkey", s.seal(partition), s},
		{"unexpected_packet", s.seal(append(header(wire.UCSendOnly, q), 1, 2, 3, 4)), s},
		{"rp_cnp_handled", s.seal(append(header(wire.CNP, q), make([]byte, 16)...)), s},
	} {
		raised := []string{c.counter}
		if c.counter == "malformed_bad_opcode" {
			raised = append(raised, "unknown_qp") // it is for nobody, too
		}
		for _, name := range raised {
			want[name]++
		}
		c.from.send(c.packet)
		for _, name := range raised {
			rig.Until(t, name+" is raised", func() bool { return b.Node.Counter(name) == want[name] })
		}
	}
	for name, n := range want {
		if got := b.Node.Counter(name); got != n {
			t.Errorf("%s is %d, want %d", name, got, n)
		}
	}
	a.Write(b, 4096) // all this did not harm the queue pair
	if wc := a.Await(); wc.Status != ib.WCSuccess {
		t.Fatal(wc.Err())
	}
}

// TestNoise sends random datagrams, and real ones with bits flipped, some with
// an ICRC that passes. Each must be counted once, as noise or at a queue pair,
// and real traffic must go on beside it.
func TestNoise(t *testing.T) {
	a, b := pair(t, policy.Nap, 4096)
	s := newStranger(t, a.Node.Addr, b.Node)
	victim, peer := newEndpoint(b.Node, 4096), newEndpoint(a.Node, 64) // it takes the forged packets
	connect(victim, peer)
	t.Cleanup(func() { victim.Close(); peer.Close() })
	rng := rand.New(rand.NewPCG(7, 7))
	seen := func() (n uint64) {
		for _, c := range b.Node.Eng.Counters(b.Node.Counters) {
			switch c.Name {
			case "malformed_too_short", "malformed_bad_length", "malformed_bad_tver", "malformed_short_headers",
				"malformed_bad_pad", "malformed_payload_not_allowed", "bad_icrc", "unknown_qp", "bad_mad", "bad_mad_qkey", "rcvd_pkts":
				n += c.Value
			}
		}
		return n
	}
	sent := uint64(0)
	for range 60 {
		for range 50 {
			s.send(noise(rng, s, victim.QPN()))
			sent++
		}
		rig.Until(t, "everything is counted", func() bool { return seen() >= sent })
	}
	for range 8 {
		a.Write(b, 4096)
		if wc := a.Await(); wc.Status != ib.WCSuccess {
			t.Fatal(wc.Err())
		}
	}
}

// noise returns a datagram that no honest peer sends.
func noise(rng *rand.Rand, s *stranger, q ib.QPN) []byte {
	b := make([]byte, rng.IntN(400))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	if rng.IntN(2) == 0 || len(b) < 12 {
		return b
	}
	copy(b, header(wire.Opcode(rng.IntN(256)), q))
	b[0] &= [...]byte{0x1f, 0xff}[rng.IntN(2)] // RC, or any service
	b[11] = 5 + byte(rng.IntN(3))
	return s.seal(b[:len(b)&^3])
}

// FuzzDatagram feeds datagrams, whose ICRC is made right, to a port that has a queue pair in each
// service's reach. Whatever comes, only granted memory changes and the queue pair's counters count
// it.
func FuzzDatagram(f *testing.F) {
	q := ib.QPN(engine.FirstNumber())
	for op := range 256 {
		b := header(wire.Opcode(op), q)
		f.Add(append(b, make([]byte, 32)...))
	}
	n := newNode(f, policy.Nap)
	n.Eng.Probe().StopBackground() // the fuzzer is the only one to feed
	n.Eng.Probe().Renumber()
	peer := netip.MustParseAddr("127.0.0.9")
	pseudo := wire.NewPseudo(peer, n.Addr, 50000, roce.UDPPort)
	port := n.Eng.Probe().Inputs()[0].(*Port)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 12 || len(b) > 4000 {
			return
		}
		n.T = t
		e := newEndpoint(n, 64)
		defer e.Close()
		connectAt(e, 9, peer, 14, 7)
		b = b[:len(b)&^3]
		copy(b[5:8], []byte{byte(e.QPN() >> 16), byte(e.QPN() >> 8), byte(e.QPN())})
		fl := &flow{src: netip.AddrPortFrom(peer, 50000), dst: n.Addr, pseudo: pseudo}
		port.meta = roce.Meta{Src: peer, Dst: n.Addr, SrcPort: 50000}
		before := total(n)
		now := monotime.Now()
		m := &udp.Message{Data: pseudo.Seal(b, 0)}
		if c, _ := port.datagram(&engine.Joint{Now: now}, fl, m, 0, nil); c != nil {
			c.PumpUnlock(now)
		}
		if total(n) == before {
			t.Errorf("% x: counted nowhere", b)
		}
	})
}

// total sums all counters.
func total(n *node) (sum uint64) {
	for _, c := range n.Eng.Counters(n.Counters) {
		sum += c.Value
	}
	return sum
}
