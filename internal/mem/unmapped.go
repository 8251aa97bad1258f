// SPDX-License-Identifier: BSD-2-Clause

package mem

import "sync/atomic"

// A NIC has registered memory pinned: a peer's bytes go to pages that the application has unmapped,
// and nobody sees them. Registration caches count on that. So bytes for memory that is not mapped
// are taken and placed nowhere. Two cases are still errors. Writing to memory that is mapped
// read-only would make the application miss the bytes. Reading memory that has gone has no right
// result.
//
// The key opens memory that is mapped anew at the address from then on.
//
// A region of AccessOnDemand is strict: a NIC does not pin its memory, and fails a request whose
// pages it cannot get.

// unplaced counts bytes that were placed nowhere, in the whole process.
var unplaced atomic.Uint64

// Unplaced returns how many bytes for registered memory were placed nowhere
// because the application has unmapped it, in the whole process.
func Unplaced() uint64 { return unplaced.Load() }

// copyIn copies src to memory of g, and skips parts that are not mapped, unless g is strict. A null
// region discards src. copyIn returns false if dst is mapped and may not be written, or if a strict
// region's is not mapped.
func (g *keyEntry) copyIn(dst, src []byte) (ok bool) {
	return g.null || Copy(dst, src) || !g.strict && copyAround(dst[:len(src)], src)
}

// copyAround is copyIn after a fault: page by page.
func copyAround(dst, src []byte) (ok bool) {
	for len(dst) > 0 {
		n := min(len(dst), untilPage(dst))
		if !Copy(dst[:n], src[:n]) && !unmapped(dst[:n]) {
			return false
		}
		dst, src = dst[n:], src[n:]
	}
	return true
}

// unmapped reports whether b, in one page, which could not be written, is not mapped.
// Its bytes are counted then.
func unmapped(b []byte) bool {
	if Mapped(addressOf(b), uintptr(len(b))) {
		return false
	}
	unplaced.Add(uint64(len(b)))
	return true
}
