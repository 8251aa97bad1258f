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

// leastOf fails the test if a cost is above its bound in each of several tries. Interruptions only
// raise it: they part batches, and their caches are cold.
func leastOf(t *testing.T, what string, bound float64, cost func(try int) float64) {
	t.Helper()
	const tries = 10
	for try := range tries {
		got := cost(try)
		if t.Logf("%s: %.2f", what, got); got <= bound {
			return
		}
	}
	t.Errorf("%s: more than %.2f in each of %d tries", what, bound, tries)
}

// TestGarbageLeavesTheProcessor bounds the cost of garbage, by kind: a session beside 50,000
// datagrams a second keeps more than half of its rate. The test compares the processor time of the
// program and of its keeper with the sender's, so it is independent of the machine's speed.
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
	same := func(datagram []byte) func(int) []byte {
		return func(int) []byte { return datagram }
	}
	req, self := s.pseudo.Seal(toQP1(malformedMADs()[0]), 0), process{t, "/proc/self"}
	// The bounds are multiples of the sender's processor time, some 10 µs a datagram.
	const (
		free  = 0.2 // dropped in the kernel: 0.01 to 0.04
		dear  = 2   // judged by the program or the keeper, one of two processors: 0.6 to 0.9
		count = 5000
	)
	for _, c := range []struct {
		what     string
		datagram func(try int) []byte
		bound    float64
	}{
		// The filter also passes 64 numbers of 2,048, which come next: each try has another number.
		{"for nobody", func(try int) []byte {
			return s.pseudo.Seal(data(qpn^ib.QPN(try+1)<<8, 1024), 0)
		}, free},
		{"noise", same(noise), free},
		{"a MAD of another class", same(s.pseudo.Seal(toQP1(malformedMADs()[5]), 0)), free},
		{"for QP1 and no MAD", same(s.pseudo.Seal(toQP1(make([]byte, 1000)), 0)), free},
		{"for the session, with a wrong ICRC", same(data(qpn, 1024)), dear},
		{"a MAD without meaning", same(s.pseudo.Seal(toQP1(malformedMADs()[1]), 0)), dear},
		{"a REQ that is refused", same(req), dear},
	} {
		leastOf(t, c.what+": of the sender's time", c.bound, func(try int) float64 {
			datagram, before := c.datagram(try), self.took()
			took := f.idle(func() {
				for i := range count {
					if s.write(datagram); i%100 == 99 {
						time.Sleep(2 * time.Millisecond) // 50,000/s
					}
				}
				s.settle()
			})
			return took.Seconds() / (self.took() - before).Seconds()
		})
	}
	// An endless stream costs a quarter of a processor, however fast it is.
	leastOf(t, "REQs without end: of a processor", 1./3, func(int) float64 {
		start := time.Now()
		took := f.idle(func() {
			for time.Since(start) < 300*time.Millisecond {
				s.write(req)
			}
		})
		return took.Seconds() / time.Since(start).Seconds()
	})
	s.settle()
	// Those for QP1 that are no MADs, and noise, come to the keeper's socket.
	for name, least := range map[string]int{"kernel_dropped": count, "keeper_dropped": 2 * count} {
		if got := f.counter(name); got < least {
			t.Errorf("%s is %d, want %d at least", name, got, least)
		}
	}
	f.finish()
}
