// SPDX-License-Identifier: BSD-2-Clause

package steer

import (
	"encoding/hex"
	"net/netip"
	"testing"

	"verbena/ib"
)

// The examples of Microsoft's "Verifying the RSS hash calculation": source, destination, and the
// hash of the addresses, then with ports.
func TestHashIsToeplitz(t *testing.T) {
	b, err := hex.DecodeString("6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa")
	if err != nil {
		t.Fatal(err)
	}
	key := [HashKeyBytes]byte(b)
	for _, c := range []struct {
		src, dst    string
		ip, tcp     uint32
		fields, all ib.RXHashFields
	}{
		{"66.9.149.187:2794", "161.142.100.80:1766", 0x323e8fc2, 0x51ccc178, hash4, hash4 | hashUDP},
		{"199.92.111.2:14230", "65.69.140.83:4739", 0xd718262a, 0xc626b0ea, hash4, hash4 | hashUDP},
		{"[3ffe:2501:200:1fff::7]:2794", "[3ffe:2501:200:3::1]:1766", 0x2cc18cd5, 0x40207d3d, hash6, hash6 | hashUDP},
	} {
		src, dst := netip.MustParseAddrPort(c.src), netip.MustParseAddrPort(c.dst)
		f := frame(src.Addr().Is6())
		ports := f[len(f)-8:]
		ports[0], ports[1], ports[2], ports[3] = byte(src.Port()>>8), byte(src.Port()), byte(dst.Port()>>8), byte(dst.Port())
		h := headers(t, f)
		if src.Addr().Is6() {
			copy(h.IPv6()[8:], src.Addr().AsSlice())
			copy(h.IPv6()[24:], dst.Addr().AsSlice())
		} else {
			copy(h.IPv4()[12:], src.Addr().AsSlice())
			copy(h.IPv4()[16:], dst.Addr().AsSlice())
		}
		for fields, want := range map[ib.RXHashFields]uint32{c.fields: c.ip, c.all: c.tcp, hashTCP: 0, 0: 0} {
			k, ok := NewHash(key, fields)
			if got := k.Of(h); !ok || got != want {
				t.Errorf("%s, fields %#x: %#x, want %#x", c.src, fields, got, want)
			}
		}
	}
	for _, fields := range []ib.RXHashFields{1 << 8, hash4 | hash6, hashTCP | hashUDP} {
		if _, ok := NewHash(key, fields); ok {
			t.Errorf("fields %#x go together", fields)
		}
	}
}

func TestMatchAndHashDoNotAllocate(t *testing.T) {
	table, err := (*Table[int])(nil).With(rule(t, ib.FlowAttr{Specs: []ib.FlowSpec{ib.FlowSpecUDP{}}}, 0))
	if err != nil {
		t.Fatal(err)
	}
	h, dst := headers(t, frame(true)), make([]*Rule[int], 0, 4)
	k, _ := NewHash([HashKeyBytes]byte{1}, hash6|hashUDP)
	if n := testing.AllocsPerRun(100, func() {
		if len(table.Match(dst[:0], h)) != 1 {
			panic("no match")
		}
		k.Of(h)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
