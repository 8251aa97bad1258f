// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"testing"

	"verbena/ib"
	wire "verbena/internal/wire/roce"
)

// everyOther returns a SACK that misses every other PSN from first on, of so many gaps.
func everyOther(first ib.PSN, gaps int) wire.SACK {
	s := wire.SACK{From: first}
	for range gaps {
		s.Gaps = append(s.Gaps, wire.Gap{First: first, End: first.Add(1)})
		first = first.Add(2)
	}
	s.Upper = first
	return s
}

// A responder that lies makes no more holes than an honest one could have gaps, in no way.
func TestHolesAreBounded(t *testing.T) {
	const una, each = 0xfff000, 512
	var told, split, came scoreboard
	for at := ib.PSN(una); at.Diff(una) < maxKept; at = at.Add(2 * each) {
		told.merge(1, una, everyOther(at, each), 0)
		told.check(t, una)
	}
	if upper := told.upper; upper.Diff(una) != 2*maxGaps {
		t.Errorf("told of %d PSNs", upper.Diff(una))
	}
	all := wire.SACK{From: una, Upper: ib.PSN(una).Add(maxKept),
		Gaps: []wire.Gap{{First: una, End: ib.PSN(una).Add(maxKept)}}}
	split.merge(1, una, all, 0)
	came.merge(1, una, all, 0)
	for at := ib.PSN(una); at.Diff(una) < maxKept; at = at.Add(2 * each) {
		split.merge(1, una, everyOther(at, each), 0)
		split.check(t, una)
		for psn := at; psn != at.Add(2*each); psn = psn.Add(2) {
			came.fill(1, psn.Add(1), psn.Add(2), 0)
		}
		came.check(t, una)
	}
	for _, b := range []*scoreboard{&split, &came} {
		if n := len(b.holes); n < maxGaps-each || b.missing < maxKept-maxGaps-each {
			t.Errorf("%d holes, %d missing", n, b.missing)
		}
		b.fill(1, una, ib.PSN(una).Add(maxKept), 0)
		if b.inUse() || b.missing != 0 || b.lost != 0 {
			t.Errorf("all has arrived: %d holes, %d missing, %d lost", len(b.holes), b.missing, b.lost)
		}
	}
}

// check finds that the holes ascend from una, are not too many, and are counted.
func (b *scoreboard) check(t testing.TB, una ib.PSN) {
	t.Helper()
	missing, end := 0, una
	for i := range b.holes {
		h := &b.holes[i]
		if h.First.Before(end) || !h.First.Before(h.End) {
			t.Fatalf("hole %d: %v", i, h.Gap)
		}
		missing, end = missing+h.size(), h.End
	}
	if len(b.holes) > maxGaps || missing != b.missing || end.After(b.upper) {
		t.Fatalf("%d holes, %d missing, counted %d; the last ends at %v, upper %v",
			len(b.holes), missing, b.missing, end, b.upper)
	}
}
