// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"testing"
	"time"
)

func TestSyndromes(t *testing.T) {
	for s := range 256 {
		s := Syndrome(s)
		want := [...]SyndromeKind{KindACK, KindRNRNAK, KindReserved, KindNAK}[s>>5&3]
		if s.Kind() != want || s.Value() != uint8(s&31) || s.NAK() != s&0x7f {
			t.Errorf("%#02x: %v, %d, %#x", uint8(s), s.Kind(), s.Value(), s.NAK())
		}
	}
	for code := range uint8(32) {
		if s := ACK(code); s.Kind() != KindACK || s.Value() != code {
			t.Errorf("ACK(%d) = %#02x", code, uint8(s))
		}
		if s := RNRNAK(code); s.Kind() != KindRNRNAK || s.Value() != code || uint8(s) != 0x20|code {
			t.Errorf("RNRNAK(%d) = %#02x", code, uint8(s))
		}
	}
	for s, want := range map[Syndrome]string{
		0x1f: "Ack", 0x20: "RNR Nak", 0x40: "Reserved",
		NAKPSNSequence: "PSN Sequence Error", NAKInvalidRequest: "Invalid Request", NAKRemoteAccess: "Remote Access Error",
		NAKRemoteOperational: "Remote Operational Error", NAKInvalidRD: "Invalid RD Request", 0x65: "Unknown (5)",
	} {
		if s.String() != want {
			t.Errorf("%#02x = %q, want %q", uint8(s), s, want)
		}
	}
}

// TestCredits holds the table to its rule: powers of two with one value half
// way between, from 2 on.
func TestCredits(t *testing.T) {
	want := []uint32{0, 1, 2, 3}
	for v := uint32(4); len(want) < 31; v *= 2 {
		want = append(want, v)
		if len(want) < 31 {
			want = append(want, v+v/2)
		}
	}
	for code, w := range want {
		if n, ok := Credits(uint8(code)); !ok || n != w {
			t.Errorf("Credits(%d) = %d, %v; want %d", code, n, ok, w)
		}
	}
	for code := uint8(31); code != 0; code++ {
		if _, ok := Credits(code); ok {
			t.Errorf("Credits(%d) is valid", code)
		}
	}
	for n := range uint32(70000) {
		code := CreditCode(n)
		got, ok := Credits(code)
		if !ok || got > n {
			t.Fatalf("CreditCode(%d) = %d promises %d", n, code, got)
		}
		if next, ok := Credits(code + 1); ok && next <= n {
			t.Fatalf("CreditCode(%d) = %d, but %d promises %d", n, code, code+1, next)
		}
	}
}

// TestRNRTimers holds the table to its rule: 10 µs times 1, 2, 3, 4, 6, 8, 12 …,
// and code 0 the one that would come after 31.
func TestRNRTimers(t *testing.T) {
	units := []int{1, 2, 3}
	for v := 4; len(units) < 32; v *= 2 {
		units = append(units, v, v+v/2)
	}
	for code := uint8(1); code < 32; code++ {
		if got, want := RNRTimer(code), time.Duration(units[code-1])*10*time.Microsecond; got != want {
			t.Errorf("RNRTimer(%d) = %v, want %v", code, got, want)
		}
	}
	if got, want := RNRTimer(0), time.Duration(units[31])*10*time.Microsecond; got != want {
		t.Errorf("RNRTimer(0) = %v, want %v", got, want)
	}
}
