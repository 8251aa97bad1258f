// SPDX-License-Identifier: BSD-2-Clause

package mem

// Lines are the cache lines of an object, for a hint to the processor. They are not read. They keep
// the object alive.
type Lines struct {
	first *byte
	bytes uintptr
}

// Preload asks the processor for the lines, and does not wait. So a thread that goes on to use
// memory which has left the caches waits for a few lines, not for one after the other.
func (l Lines) Preload() { preload(l.first, l.bytes) }
