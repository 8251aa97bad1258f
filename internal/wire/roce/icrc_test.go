// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"net/netip"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestICRCGolden holds the vectors of scapy's test/contrib/roce.uts (public).
// The CNP was captured from a ConnectX-4 Lx.
func TestICRCGolden(t *testing.T) {
	ucSendOnly := Packet{
		BTH:     BTH{Opcode: UCSendOnly, MigReq: true, PKey: 0xffff, DestQP: 211, PSN: 13571856},
		Payload: unhex(t, "4630818be28935d90e9a95505401be885e50"),
	}
	ucBytes := ucSendOnly.Append(nil)
	cnp := unhex(t, "8100ffff4000011800000000"+"00000000000000000000000000000000")
	for _, v := range []struct {
		name     string
		src, dst string
		sport    uint16
		id       uint16
		packet   []byte
		icrc     uint32 // as scapy prints the field: big-endian
	}{
		{"V1 IPv4 UC Send Only", "192.168.0.7", "192.168.0.7", 49152, 1144, ucBytes, 0x78f353f3},
		{"V2 CNP, ConnectX-4 Lx", "10.0.17.1", "10.0.18.1", 0, 0x718c, cnp, 0x82fd002a},
		{"V3 IPv6 UC Send Only", "2022::1023", "2023::1024", 49152, 0, ucBytes, 0x3e5b743b},
	} {
		t.Run(v.name, func(t *testing.T) {
			p := NewPseudo(netip.MustParseAddr(v.src), netip.MustParseAddr(v.dst), v.sport, Port)
			sealed := p.Seal(bytes.Clone(v.packet), v.id)
			if got := binary.BigEndian.Uint32(sealed[len(sealed)-4:]); got != v.icrc {
				t.Errorf("ICRC bytes %08x, want %08x", got, v.icrc)
			}
			if id, ok := p.Verify(sealed, 0); !ok || (id != v.id) {
				t.Errorf("Verify = %d, %v; want %d, true", id, ok, v.id)
			}
		})
	}
}

// slowICRC is the specification's rule without any short cut, for the two
// flows of FuzzVerify: the headers written out, masked, and summed in one go.
func slowICRC(v6 bool, packet []byte, id uint16) uint32 {
	b := bytes.Repeat([]byte{0xff}, 8)
	udp := uint16(8 + len(packet) + 4)
	if v6 {
		src, dst := netip.MustParseAddr("fd77::2").As16(), netip.MustParseAddr("fd77::3").As16()
		b = append(b, 0x6f, 0xff, 0xff, 0xff)
		b = binary.BigEndian.AppendUint16(b, udp)
		b = append(b, 17, 0xff)
		b = append(append(b, src[:]...), dst[:]...)
	} else {
		b = append(b, 0x45, 0xff)
		b = binary.BigEndian.AppendUint16(b, 20+udp)
		b = binary.BigEndian.AppendUint16(b, id)
		b = append(b, 0x40, 0, 0xff, 17, 0xff, 0xff, 10, 77, 0, 2, 10, 77, 0, 3)
	}
	b = append(b, 0xc0, 0, 0x12, 0xb7)
	b = binary.BigEndian.AppendUint16(b, udp)
	b = append(b, 0xff, 0xff)
	bth := len(b)
	b = append(b, packet...)
	b[bth+4] = 0xff
	return crc32.ChecksumIEEE(b)
}

// TestICRCSlow compares the tables with the plain sum for every identification
// byte and many lengths.
func TestICRCSlow(t *testing.T) {
	v4 := NewPseudo(netip.MustParseAddr("10.77.0.2"), netip.MustParseAddr("::ffff:10.77.0.3"), 0xc000, Port)
	v6 := NewPseudo(netip.MustParseAddr("fd77::2"), netip.MustParseAddr("fd77::3"), 0xc000, Port)
	packet := bytes.Repeat([]byte{0x5a}, 9000)
	for n := BTHBytes; n <= len(packet); n += 4 + n/7*4 {
		for id := 0; id < 1<<16; id += 257 {
			if got, want := v4.ICRC(packet[:n], uint16(id)), slowICRC(false, packet[:n], uint16(id)); got != want {
				t.Fatalf("IPv4, %d bytes, id %d: %08x, want %08x", n, id, got, want)
			}
		}
		if got, want := v6.ICRC(packet[:n], 0), slowICRC(true, packet[:n], 0); got != want {
			t.Fatalf("IPv6, %d bytes: %08x, want %08x", n, got, want)
		}
	}
}

// TestICRCScattered feeds a packet in pieces.
func TestICRCScattered(t *testing.T) {
	p := NewPseudo(netip.MustParseAddr("10.77.0.2"), netip.MustParseAddr("10.77.0.3"), 0xc000, Port)
	pkt := sample(RCRDMAWriteOnlyImm, 1021)
	b := pkt.Append(nil)
	want := p.ICRC(b, 3)
	for cut := BTHBytes; cut < len(b); cut += 37 {
		s := UpdateBTH(p.Start(len(b)+ICRCBytes, 3), b[:BTHBytes])
		s = Update(s, b[BTHBytes:cut])
		if got := Finish(Update(s, b[cut:])); got != want {
			t.Errorf("cut at %d: %08x, want %08x", cut, got, want)
		}
	}
	if got := p.Seal(b, 3)[len(b):]; !bytes.Equal(got, AppendICRC(nil, want)) {
		t.Errorf("Seal appends %x", got)
	}
}

// TestVerifyRefuses holds the sizes that no packet has.
func TestVerifyRefuses(t *testing.T) {
	p := NewPseudo(netip.MustParseAddr("10.77.0.2"), netip.MustParseAddr("10.77.0.3"), 0xc000, Port)
	for _, n := range []int{0, 1, 15, 17, 18, 19, 65508, 65528, 70000, 1 << 20} {
		b := make([]byte, n)
		if _, ok := p.Verify(b, 0); ok || p.VerifyWithID(b, 0) {
			t.Errorf("%d bytes accepted", n)
		}
	}
}

func TestRetreatUndoesAdvance(t *testing.T) {
	for n := 0; n < 1<<16; n += 1 + n/3 {
		if got := retreat(advance(0xdeadbeef, n), n); got != 0xdeadbeef {
			t.Errorf("over %d bytes: %08x", n, got)
		}
	}
}
