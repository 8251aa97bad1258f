// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import (
	"verbena/internal/engine/policy"
	"verbena/internal/iwarp/rdmap"
)

// headerRoom is the number of bytes between the payloads of two segments: pad, CRC, length,
// headers.
const headerRoom = 32

// readAhead returns the number of bytes to read behind the payload that is read to its place, of
// all that there is room for. Behind a large segment, and at first, they are the next headers
// alone: then the next payload is read straight to its place, too. Small segments are read many at
// a time, and copied.
func readAhead(s *rdmap.Stream, placed, all int) int {
	if n := s.SegmentBytes(); n > 0 && n < policy.LargeSegment {
		return all
	}
	return min(max(s.Rest()-placed, 0)+headerRoom, all)
}
