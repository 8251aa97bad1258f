// SPDX-License-Identifier: BSD-2-Clause

package mem

// preload asks for the lines of n bytes at p.
//
//go:noescape
func preload(p *byte, n uintptr)
