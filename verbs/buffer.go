// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"verbena/internal/core"
)

// Buffer is memory that was allocated for use with a device.
type Buffer core.Buffer

// AllocBuffer returns n bytes of memory, all zero, to register and use like any other.
//
// On a device of kind ntb the memory lies in the window that the peer maps, as long as there is
// room. WRITEs to a region in it go straight there, without an intermediate copy. The peer can
// write all of such a region for as long as it is registered. On other devices it is ordinary
// memory.
//
// A window in a file or a PCI device may have belonged to another process before. If the peer
// has not noticed that this process ended, it may still write there: AllocBuffer waits until it
// has, at most 2.6 s.
func (c *Context) AllocBuffer(n int) (*Buffer, error) {
	v, err := (*core.Context)(c).AllocBuffer(n)
	return (*Buffer)(v), err
}

// Bytes returns the memory. It is valid until Free, or until the context is closed.
func (b *Buffer) Bytes() []byte { return (*core.Buffer)(b).Bytes() }

// Free releases the memory. Regions in it must have been deregistered.
func (b *Buffer) Free() error { return (*core.Buffer)(b).Free() }
