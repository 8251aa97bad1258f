// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import (
	"verbena/internal/engine/policy"
	"verbena/internal/iwarp/rdmap"
)

// headerFirst decides how much is read of which nobody knows where it belongs:
// the next headers, so that payload is then read straight to its place. Where
// small segments come faster than they are read, many are read at a time and
// copied.
type headerFirst struct {
	small int // reads in a row that were of small segments and left something
}

// headerRoom is what stands between the payloads of two segments: pad, CRC,
// length, headers.
const headerRoom = 32

// buffer returns how many bytes to read behind those placed, of all that there is
// room for.
func (h *headerFirst) buffer(s *rdmap.Stream, placed, all int) int {
	if h.small < policy.SmallReads {
		return min(s.Rest()-placed+headerRoom, all)
	}
	return all
}

// read notes a read that brought something, and whether that was all there
// was.
func (h *headerFirst) read(s *rdmap.Stream, all bool) {
	switch {
	case s.SegmentBytes() >= policy.LargeSegment, h.small < policy.SmallReads && all:
		h.small = 0
	case h.small < policy.SmallReads:
		h.small++
	}
}
