// SPDX-License-Identifier: BSD-2-Clause

package pingpong

import (
	"bytes"
	"net/netip"
	"testing"

	"verbena/ib"
)

// captured is the message of ibv_rc_pingpong 44 with -g 1 on rxe.
const captured = "0000:000012:2259aa:00000000000000000000ffff0a4d0002\x00"

func TestAddressIsThatOfRdmaCore(t *testing.T) {
	want := Address{QPN: 0x12, PSN: 0x2259aa, GID: ib.GIDFromAddr(netip.MustParseAddr("10.77.0.2"))}
	got, ok := ParseAddress([]byte(captured))
	if !ok || got != want {
		t.Errorf("ParseAddress = %v, %v", got, ok)
	}
	if b := want.Append(nil); string(b) != captured {
		t.Errorf("Append = %q", b)
	}
	if s := got.String(); s != "LID 0x0000, QPN 0x000012, PSN 0x2259aa, GID ::ffff:10.77.0.2" {
		t.Errorf("String = %q", s)
	}
}

func TestParseAddressRefusesWhatIsNone(t *testing.T) {
	for i := range captured {
		if _, ok := ParseAddress([]byte(captured[:i])); ok {
			t.Errorf("the first %d bytes were taken", i)
		}
	}
	for _, s := range []string{
		"0000:000012:2259aa:00000000000000000000ffff0a4d000g\x00",
		"00000:00012:2259aa:00000000000000000000ffff0a4d0002\x00",
		"-001:000012:2259aa:00000000000000000000ffff0a4d0002\x00",
		"0000:000012:2259aa:00000000000000000000ffff0a4d0002\n",
		"0000:000012:2259aa:00000000000000000000:fff0a4d0002\x00",
	} {
		if a, ok := ParseAddress([]byte(s)); ok && s[0] != '0' {
			t.Errorf("%q was taken: %v", s, a)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	f.Add([]byte(captured))
	f.Add(bytes.Repeat([]byte(":"), addressBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := ParseAddress(b)
		if !ok {
			return
		}
		again, ok := ParseAddress(a.Append(nil))
		if !ok || again != a {
			t.Errorf("%q: %v, written again %v", b, a, again)
		}
	})
}
