// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"slices"
	"sort"
)

// Bounds of a flow's state beside its rows.
const (
	maxInFlight = 1 << 14
	maxGaps     = 1 << 10
	// maxJump bounds the gap that counts as missing. Beyond it numbers begin anew.
	maxJump = 1 << 26
)

// space follows the numbers of one end's requests.
type space struct {
	synced bool
	base   uint32 // the number on the wire that is 0 here
	next   int64  // behind the last seen
	acked  int64  // all before are acknowledged

	flight []sent // in the order of their numbers
	gaps   []span // not seen, ascending
	bytes  uint64 // of flight
	loose  bool   // the last request was a READ of unknown length: numbers after it are not missing

	ops     []uint32 // in the order of their numbers
	pending int      // ops before it have ended
	lastRep bool     // the last request was a repetition
	asked   bool     // a NAK has asked for one
}

type span struct{ from, to int64 }

// sent is a packet that is not acknowledged.
type sent struct {
	from, to int64
	at       int64
	row      uint32
	bytes    uint32
	again    bool
}

// send takes a request with n numbers and a count of bytes that are outstanding then. earlier is
// the row that it repeats, or None.
func (s *space) send(from, n, at int64, row, bytes uint32) (k Kind, earlier uint32) {
	earlier = None
	if !s.synced || from > s.next+maxJump {
		*s = space{synced: true, base: s.base, next: from, acked: from, ops: s.ops,
			pending: len(s.ops)}
	}
	p := sent{from: from, to: from + n, at: at, row: row, bytes: bytes}
	switch {
	case from >= s.next:
		if from > s.next && !s.loose && len(s.gaps) < maxGaps {
			s.gaps = append(s.gaps, span{s.next, from})
		}
		s.loose = false
		s.next = p.to
		k = Sent
		s.push(len(s.flight), p)
	case s.fill(from, p.to):
		k = Late
		if i := s.at(from); i == len(s.flight) || s.flight[i].from != from {
			s.push(i, p)
		}
	default:
		k = Repeated
		if i := s.at(from); i < len(s.flight) && s.flight[i].from == from {
			f := &s.flight[i]
			earlier, f.row, f.at, f.again = f.row, row, at, true
		}
		s.next = max(s.next, p.to)
	}
	return k, earlier
}

func (s *space) push(i int, p sent) {
	if p.to <= s.acked {
		return
	}
	if len(s.flight) == maxInFlight {
		s.bytes -= uint64(s.flight[0].bytes)
		s.flight = s.flight[1:]
		i = max(i-1, 0)
	}
	s.flight = slices.Insert(s.flight, i, p)
	s.bytes += uint64(p.bytes)
}

// at returns the place in flight of the first packet that begins at n or behind it.
func (s *space) at(n int64) int {
	return sort.Search(len(s.flight), func(i int) bool { return s.flight[i].from >= n })
}

// fill takes numbers out of the gaps, and reports whether from was in one.
func (s *space) fill(from, to int64) bool {
	for i, g := range s.gaps {
		if from < g.from || from >= g.to {
			continue
		}
		var rest []span
		if from > g.from {
			rest = append(rest, span{g.from, from})
		}
		if to < g.to {
			rest = append(rest, span{to, g.to})
		}
		if len(rest) == 2 && len(s.gaps) >= maxGaps {
			rest = rest[1:] // the lower part is less likely to come
		}
		s.gaps = slices.Replace(s.gaps, i, i+1, rest...)
		return true
	}
	return false
}

// ack takes an acknowledgement of all before n. It returns the round trip of the last packet that
// it acknowledges, unless that was sent twice.
func (s *space) ack(n, at int64) (rtt int64, ok bool) {
	if !s.synced || n <= s.acked || n > s.next+maxJump {
		return 0, false
	}
	s.acked = n
	i := 0
	for i < len(s.flight) && s.flight[i].to <= n {
		s.bytes -= uint64(s.flight[i].bytes)
		i++
	}
	if i > 0 {
		last := s.flight[i-1]
		rtt, ok = at-last.at, !last.again && last.to == n
		s.flight = s.flight[i:]
	}
	return rtt, ok
}

// after returns the place in ops of the first operation that begins behind number n.
func (s *space) after(all []Op, n int64) int {
	return sort.Search(len(s.ops), func(i int) bool { return all[s.ops[i]].first > n })
}

// op returns the place in ops of the operation that has number n, or -1.
func (s *space) op(all []Op, n int64) int {
	i := s.after(all, n) - 1
	if i < 0 || n >= all[s.ops[i]].end {
		return -1
	}
	return i
}
