// SPDX-License-Identifier: BSD-2-Clause

package timeline

import "time"

// maxApart bounds the difference of two hosts' clocks. Captures that are farther apart are of
// different times.
const maxApart = int64(time.Hour)

// clockWindows is the number of spans of a connection whose least delays are compared by
// themselves, as clocks drift.
const clockWindows = 32

// extremes are the least and the most that a later file's time of a packet is behind the earlier's.
type extremes struct {
	lo, hi int64
	any    bool
}

func (e *extremes) add(d int64) {
	if !e.any {
		e.lo, e.hi, e.any = d, d, true
	}
	e.lo, e.hi = min(e.lo, d), max(e.hi, d)
}

// trip returns the least time of two packets, one each way, if the earlier file is of an end's
// host. It is negative for the wrong end.
func trip(w *[2]extremes, end int) int64 { return w[end].lo - w[1-end].hi }

// estimate compares two captures by the packets that both have.
type estimate struct {
	end   int   // whose host the earlier file is of; -1: both are of the same
	ahead int64 // of the earlier file's clock is the later's
	trip  int64 // the least time of two packets, one each way
	oneWay,
	none bool // packets went one way only; no packet is common
}

// compare estimates which end each of two captures is of, and their clocks, as NTP does: half the
// difference of the least delays of both ways is what one clock is ahead. told is the end that the
// earlier capture says it is of, or -1.
func compare(windows *[clockWindows][2]extremes, told int) estimate {
	var all [2]extremes
	votes, both := 0, false
	for i := range windows {
		w := &windows[i]
		for end := range w {
			if w[end].any {
				all[end].add(w[end].lo)
				all[end].add(w[end].hi)
			}
		}
		if !w[0].any || !w[1].any {
			continue
		}
		both = true
		if trip(w, 0) > 0 {
			votes++
		}
		if trip(w, 1) > 0 {
			votes--
		}
	}
	e := estimate{end: told, oneWay: !all[0].any || !all[1].any, none: !all[0].any && !all[1].any}
	if !both {
		// One way only: a clock that is ahead and a long way look alike. The other counts as 0.
		if told < 0 && trip(&all, 0) > 0 {
			votes = 1
		} else if told < 0 && trip(&all, 1) > 0 {
			votes = -1
		}
	}
	switch {
	case told >= 0:
	case votes > 0:
		e.end = 0
	case votes < 0:
		e.end = 1
	}
	if e.end < 0 || e.none {
		return e
	}
	if e.oneWay {
		t := trip(&all, e.end)
		e.trip = 2 * max(t, 0)
		switch {
		case t >= 0:
		case all[e.end].any: // it arrives before it leaves
			e.ahead = t
		default:
			e.ahead = -t
		}
		return e
	}
	if !both {
		e.take(&all)
		return e
	}
	first := true
	for i := range windows {
		w := &windows[i]
		if !w[0].any || !w[1].any {
			continue
		}
		t := trip(w, e.end)
		if first || t > 0 && (e.trip <= 0 || t < e.trip) || t <= 0 && e.trip <= 0 && t > e.trip {
			e.take(w)
			first = false
		}
	}
	return e
}

// apart returns the difference of the clocks, or the time of a packet if that is longer.
func (e *estimate) apart() int64 { return max(e.ahead, -e.ahead, e.trip/2) }

// take takes the clocks from extremes of both ways.
func (e *estimate) take(w *[2]extremes) {
	e.trip, e.ahead = trip(w, e.end), (w[e.end].lo+w[1-e.end].hi)/2
}

// clockEdge is the estimate of two files' clocks.
type clockEdge struct {
	to    int
	ahead int64
}

// clocks returns by how much each file's clock is ahead of the first that it can be compared with.
func clocks(files int, edges map[int][]clockEdge) []int64 {
	ahead, seen := make([]int64, files), make([]bool, files)
	for root := range ahead {
		if seen[root] {
			continue
		}
		seen[root] = true
		for list := []int{root}; len(list) > 0; list = list[1:] {
			for _, e := range edges[list[0]] {
				if !seen[e.to] {
					seen[e.to] = true
					ahead[e.to] = ahead[list[0]] + e.ahead
					list = append(list, e.to)
				}
			}
		}
	}
	return ahead
}
