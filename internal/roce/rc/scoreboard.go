// SPDX-License-Identifier: BSD-2-Clause

package rc

import (
	"slices"

	"verbena/ib"
	"verbena/internal/monotime"
	wire "verbena/internal/wire/roce"
)

// scoreboard records the SACKs of a responder that keeps requests after a gap. It is in use while
// it has holes; the requester does not go back then.
//
//	PSNs    una ── hole ───── hole ─── upper ───────── max
//	               missing    missing       not told
//
// All PSNs before upper that are in no hole have arrived. A hole is repeated when it is lost, and
// again when something that was sent after its repetition has arrived: a PSN that was new then, or
// a repetition with a higher number.
type scoreboard struct {
	holes   []hole
	upper   ib.PSN
	missing int // PSNs in holes
	lost    int // PSNs in holes that are to be repeated

	repeats   uint32        // number of the latest repetition
	arrived   uint32        // of the latest one that is known to have arrived
	reordered bool          // a hole filled by itself: the network is late sometimes
	newest    ib.PSN        // the highest upper of all time
	due       monotime.Time // when a hole is to be judged again

	spare []hole     // memory for merge
	gaps  []wire.Gap // memory for a SACK
}

// hole is a range of requests that the responder misses.
type hole struct {
	wire.Gap
	suspect bool          // shown to be lost
	lost    bool          // to be repeated
	order   uint32        // number of the latest repetition, 0 if there was none
	after   ib.PSN        // one past the newest PSN when it was repeated
	at      monotime.Time // when it was repeated, or else told of
}

func (h *hole) size() int { return int(h.End.Diff(h.First)) }

// inUse reports whether there are holes.
func (b *scoreboard) inUse() bool { return len(b.holes) > 0 }

// clear forgets all holes.
func (b *scoreboard) clear() {
	b.holes, b.missing, b.lost, b.due = b.holes[:0], 0, 0, monotime.Never
}

// has reports whether psn is in a hole.
func (b *scoreboard) has(psn ib.PSN) bool {
	for i := range b.holes {
		if h := &b.holes[i]; h.End.After(psn) {
			return !h.First.After(psn)
		}
	}
	return false
}

// filled takes note that some of a hole has arrived. A packet that arrives sooner than a round trip
// after its repetition was late, not lost.
//
// Source: RFC 8985, section 6.2, step 2.
func (b *scoreboard) filled(now monotime.Time, h *hole, shortest monotime.Duration) {
	if h.order == 0 || now.Sub(h.at) < shortest {
		b.reordered = true
		return
	}
	b.arrived = max(b.arrived, h.order)
}

// advance drops the acknowledged PSNs: those before una.
func (b *scoreboard) advance(now monotime.Time, una ib.PSN, shortest monotime.Duration) {
	n := 0
	for n < len(b.holes) && b.holes[n].First.Before(una) {
		h := &b.holes[n]
		b.filled(now, h, shortest)
		if h.End.After(una) {
			h.First = una
			break
		}
		n++
	}
	b.holes = slices.Delete(b.holes, 0, n)
	if b.upper.Before(una) {
		b.upper = una
	}
	b.count()
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
	if len(b.holes) == 0 {
		b.due = monotime.Never
	}
}

// merge takes in a SACK of a responder that expects psn. A SACK can only fill holes before upper: a
// late or false SACK makes none.
func (b *scoreboard) merge(now monotime.Time, psn ib.PSN, s wire.SACK,
	shortest monotime.Duration) {
	if !b.inUse() {
		b.upper = psn
	}
	if s.From.After(b.upper) {
		return // of gaps before these it is yet to tell
	}
	out, i := b.spare[:0], 0
	for k := range b.holes {
		h := b.holes[k]
		left := h.size()
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
		if left > 0 {
			b.filled(now, &h, shortest)
		}
	}
	for _, g := range s.Gaps {
		if g.First.Before(b.upper) {
			g.First = b.upper
		}
		if g.First.Before(g.End) {
			out = append(out, hole{Gap: g, at: now})
		}
	}
	b.spare, b.holes = b.holes, out
	if s.Upper.After(b.upper) {
		b.upper = s.Upper
	}
	b.count()
}

// suspect finds the holes that a SACK shows to be lost, so far as it tells: those of other PSNs may
// be filled by now.
func (b *scoreboard) suspect(s wire.SACK) {
	for i := range b.holes {
		h := &b.holes[i]
		if h.First.Before(s.From) || h.End.After(s.Upper) {
			continue
		}
		h.suspect = h.suspect || h.order == 0 || b.upper.After(h.after) || h.order < b.arrived
	}
}

// judge has suspected holes repeated, and returns how many PSNs from first on they are. While
// nothing was ever late that is at once; else it waits for a while.
//
// Source: RFC 8985, section 6.2 (RACK: reordering window).
func (b *scoreboard) judge(now monotime.Time, shortest monotime.Duration, first ib.PSN) (lost int) {
	b.due = monotime.Never
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
		if !h.First.Before(first) {
			lost += h.size()
		}
	}
	return lost
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
	if end.Before(h.End) {
		h.End, rest.First = end, end
		b.holes = slices.Insert(b.holes, i+1, rest)
	}
}
