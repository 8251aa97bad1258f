// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/wire/cm"
	wire "verbena/internal/wire/roce"
)

const (
	port4791 = 4791
	// strangersKiB bounds the growth of a program that is flooded.
	strangersKiB = 32 << 10
)

// flooded is a run of testdata/flood_*.c at 192.0.2.1. Strangers' MADs come to its keeper.
type flooded struct {
	*alone
	in     io.WriteCloser
	num    int // its queue pair's number, or its listener's port
	keeper process
	peak   int // of the keeper's memory before the flood, in KiB
}

func startFlooded(t *testing.T, name string, args ...string) *flooded {
	t.Helper()
	f := &flooded{}
	f.alone, f.in = startTalking(t, compile(t, name), args...)
	if _, err := fmt.Sscan(f.line(), &f.num); err != nil {
		t.Fatal(err)
	}
	f.keeper = keeperOf(f.alone)
	f.peak = f.keeper.peakKiB()
	return f
}

// startFloodedVerbs starts flood_verbs in a network of its own. It returns nil if the test has run
// in another process.
func startFloodedVerbs(t *testing.T) *flooded {
	t.Helper()
	if _, here := newNetwork(t); !here {
		return nil
	}
	t.Setenv("LOOP_DEVICE", "roce_d0")
	t.Setenv("LOOP_ADDRESS", "192.0.2.1")
	return startFlooded(t, "flood_verbs")
}

// finish ends the program, which must succeed with little growth. Its keeper may grow as little. It
// returns the last number of the program's output.
func (f *flooded) finish() (last int) {
	f.t.Helper()
	if k := f.keeper.peakKiB() - f.peak; k > strangersKiB {
		f.t.Errorf("its keeper grew by %d KiB for strangers", k)
	} else {
		f.t.Logf("its keeper grew by %d KiB", k)
	}
	f.in.Close()
	var grew, turns int
	said := f.rest()
	if n, err := fmt.Sscan(said, &grew, &turns, &last); n < 2 {
		f.t.Fatalf("it said %q: %v", said, err)
	}
	f.t.Logf("grew by %d KiB in %d turns", grew, turns)
	if grew > strangersKiB {
		f.t.Errorf("it grew by %d KiB for strangers", grew)
	}
	return last
}

// counter returns a counter of the program as "verbena stat" shows it.
func (f *flooded) counter(name string) (value int) {
	f.t.Helper()
	out, complaint := outputOf(f.t, verbena(f.t), []string{"XDG_RUNTIME_DIR=" + f.run}, "stat", "--json")
	_, behind, found := strings.Cut(out, fmt.Sprintf(`{"name":%q,"value":`, name))
	if _, err := fmt.Sscan(strings.SplitN(behind, "}", 2)[0], &value); !found || err != nil {
		f.t.Fatalf("no %s in %s%s", name, out, complaint)
	}
	return value
}

// idle returns the processor time that the idle program and its keeper take while f runs.
func (f *flooded) idle(during func()) time.Duration {
	f.t.Helper()
	f.say()
	before := f.keeper.took()
	during()
	keeper := f.keeper.took() - before
	return time.Duration(f.say())*time.Microsecond + keeper
}

func (f *flooded) say() (n int) {
	f.t.Helper()
	if _, err := io.WriteString(f.in, "x"); err != nil {
		f.t.Fatal(err)
	}
	if _, err := fmt.Sscan(f.line(), &n); err != nil {
		f.t.Fatal(err)
	}
	return n
}

// stranger sends to 192.0.2.1 from 192.0.2.3, where it receives the answers.
type stranger struct {
	t       *testing.T
	sock    *net.UDPConn
	answers *net.UDPConn
	pseudo  wire.Pseudo
}

func newStranger(t *testing.T) *stranger {
	t.Helper()
	from, to := netip.MustParseAddr("192.0.2.3"), netip.MustParseAddr("192.0.2.1")
	listen := func(port uint16) *net.UDPConn {
		c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, port)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	s := &stranger{t: t, sock: listen(0), answers: listen(port4791)}
	port := s.sock.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	s.pseudo = wire.NewPseudo(from, to, port, port4791)
	return s
}

// send sends a packet whose ICRC passes.
func (s *stranger) send(packet []byte) { s.write(s.pseudo.Seal(packet, 0)) }

func (s *stranger) write(datagram []byte) {
	s.t.Helper()
	if _, err := s.sock.WriteToUDPAddrPort(datagram, netip.MustParseAddrPort("192.0.2.1:4791")); err != nil {
		s.t.Fatal(err)
	}
}

// toQP1 returns a packet with a MAD of any length.
func toQP1(mad []byte) []byte {
	bth := wire.BTH{Opcode: wire.UDSendOnly, MigReq: true, PKey: ib.DefaultPKey, DestQP: ib.QP1}
	return append(wire.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QP1}.Append(bth.Append(nil)), mad...)
}

// settle returns when all packets sent before have been handled: it ends an unknown connection, and
// waits for the answer.
func (s *stranger) settle() {
	s.t.Helper()
	dreq := cm.DREQ{LocalCommID: 5, RemoteCommID: 7}
	var b [2048]byte
	for range 100 {
		s.send(toQP1(dreq.Append(cm.NewHeader(cm.AttrDREQ, 9).Append(nil))))
		s.answers.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		for {
			n, err := s.answers.Read(b[:])
			if err != nil {
				break
			}
			var p wire.Packet
			if p.Parse(b[:n]) != wire.WellFormed {
				continue
			}
			if h, _, ok := cm.ParseHeader(p.Payload); ok && h.Attribute == cm.AttrDREP {
				return
			}
		}
	}
	s.t.Fatal("it does not answer")
}

