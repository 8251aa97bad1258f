// SPDX-License-Identifier: BSD-2-Clause

package roce_test

import (
	"slices"
	"testing"

	"verbena/ib"
	"verbena/internal/wire/roce"
)

func TestSACK(t *testing.T) {
	const psn = 0xfffffd
	gaps := []roce.Gap{{First: psn, End: psn + 1}, {First: psn + 2, End: 1}, {First: 4, End: 5004}}
	want := roce.SACK{From: psn, Upper: 5100, Gaps: gaps}
	b, told := want.Append(make([]byte, 0, 100), psn)
	got, ok := roce.ParseSACK(b, psn, nil)
	if !ok || told != 3 || got.From != psn || got.Upper != want.Upper || !slices.Equal(got.Gaps, gaps) {
		t.Fatalf("%x: %+v, %v", b, got, ok)
	}
	for n, told := range []int{0, 0, 0, 1, 1, 2, 2, 2} {
		if s, ok := roce.ParseSACK(b[:n], psn, nil); ok != (n == 3 || n == 5) || ok && len(s.Gaps) != told {
			t.Errorf("%d bytes: %v, %+v", n, ok, s)
		}
	}
}

// Gaps that do not fit are not told of; another SACK begins with them.
func TestSACKInParts(t *testing.T) {
	all := roce.SACK{From: 0, Upper: 1000}
	for i := range ib.PSN(100) {
		all.Gaps = append(all.Gaps, roce.Gap{First: 10 * i, End: 10*i + 1})
	}
	var got []roce.Gap
	for len(all.Gaps) > 0 {
		b, n := all.Append(make([]byte, 0, 60), 0)
		s, ok := roce.ParseSACK(b, 0, got)
		all.Gaps = all.Gaps[n:]
		if !ok || s.From != all.From || n < 20 || len(s.Gaps) != len(got)+n {
			t.Fatalf("%d gaps, from %v to %v, %v", n, s.From, s.Upper, ok)
		}
		if all.From = s.Upper; len(all.Gaps) > 0 && s.Upper != all.Gaps[0].First {
			t.Fatalf("ends at %v, not before the next gap", s.Upper)
		}
		got = s.Gaps
	}
	if len(got) != 100 || got[99].End != 991 {
		t.Errorf("%d gaps, the last %+v", len(got), got[99])
	}
}

func TestSACKMalformed(t *testing.T) {
	for name, b := range map[string][]byte{
		"nothing": {}, "no gap": {0}, "nothing missing": {0, 0, 1}, "nothing arrived": {0, 1, 0},
		"half": {0, 1}, "half of the second": {0, 1, 1, 1}, "unfinished": {0, 1, 0x80},
		"too long":       {0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 1},
		"too many PSNs":  {0, 0xff, 0xff, 0xff, 0x07, 1},
		"more than half": {0, 0xff, 0xff, 0xff, 0x01, 0xff, 0xff, 0xff, 0x01, 1, 1},
		"too far":        {0xff, 0xff, 0xff, 0x03, 1, 1},
	} {
		if s, ok := roce.ParseSACK(b, 5, nil); ok {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
