// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package mem

import "verbena/ib"

// Mapped cannot know here, and returns true.
func Mapped(at, n uintptr) bool { return true }

// populate pages in b, for writing if the advice is so. It returns false if a part is not mapped,
// or may not be written.
func populate(b []byte, advice ib.MRAdvice) bool {
	return advice == ib.AdvicePrefetchNoFault || touch(b, advice == ib.AdvicePrefetchWrite)
}
