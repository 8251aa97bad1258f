// SPDX-License-Identifier: BSD-2-Clause

package rdma

import "slices"

// An arena gives out ranges of a window.
type arena struct {
	free []extent // in order, none touching the next
	left uint64
}

type extent struct{ at, n uint64 }

// grain divides the size of every range: a cache line, so that no two ranges share one.
const grain = 64

func roundUp(n uint64) uint64 { return (n + grain - 1) &^ (grain - 1) }

// newArena returns an arena of n bytes from at on, less the rest that does not fit the grain.
func newArena(at, n uint64) *arena {
	first := roundUp(at)
	if n < first-at+grain {
		return &arena{}
	}
	n = (n - (first - at)) &^ (grain - 1)
	return &arena{free: []extent{{first, n}}, left: n}
}

// take returns where n bytes are, false if there are not so many in a row.
func (a *arena) take(n uint64) (at uint64, ok bool) {
	n = roundUp(max(n, 1))
	for i := range a.free {
		e := &a.free[i]
		if e.n < n {
			continue
		}
		at = e.at
		e.at, e.n = e.at+n, e.n-n
		if e.n == 0 {
			a.free = slices.Delete(a.free, i, i+1)
		}
		a.left -= n
		return at, true
	}
	return 0, false
}

// give takes back n bytes that take returned.
func (a *arena) give(at, n uint64) {
	n = roundUp(max(n, 1))
	a.left += n
	i, _ := slices.BinarySearchFunc(a.free, at, func(e extent, at uint64) int {
		if e.at < at {
			return -1
		}
		return 1
	})
	before := i > 0 && a.free[i-1].at+a.free[i-1].n == at
	after := i < len(a.free) && at+n == a.free[i].at
	switch {
	case before && after:
		a.free[i-1].n += n + a.free[i].n
		a.free = slices.Delete(a.free, i, i+1)
	case before:
		a.free[i-1].n += n
	case after:
		a.free[i].at, a.free[i].n = at, a.free[i].n+n
	default:
		a.free = append(a.free, extent{})
		copy(a.free[i+1:], a.free[i:])
		a.free[i] = extent{at, n}
	}
}
