// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package numa

// Check reports whether memory and threads can be placed on a node: not on this
// system.
func Check(node int) error { return ErrNode }

// Place has memory come from a node.
func Place(b []byte, node int) error { return ErrNode }

// Run has the calling thread run on nodes.
func Run(list ...int) error { return ErrNode }
