// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"net/netip"
	"testing"
)

var (
	benchFlow   = NewPseudo(netip.MustParseAddr("10.77.0.2"), netip.MustParseAddr("10.77.0.3"), 0xc000, Port)
	benchFlow6  = NewPseudo(netip.MustParseAddr("fd77::2"), netip.MustParseAddr("fd77::3"), 0xc000, Port)
	sinkUint32  uint32
	sinkVerdict Malformed
	sinkBool    bool
)

// TestNoAllocation holds the functions of the data path to none.
func TestNoAllocation(t *testing.T) {
	src, dst := netip.MustParseAddr("10.77.0.2"), netip.MustParseAddr("fd77::3")
	write := sample(RCRDMAWriteOnly, 4096)
	b := benchFlow.Seal(write.Append(nil), 9)
	out := make([]byte, 0, len(b))
	var p Packet
	for name, f := range map[string]func(){
		"Parse":     func() { sinkVerdict = p.Parse(b) },
		"Append":    func() { out = benchFlow.Seal(p.Append(out[:0]), 9) },
		"Verify":    func() { _, sinkBool = benchFlow.Verify(b, 0) },
		"Start":     func() { sinkUint32 = benchFlow.Start(len(b), 1) },
		"UpdateBTH": func() { sinkUint32 = UpdateBTH(1, b[:BTHBytes]) },
		"NewPseudo": func() { sinkUint32 = NewPseudo(src, dst, 1, 2).base },
		"Info":      func() { sinkBool = Opcode(sinkUint32).Info().Valid },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for _, c := range []struct {
		name string
		op   Opcode
	}{{"Acknowledge", RCAcknowledge}, {"WriteOnly4K", RCRDMAWriteOnly}, {"FetchAdd", RCFetchAdd}, {"WriteMiddle4K", RCRDMAWriteMiddle}} {
		b.Run(c.name, func(b *testing.B) {
			s := sample(c.op, 4096)
			raw := append(s.Append(nil), 0, 0, 0, 0)
			var p Packet
			b.ReportAllocs()
			for b.Loop() {
				sinkVerdict = p.Parse(raw)
			}
		})
	}
}

func BenchmarkBTHAppend(b *testing.B) {
	out := make([]byte, 0, 64)
	h, r := BTH{Opcode: RCRDMAWriteOnly, PKey: 0xffff, DestQP: 17, PSN: 9, AckReq: true}, RETH{VA: 1, RKey: 2, DMALen: 3}
	b.ReportAllocs()
	for b.Loop() {
		out = r.Append(h.Append(out[:0]))
	}
}

func BenchmarkNewPseudo(b *testing.B) {
	src, dst := netip.MustParseAddr("10.77.0.2"), netip.MustParseAddr("10.77.0.3")
	b.ReportAllocs()
	for b.Loop() {
		sinkUint32 = NewPseudo(src, dst, 0xc000, Port).base
	}
}

func BenchmarkStart(b *testing.B) {
	for _, c := range []struct {
		name string
		p    *Pseudo
	}{{"IPv4", &benchFlow}, {"IPv6", &benchFlow6}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				sinkUint32 = c.p.Start(n&4095, uint16(n))
			}
		})
	}
}

// BenchmarkVerify compares the identification told with the one solved.
func BenchmarkVerify(b *testing.B) {
	for _, c := range []struct {
		name string
		size int
		hint uint16
	}{{"20B/hint", 0, 9}, {"20B/solved", 0, 0}, {"4K/hint", 4096, 9}, {"4K/solved", 4096, 0}} {
		b.Run(c.name, func(b *testing.B) {
			s := sample(RCSendOnly, c.size)
			raw := benchFlow.Seal(s.Append(nil), 9)
			b.ReportAllocs()
			for b.Loop() {
				_, sinkBool = benchFlow.Verify(raw, c.hint)
			}
		})
	}
}
