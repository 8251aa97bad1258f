// SPDX-License-Identifier: BSD-2-Clause

package mem

import "unsafe"

// LinesOf returns the lines of *p.
func LinesOf[T any](p *T) Lines { return Lines{(*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p)} }

// LinesOfChan returns the first lines of a channel, which is a pointer in Go's runtime.
func LinesOfChan[T any](c chan T) Lines { return Lines{*(**byte)(unsafe.Pointer(&c)), 96} }