// malformedMADs returns a MAD of each kind that is refused without looking for a connection.
func malformedMADs() [][]byte {
	mad := func(change func(m *madBytes)) []byte {
		m := madBytes(cm.NewHeader(cm.AttrREQ, 9).Append(make([]byte, 0, cm.MADSize)))
		m = append(m, make([]byte, cm.MADSize-len(m))...)
		change(&m)
		return m
	}
	return [][]byte{
		mad(func(m *madBytes) {}),                                           // a REQ of zeros
		mad(func(m *madBytes) { (*m)[17] = 0xff }),                          // attribute
		mad(func(m *madBytes) { (*m)[17] = byte(cm.AttrSIDRREQ) }),          // for no service
		mad(func(m *madBytes) { (*m)[17], (*m)[31] = byte(cm.AttrREP), 9 }), // of no connection
		mad(func(m *madBytes) { (*m)[17] = byte(cm.AttrREJ) }),              // for nobody
		mad(func(m *madBytes) { (*m)[1] = 3 }),                              // class
	}
}

type madBytes []byte

// TestMalformedMADsCostNoMemory sends more of them than would fit into memory.
func TestMalformedMADsCostNoMemory(t *testing.T) {
	f := startFloodedVerbs(t)
	if f == nil {
		return
	}
	s := newStranger(t)
	const rounds, each = 250, 20
	for range rounds {
		for range each {
			for _, m := range malformedMADs() {
				s.send(toQP1(m))
			}
		}
		s.settle()
	}
	f.finish()
}

// TestGarbageLeavesTheProcessor bounds the cost of garbage, by kind: a session beside 50,000
// datagrams a second keeps more than half of its rate. The test counts the processor time of the
// program and of its keeper, which is independent of other load.
func TestGarbageLeavesTheProcessor(t *testing.T) {
	f := startFloodedVerbs(t)
	if f == nil {
		return
	}
	qpn := ib.QPN(f.num)
	data := func(q ib.QPN, bytes int) []byte {
		return append(wire.BTH{Opcode: wire.RCSendOnly, PKey: ib.DefaultPKey, DestQP: q, PSN: 5}.Append(nil), make([]byte, bytes)...)
	}
	noise := make([]byte, 64)
	rand.NewChaCha8([32]byte{}).Read(noise)
	s := newStranger(t)
	// The filter lets 64 numbers of 2,048 pass that are given out next, so not one number is tried
	// but many.
	var forNobody [][]byte
	for other := range ib.QPN(64) {
		forNobody = append(forNobody, s.pseudo.Seal(data(qpn^(other+1)<<4, 1024), 0))
	}
	const (
		free  = time.Second / 50_000 / 10 // a tenth of a processor: dropped in the kernel
		dear  = time.Second / 50_000      // one of two processors, and with it the waits for more
		count = 5000
	)
	for _, c := range []struct {
		what      string
		datagrams [][]byte
		bound     time.Duration
	}{
		{"for nobody", forNobody, free},
		{"noise", [][]byte{noise}, free},
		{"a MAD of another class", [][]byte{s.pseudo.Seal(toQP1(malformedMADs()[5]), 0)}, free},
		{"for QP1 and no MAD", [][]byte{s.pseudo.Seal(toQP1(make([]byte, 1000)), 0)}, free},
		{"for the session, with a wrong ICRC", [][]byte{data(qpn, 1024)}, dear},
		{"a MAD without meaning", [][]byte{s.pseudo.Seal(toQP1(malformedMADs()[1]), 0)}, dear},
		{"a REQ that is refused", [][]byte{s.pseudo.Seal(toQP1(malformedMADs()[0]), 0)}, dear},
	} {
		took := f.idle(func() {
			for i := range count {
				if s.write(c.datagrams[i%len(c.datagrams)]); i%100 == 99 {
					time.Sleep(2 * time.Millisecond) // 50,000/s
				}
			}
			s.settle()
		}) / count
		t.Logf("%s: %v each", c.what, took)
		if took > c.bound {
			t.Errorf("%s: %v each, more than %v", c.what, took, c.bound)
		}
	}
	// An endless stream costs a quarter of a processor, however fast it is.
	req := s.pseudo.Seal(toQP1(malformedMADs()[0]), 0)
	start := time.Now()
	took := f.idle(func() {
		for time.Since(start) < 700*time.Millisecond {
			s.write(req)
		}
	})
	share := float64(took) / float64(time.Since(start))
	t.Logf("REQs without end: %.2f of a processor", share)
	if share > 1./3 {
		t.Errorf("REQs without end cost %.2f of a processor", share)
	}
	s.settle()
	// Those for QP1 that are no MADs, and noise, come to the keeper's socket.
	for name, least := range map[string]int{"kernel_dropped": count * 3 / 4, "keeper_dropped": 2 * count} {
		if got := f.counter(name); got < least {
			t.Errorf("%s is %d, want %d at least", name, got, least)
		}
	}
	f.finish()
}
