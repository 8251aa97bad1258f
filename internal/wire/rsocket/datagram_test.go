// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"testing"
)

var udHeaders = map[string]UDHeader{
	"0408 1389 c0000201": {netip.MustParseAddrPort("192.0.2.1:5001")},
	"0618 1389 00000000 20010db8000000000000000000000001": {netip.MustParseAddrPort("[2001:db8::1]:5001")},
}

var udpHeaders = map[string]UDPHeader{
	"55555555 04 00 10 00 00123456 c0000201":                         {UDPData, 0x123456, netip.MustParseAddr("192.0.2.1")},
	"55555555 06 07 1c 00 00000011 20010db8000000000000000000000001": {UDPControl, 0x11, netip.MustParseAddr("2001:db8::1")},
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(string(bytes.ReplaceAll([]byte(s), []byte(" "), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestUDHeader(t *testing.T) {
	for text, h := range udHeaders {
		want := unhex(t, text)
		if got := h.Append(nil); !bytes.Equal(got, want) || h.Size() != len(want) {
			t.Errorf("%v is %x, want %x", h, got, want)
		}
		if got, rest, ok := ParseUDHeader(append(want, 9)); !ok || got != h || len(rest) != 1 {
			t.Errorf("parsed %v, %x, %v", got, rest, ok)
		}
		for n := range want {
			if _, rest, ok := ParseUDHeader(want[:n]); ok || len(rest) != n {
				t.Errorf("parsed %d bytes of %x", n, want)
			}
		}
		want[1]++
		if _, _, ok := ParseUDHeader(want); ok {
			t.Errorf("parsed a header of another length: %x", want)
		}
	}
}

func TestUDPHeader(t *testing.T) {
	for text, h := range udpHeaders {
		want := unhex(t, text)
		if got := h.Append(nil); !bytes.Equal(got, want) || h.Size() != len(want) {
			t.Errorf("%v is %x, want %x", h, got, want)
		}
		if got, rest, ok := ParseUDPHeader(append(want, 9)); !ok || got != h || len(rest) != 1 {
			t.Errorf("parsed %v, %x, %v", got, rest, ok)
		}
		for n := range want {
			if _, rest, ok := ParseUDPHeader(want[:n]); ok || len(rest) != n {
				t.Errorf("parsed %d bytes of %x", n, want)
			}
		}
		for _, at := range []int{0, 4, 6} {
			other := bytes.Clone(want)
			other[at]++
			if _, _, ok := ParseUDPHeader(other); ok {
				t.Errorf("parsed %x", other)
			}
		}
	}
}

func FuzzDatagram(f *testing.F) {
	for _, h := range udHeaders {
		f.Add(h.Append(nil))
	}
	for _, h := range udpHeaders {
		f.Add(h.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, rest, ok := ParseUDHeader(b); ok {
			again, _, ok := ParseUDHeader(h.Append(nil))
			if !ok || again != h || len(rest) != len(b)-h.Size() {
				t.Errorf("%+v became %+v", h, again)
			}
		}
		if h, rest, ok := ParseUDPHeader(b); ok {
			again, _, ok := ParseUDPHeader(h.Append(nil))
			if !ok || again != h || len(rest) != len(b)-h.Size() {
				t.Errorf("%+v became %+v", h, again)
			}
		}
	})
}
