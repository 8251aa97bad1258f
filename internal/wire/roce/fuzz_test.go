// SPDX-License-Identifier: BSD-2-Clause

package roce_test

import (
	"bytes"
	"testing"

	"verbena/internal/wire/roce"
)

// FuzzPacket parses anything. A well-formed packet must encode to the same bytes once the bits that
// are reserved, and the pad, are zero. Seeds are one packet of each opcode from real rxe traffic,
// and one made of each opcode.
func FuzzPacket(f *testing.F) {
	seen := map[roce.Opcode]bool{}
	for _, c := range captures(f) {
		if o := roce.Opcode(c.bytes[0]); !seen[o] {
			seen[o] = true
			f.Add(c.bytes)
		}
	}
	for o := range 256 {
		p := roce.Packet{BTH: roce.BTH{Opcode: roce.Opcode(o)}}
		f.Add(append(p.Append(nil), 1, 2, 3, 4))
	}
	for _, o := range []roce.Opcode{roce.RCRDMAWriteMiddle, roce.RCRDMAWriteLast} {
		p := roce.Packet{BTH: roce.BTH{Opcode: o, AllRETH: true}, Payload: []byte{1, 2, 3}}
		f.Add(append(p.Append(nil), 1, 2, 3, 4))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p roce.Packet
		if p.Parse(b) != roce.WellFormed {
			return
		}
		want := bytes.Clone(b[:len(b)-roce.ICRCBytes])
		extended := want[roce.BTHBytes:p.Info.HeaderBytes]
		want[4] &= 0xc0
		want[8] &= 0xf8
		if p.Info.HasXRCETH {
			extended[0] = 0
			extended = extended[roce.XRCETHBytes:]
		}
		if p.Info.HasDETH {
			extended[4] = 0
		}
		if p.Info.HasFETH {
			clear(extended[:3])
			extended[3] &= 0x3f
		}
		clear(want[len(want)-int(p.Pad):])
		if got := p.Append(nil); !bytes.Equal(got, want) {
			t.Fatalf("%v\n got %x\nwant %x", p.Opcode, got, want)
		}
	})
}
