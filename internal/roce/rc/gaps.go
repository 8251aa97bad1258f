// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"slices"
	"sort"

	"verbena/ib"
	wire "verbena/internal/wire/roce"
)

// without returns gaps, which ascend, less the PSNs from first to before end.
func without(gaps []wire.Gap, first, end ib.PSN) []wire.Gap {
	i := sort.Search(len(gaps), func(i int) bool { return gaps[i].End.After(first) })
	for i < len(gaps) && gaps[i].First.Before(end) {
		g := gaps[i]
		before, after := g.First.Before(first), g.End.After(end)
		switch {
		case before && after:
			gaps[i].End = first
			return insert(gaps, i+1, wire.Gap{First: end, End: g.End})
		case before:
			gaps[i].End = first
			i++
		case after:
			gaps[i].First = end
			i++
		default:
			gaps = slices.Delete(gaps, i, i+1)
		}
	}
	return gaps
}
