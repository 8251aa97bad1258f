// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"verbena/internal/core"
)

// Buffer is memory that was allocated for what a device does with it.
type Buffer core.Buffer

// AllocBuffer returns memory of n bytes, all zero, to be registered and used like any
// other. On a device of kind ntb, as long as there is room, it lies in the window
// that the peer maps: WRITEs to a region in it go straight there, without a copy
// on the way. The peer can write all of such a region for as long as it is
// registered. On other devices it is ordinary memory.
//
// A window in a file or a PCI device may have been another process's, whose peer
// has not noticed that it ended, and still writes there: AllocBuffer waits until it
// has, no longer than 2.6 s.
func (c *Context) AllocBuffer(n int) (*Buffer, error) {
	v, err := (*core.Context)(c).AllocBuffer(n)
	return (*Buffer)(v), err
}

// Bytes returns the memory. It is there until Free, or until the context is
// closed.
func (b *Buffer) Bytes() []byte { return (*core.Buffer)(b).Bytes() }

// Free gives the memory back. Regions in it must have been deregistered.
func (b *Buffer) Free() error { return (*core.Buffer)(b).Free() }
