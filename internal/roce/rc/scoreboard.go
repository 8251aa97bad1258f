// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"slices"
	"sort"

	"verbena/ib"
	"verbena/internal/monotime"
	wire "verbena/internal/wire/roce"
)

// scoreboard records which PSNs after the oldest missing one have arrived. It is in use while it
// has holes.
//
//	PSNs    una ── hole ─── hole ─── executed ─── hole ─── upper ──── max
//	              responses                      requests       not told
//
// The responder has carried out all requests before executed. Responses of READs and atomics there
// are missing where there is a hole. After executed a responder that keeps requests after a gap
// misses those in the holes: it has told so. READs that it keeps are answered later.
//
// A hole is repeated when it is lost, and again when something that was sent after its repetition
// has arrived: a PSN that was new then, or a repetition with a higher number.
type scoreboard struct {
	holes    []hole
	executed ib.PSN
	upper    ib.PSN
	missing  int // PSNs in holes
	lost     int // PSNs in holes that are to be repeated
	kept     int // PSNs of READs that the responder keeps

	repeats   uint32        // number of the latest repetition
	arrived   uint32        // of the latest one that is known to have arrived
	reordered bool          // a hole filled by itself: the network is late sometimes
	newest    ib.PSN        // the highest upper of all time
	suspected bool          // a response is suspected to be lost since the holes were judged
	due       monotime.Time // when a hole is to be judged again

	// Missing responses that were repeated may be lost again once executed is past watched, or
	// arrived past seen.
	watching bool
	watched  ib.PSN
	seen     uint32

	spare []hole     // memory for merge
	gaps  []wire.Gap // memory for a SACK
}

// hole is a range of requests that the responder misses, or of responses of one READ.
type hole struct {
	wire.Gap
	suspect bool          // shown to be lost
	lost    bool          // to be repeated
	order   uint32        // number of the latest repetition, 0 if there was none
	after   ib.PSN        // one past the newest PSN when it was repeated
	at      monotime.Time // when it was repeated, or else told of
}

func (h *hole) size() int { return int(h.End.Diff(h.First)) }

// overlap returns how many PSNs are in both.
func (h *hole) overlap(g wire.Gap) int {
	if g.First.Before(h.First) {
		g.First = h.First
	}
	if g.End.After(h.End) {
		g.End = h.End
	}
	return max(int(g.End.Diff(g.First)), 0)
}

// inUse reports whether there are holes.
func (b *scoreboard) inUse() bool { return len(b.holes) > 0 }

// begin takes the scoreboard in use.
func (b *scoreboard) begin(una ib.PSN) { b.executed, b.upper = una, una }

// cut forgets all from psn on.
func (b *scoreboard) cut(psn ib.PSN) {
	n := b.before(psn)
	b.holes = b.holes[:n]
	if n > 0 && b.holes[n-1].End.After(psn) {
		b.holes[n-1].End = psn
	}
	if b.upper.After(psn) {
		b.upper = psn
	}
	if b.executed.After(psn) {
		b.executed = psn
	}
	b.kept = 0
	b.count()
}

// before returns how many holes begin before psn.
func (b *scoreboard) before(psn ib.PSN) int {
	return sort.Search(len(b.holes), func(i int) bool { return !b.holes[i].First.Before(psn) })
}

// has reports whether psn is in a hole.
func (b *scoreboard) has(psn ib.PSN) bool {
	n := b.before(psn.Add(1))
	return n > 0 && b.holes[n-1].End.After(psn)
}

// filled takes note that some of a hole has arrived. A packet that arrives much sooner
// than a round trip after its repetition was late, not lost.
//
// Source: RFC 8985, section 6.2, step 2.
func (b *scoreboard) filled(now monotime.Time, h *hole, shortest monotime.Duration) {
	if h.order == 0 || now.Sub(h.at) < shortest-shortest/4 {
		b.reordered = true
		return
	}
	b.arrived = max(b.arrived, h.order)
}

// fill takes note that the PSNs from first to before end have arrived.
func (b *scoreboard) fill(now monotime.Time, first, end ib.PSN, shortest monotime.Duration) {
	i := b.before(first)
	if i > 0 && b.holes[i-1].End.After(first) {
		i--
	}
	for i < len(b.holes) && b.holes[i].First.Before(end) {
		h := &b.holes[i]
		b.filled(now, h, shortest)
		n := h.overlap(wire.Gap{First: first, End: end})
		b.missing -= n
		if h.lost {
			b.lost -= n
		}
		before, after := h.First.Before(first), h.End.After(end)
		if before && after && len(b.holes) >= maxGaps { // it is repeated as a whole
			b.missing += n
			if h.lost {
				b.lost += n
			}
			break
		}
		switch {
		case before && after:
			rest := *h
			h.End, rest.First = first, end
			b.holes = insert(b.holes, i+1, rest)
			i++
		case before:
			h.End = first
		case after:
			h.First = end
		default:
			b.holes = slices.Delete(b.holes, i, i+1)
			continue
		}
		i++
	}
	b.rest()
}

// advance drops the acknowledged PSNs: those before una.
func (b *scoreboard) advance(now monotime.Time, una ib.PSN, shortest monotime.Duration) {
	b.fill(now, b.holes[0].First, una, shortest)
	b.pass(una)
}

// pass takes note that all requests before end have been carried out.
func (b *scoreboard) pass(end ib.PSN) {
	if b.executed.Before(end) {
		b.executed = end
	}
	if b.upper.Before(end) {
		b.upper = end
	}
}

// count counts missing and lost anew.
func (b *scoreboard) count() {
	b.missing, b.lost = 0, 0
	for i := range b.holes {
		h := &b.holes[i]
		b.missing += h.size()
		if h.lost {
			b.lost += h.size()
		}
	}
	b.rest()
}

