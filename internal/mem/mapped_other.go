// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package mem

import "verbena/ib"

// Mapped cannot know here, and returns true.
func Mapped(at, n uintptr) bool { return true }

// populate pages in b for reading, and returns false if a part is not mapped.
func populate(b []byte, advice ib.MRAdvice) bool {
	return advice == ib.AdvicePrefetchNoFault || touch(b)
}
