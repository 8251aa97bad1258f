// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"bytes"
	"testing"

	"verbena/ib"
)

// TestHeaders compares each header with bytes written out by hand from the field tables of the
// specification. Every strict prefix of them must be refused.
func TestHeaders(t *testing.T) {
	for _, h := range []struct {
		name  string
		bytes string
		parse func(b []byte) (v any, enc []byte, rest []byte, ok bool)
		want  any
	}{
		{"BTH", "0a" + "f1" + "8123" + "c0" + "abcdef" + "80" + "123456",
			func(b []byte) (any, []byte, []byte, bool) { v, r, ok := ParseBTH(b); return v, v.Append(nil), r, ok },
			BTH{Opcode: RCRDMAWriteOnly, Solicited: true, MigReq: true, Pad: 3, TVer: 1, PKey: 0x8123, FECN: true, BECN: true,
				DestQP: 0xabcdef, AckReq: true, PSN: 0x123456}},
		{"BTH, Verbena's bits", "0c" + "00" + "ffff" + "00" + "000011" + "78" + "000001",
			func(b []byte) (any, []byte, []byte, bool) { v, r, ok := ParseBTH(b); return v, v.Append(nil), r, ok },
			BTH{Opcode: RCRDMAReadRequest, PKey: 0xffff, DestQP: 0x11, Selective: true, Overtakes: true, Unawaited: true, AllRETH: true, PSN: 1}},
		{"BTH, no bits", "04" + "00" + "ffff" + "00" + "000011" + "00" + "ffffff",
			func(b []byte) (any, []byte, []byte, bool) { v, r, ok := ParseBTH(b); return v, v.Append(nil), r, ok },
			BTH{Opcode: RCSendOnly, PKey: 0xffff, DestQP: 0x11, PSN: 0xffffff}},
		{"RETH", "0123456789abcdef" + "deadbeef" + "80000000",
			func(b []byte) (any, []byte, []byte, bool) { v, r, ok := ParseRETH(b); return v, v.Append(nil), r, ok },
			RETH{VA: 0x0123456789abcdef, RKey: 0xdeadbeef, DMALen: 1 << 31}},
		{"AETH", "1f" + "000102",
			func(b []byte) (any, []byte, []byte, bool) { v, r, ok := ParseAETH(b); return v, v.Append(nil), r, ok },
			AETH{Syndrome: 0x1f, MSN: 0x000102}},
		{"DETH", "80010000" + "00" + "000001",
			func(b []byte) (any, []byte, []byte, bool) { v, r, ok := ParseDETH(b); return v, v.Append(nil), r, ok },
			DETH{QKey: ib.QKeyGSI, SrcQP: 1}},
		{"AtomicETH", "1111111111111111" + "22222222" + "3333333333333333" + "4444444444444444",
			func(b []byte) (any, []byte, []byte, bool) {
				v, r, ok := ParseAtomicETH(b)
				return v, v.Append(nil), r, ok
			},
			AtomicETH{VA: 0x1111111111111111, RKey: 0x22222222, SwapAdd: 0x3333333333333333, Compare: 0x4444444444444444}},
		{"AtomicAckETH", "fedcba9876543210",
			func(b []byte) (any, []byte, []byte, bool) {
				v, r, ok := ParseAtomicAckETH(b)
				return v, v.Append(nil), r, ok
			},
			AtomicAckETH{Orig: 0xfedcba9876543210}},
		{"ImmDt", "00112233",
			func(b []byte) (any, []byte, []byte, bool) { v, r, ok := ParseImmDt(b); return v, v.Append(nil), r, ok },
			ImmDt{Data: 0x00112233}},
		{"IETH", "cafe0001",
			func(b []byte) (any, []byte, []byte, bool) { v, r, ok := ParseIETH(b); return v, v.Append(nil), r, ok },
			IETH{RKey: 0xcafe0001}},
		{"XRCETH", "00" + "abcdef",
			func(b []byte) (any, []byte, []byte, bool) {
				v, r, ok := ParseXRCETH(b)
				return v, v.Append(nil), r, ok
			},
			XRCETH{SRQ: 0xabcdef}},
		{"FETH", "00000013",
			func(b []byte) (any, []byte, []byte, bool) { v, r, ok := ParseFETH(b); return v, v.Append(nil), r, ok },
			FETH{PLT: ib.FlushGlobal | ib.FlushPersistent, SEL: ib.FlushMR}},
	} {
		t.Run(h.name, func(t *testing.T) {
			b := unhex(t, h.bytes)
			v, enc, rest, ok := h.parse(append(bytes.Clone(b), 0xaa))
			if !ok || v != h.want || len(rest) != 1 {
				t.Fatalf("parsed %+v, rest %d, %v\nwant %+v", v, len(rest), ok, h.want)
			}
			if !bytes.Equal(enc, b) {
				t.Errorf("encoded %x, want %x", enc, b)
			}
			for n := range b {
				if _, _, rest, ok := h.parse(b[:n]); ok || len(rest) != n {
					t.Errorf("a prefix of %d bytes was accepted", n)
				}
			}
		})
	}
}

// TestReservedBits holds that reserved bits are not read and not sent.
func TestReservedBits(t *testing.T) {
	b := unhex(t, "04"+"00"+"ffff"+"3f"+"000011"+"07"+"000001")
	h, _, _ := ParseBTH(b)
	if want := (BTH{Opcode: RCSendOnly, PKey: 0xffff, DestQP: 0x11, PSN: 1}); h != want {
		t.Errorf("BTH %+v", h)
	}
	if got := h.Append(nil); got[4] != 0 || got[8] != 0 {
		t.Errorf("sent reserved bits: %x", got)
	}
	d, _, _ := ParseDETH(unhex(t, "00000001"+"ff"+"000002"))
	if d != (DETH{QKey: 1, SrcQP: 2}) {
		t.Errorf("DETH %+v", d)
	}
	x, _, _ := ParseXRCETH(unhex(t, "ff"+"000002"))
	if x != (XRCETH{SRQ: 2}) {
		t.Errorf("XRCETH %+v", x)
	}
	f, _, _ := ParseFETH(unhex(t, "ffffffff"))
	if f != (FETH{PLT: 15, SEL: 3}) {
		t.Errorf("FETH %+v", f)
	}
}

// TestDestQPOffset holds the offset that socket filters load from.
func TestDestQPOffset(t *testing.T) {
	b := BTH{DestQP: 0xa1b2c3}.Append(nil)
	if got := b[DestQPOffset : DestQPOffset+3]; !bytes.Equal(got, []byte{0xa1, 0xb2, 0xc3}) {
		t.Errorf("%x", got)
	}
}
