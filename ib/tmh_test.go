// SPDX-License-Identifier: BSD-2-Clause

package ib_test

import (
	"bytes"
	"encoding/hex"
	"testing"

	"verbena/ib"
)

// TestTagHeaders compares both headers with bytes written out by hand. No prefix of them is enough.
func TestTagHeaders(t *testing.T) {
	b, _ := hex.DecodeString("01" + "000000" + "fedcba98" + "8000000000000005" + "0123456789abcdef" + "deadbeef" + "00010000")
	wantH, wantR := ib.TMH{Op: ib.TMRendezvous, AppCtx: 0xfedcba98, Tag: 0x8000000000000005}, ib.RVH{VA: 0x0123456789abcdef, RKey: 0xdeadbeef, Length: 1 << 16}
	h, rest, ok := ib.ParseTMH(b)
	if !ok || h != wantH || len(rest) != ib.RVHBytes {
		t.Fatalf("%+v, rest %d, %v", h, len(rest), ok)
	}
	r, rest, ok := ib.ParseRVH(rest)
	if !ok || r != wantR || len(rest) != 0 {
		t.Fatalf("%+v, rest %d, %v", r, len(rest), ok)
	}
	if got := r.Append(h.Append(nil)); !bytes.Equal(got, b) {
		t.Errorf("encoded %x, want %x", got, b)
	}
	for n := range ib.TMHBytes {
		if _, rest, ok := ib.ParseTMH(b[:n]); ok || len(rest) != n {
			t.Errorf("a TMH of %d bytes was accepted", n)
		}
		if _, rest, ok := ib.ParseRVH(b[:n]); ok || len(rest) != n {
			t.Errorf("an RVH of %d bytes was accepted", n)
		}
	}
}

// FuzzTagHeaders parses anything. Accepted headers must encode to the same bytes, once the reserved
// ones are zero.
func FuzzTagHeaders(f *testing.F) {
	for op := range ib.TMEager + 2 {
		f.Add(ib.RVH{VA: 1, RKey: 2, Length: 3}.Append(ib.TMH{Op: op, AppCtx: 4, Tag: 5}.Append(nil)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, rest, ok := ib.ParseTMH(b)
		if ok != (len(b) >= ib.TMHBytes) {
			t.Fatalf("TMH in %d bytes: %v", len(b), ok)
		}
		if !ok {
			return
		}
		want := bytes.Clone(b)
		clear(want[1:4])
		got := h.Append(nil)
		if r, after, ok := ib.ParseRVH(rest); ok {
			got, rest = r.Append(got), after
		}
		if got = append(got, rest...); !bytes.Equal(got, want) {
			t.Fatalf("got %x\nwant %x", got, want)
		}
	})
}

// A completion carries all bits of a tag, and of the sender's data.
func TestTMInfo(t *testing.T) {
	want := ib.TMInfo{Tag: 0x0123456789abcdef, Priv: 0xfedcba98}
	wc := ib.WC{Opcode: ib.WCTMRecv, Flags: ib.WCTMMatch}
	wc.SetTMInfo(want)
	if got := wc.TMInfo(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, c := range []ib.WC{{Opcode: ib.WCTMRecv, Flags: ib.WCTMDataValid}, {Opcode: ib.WCTMNoTag, Flags: ib.WCTMMatch}, {}} {
		c.SetTMInfo(want)
		if got := c.TMInfo(); got != (ib.TMInfo{}) {
			t.Errorf("%v with flags %#x has %+v", c.Opcode, c.Flags, got)
		}
	}
}
