package roce

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
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
