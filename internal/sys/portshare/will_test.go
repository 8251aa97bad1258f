// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"bytes"
	"net/netip"
	"testing"
)

func TestWillRecord(t *testing.T) {
	for _, w := range []Will{
		{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddrPort("192.0.2.9:4791"), []byte("x")},
		{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddrPort("[2001:db8::2]:4791"), bytes.Repeat([]byte{0xa5}, MaxWillBytes)},
	} {
		var rec [willRecordBytes]byte
		encodeWill(&rec, 1<<63|7, w)
		id, got, ok := parseWill(rec[:])
		if !ok || id != 1<<63|7 || got.Local != w.Local || got.Dst != w.Dst || !bytes.Equal(got.Datagram, w.Datagram) {
			t.Errorf("%+v reads back as %d %+v %v", w, id, got, ok)
		}
		// A will that a dying process wrote in part is no will: any byte wrong, or short.
		for i := range rec {
			rec[i] ^= 0x10
			if _, _, ok := parseWill(rec[:]); ok {
				t.Fatalf("a record with byte %d damaged is taken for a will", i)
			}
			rec[i] ^= 0x10
		}
		for n := range rec {
			if _, _, ok := parseWill(rec[:n]); ok {
				t.Fatalf("%d bytes are taken for a will", n)
			}
		}
	}
	var free [willRecordBytes]byte
	if _, _, ok := parseWill(free[:]); ok {
		t.Error("zeros are taken for a will")
	}
}

func TestWillIsChecked(t *testing.T) {
	a, d := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddrPort("192.0.2.9:4791")
	for name, w := range map[string]Will{
		"empty":          {a, d, nil},
		"too long":       {a, d, make([]byte, MaxWillBytes+1)},
		"no local":       {netip.Addr{}, d, []byte("x")},
		"no destination": {a, netip.AddrPort{}, []byte("x")},
	} {
		if w.check() == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}

// A record either is no will or is written again as the same bytes.
func FuzzParseWill(f *testing.F) {
	var rec [willRecordBytes]byte
	encodeWill(&rec, 7, Will{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddrPort("192.0.2.9:4791"), []byte("x")})
	f.Add(rec[:])
	f.Fuzz(func(t *testing.T, b []byte) {
		if id, w, ok := parseWill(b); ok {
			var again [willRecordBytes]byte
			encodeWill(&again, id, w)
			if _, w2, ok := parseWill(again[:]); !ok || w2.Dst != w.Dst || !bytes.Equal(w2.Datagram, w.Datagram) {
				t.Errorf("%+v does not read back: %+v", w, w2)
			}
		}
	})
}