// rest stops the timers of repetitions when no hole is left.
func (b *scoreboard) rest() {
	if len(b.holes) == 0 {
		b.due, b.kept, b.watching, b.suspected = monotime.Never, 0, false, false
	}
}

// merge takes in a SACK of a responder that expects psn, which is executed. A SACK can only fill
// holes before upper: a late or false SACK makes none. Beyond maxGaps holes no hole is split, and
// none is added: what has arrived there is repeated, or told of by a later SACK.
func (b *scoreboard) merge(now monotime.Time, psn ib.PSN, s wire.SACK,
	shortest monotime.Duration) {
	if !b.inUse() {
		b.begin(psn)
	}
	if s.From.After(b.upper) {
		return // of gaps before these it is yet to tell
	}
	requests := b.before(psn)
	out, i := append(b.spare[:0], b.holes[:requests]...), 0
	for n, h := range b.holes[requests:] {
		left, begin := h.size(), len(out)
		piece := func(first, end ib.PSN) {
			if first.Before(h.First) {
				first = h.First
			}
			if end.After(h.End) {
				end = h.End
			}
			if first.Before(end) {
				p := h
				p.First, p.End = first, end
				left -= p.size()
				out = append(out, p)
			}
		}
		piece(h.First, s.From) // which the SACK does not tell of
		for i < len(s.Gaps) && !s.Gaps[i].End.After(h.First) {
			i++
		}
		for g := i; g < len(s.Gaps) && s.Gaps[g].First.Before(h.End); g++ {
			piece(s.Gaps[g].First, s.Gaps[g].End)
		}
		piece(s.Upper, h.End) // nor of this
		if to := len(out) - 1; to > begin && len(out)+len(b.holes)-requests-n-1 > maxGaps {
			out[begin].End = out[to].End
			left, out = h.size()-out[begin].size(), out[:begin+1]
		}
		if left > 0 {
			b.filled(now, &h, shortest)
		}
	}
	for _, g := range s.Gaps {
		if g.First.Before(b.upper) {
			g.First = b.upper
		}
		if !g.First.Before(g.End) {
			continue
		}
		if len(out) >= maxGaps {
			s.Upper = g.First
			break
		}
		out = append(out, hole{Gap: g, at: now})
	}
	b.spare, b.holes = b.holes, out
	if s.Upper.After(b.upper) {
		b.upper = s.Upper
	}
	b.count()
}

// suspect finds the requests that a SACK shows to be lost, so far as it tells: others may have
// arrived by now.
func (b *scoreboard) suspect(s wire.SACK) {
	for i := b.before(b.executed); i < len(b.holes); i++ {
		h := &b.holes[i]
		if h.First.Before(s.From) || h.End.After(s.Upper) {
			continue
		}
		h.suspect = h.suspect || h.order == 0 || b.upper.After(h.after) || h.order < b.arrived
	}
}

// suspectAgain finds the responses that were repeated and are shown to be lost again.
func (b *scoreboard) suspectAgain() {
	if !b.watching || !b.executed.After(b.watched) && b.arrived == b.seen {
		return
	}
	b.watching, b.seen = false, b.arrived
	for i := range b.holes[:b.before(b.executed)] {
		h := &b.holes[i]
		switch {
		case h.suspect:
		case h.order < b.arrived || b.executed.After(h.after):
			h.suspect, b.suspected = true, true
		default:
			b.watch(h)
		}
	}
}

// watch has a repeated hole suspected again in time.
func (b *scoreboard) watch(h *hole) {
	if !b.watching || h.after.Before(b.watched) {
		b.watching, b.watched = true, h.after
	}
}

// judge has suspected holes repeated, and gives them to lost. While nothing was ever late that is
// at once; else it waits for a while.
//
// Source: RFC 8985, section 6.2 (RACK: reordering window).
func (b *scoreboard) judge(now monotime.Time, shortest monotime.Duration, lost func(*hole)) {
	b.due, b.suspected = monotime.Never, false
	for i := range b.holes {
		h := &b.holes[i]
		if h.lost || !h.suspect {
			continue
		}
		if b.reordered {
			at := h.at.Add(shortest / 4)
			if h.order > 0 {
				at = at.Add(shortest)
			}
			if now.Before(at) {
				b.due = min(b.due, at)
				continue
			}
		}
		h.lost = true
		b.lost += h.size()
		lost(h)
	}
}

// lose makes the requester repeat the missing PSNs in [first, end). end is the newest PSN plus one.
func (b *scoreboard) lose(now monotime.Time, first, end ib.PSN) {
	for i := range b.holes {
		if h := &b.holes[i]; h.End.After(first) {
			h.lost = true
		}
	}
	if first.Before(b.upper) {
		first = b.upper
	}
	if first.Before(end) {
		b.holes = append(b.holes, hole{Gap: wire.Gap{First: first, End: end}, lost: true, at: now})
		b.upper = end
	}
	b.count()
}

// loseAll has all holes repeated.
func (b *scoreboard) loseAll() {
	for i := range b.holes {
		b.holes[i].lost = true
	}
	b.count()
}

// repeated takes note that the hole at i is sent again up to before end, while max is one past the
// newest PSN.
func (b *scoreboard) repeated(now monotime.Time, i int, end, newest ib.PSN) {
	h := &b.holes[i]
	rest := *h
	b.repeats++
	h.suspect, h.lost, h.order, h.after, h.at = false, false, b.repeats, newest, now
	b.watch(h)
	if end.Before(h.End) {
		h.End, rest.First = end, end
		b.holes = insert(b.holes, i+1, rest)
	}
}
