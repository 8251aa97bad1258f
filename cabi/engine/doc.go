// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

// The engine of the C ABI implements the functions of struct vb_engine in
// cabi/include/engine.h. Built with -buildmode=c-shared it is libverbena-engine.so, which
// libibverbs.so.1 opens at the first object that needs it.
//
//	C thread ──► table.c ──► exports.go ──► handle ──► method of the object ──► verbs
//	             (both generated           (objects.go)   (a file a section
//	              from engine.h)                           of engine.h)
//
// It translates structures of C to values of ib, handles to objects of verbs, and errors to
// errno, and contains no protocol. A handle that names nothing any more is refused with
// EINVAL. The work requests of a post are read in place, by types that mirror those of C
// (package layout); table.c holds the two equal.
//
// The engine is a guest in a foreign process: it installs no handlers but those of Go,
// writes to descriptors of the front, and never waits for an application.
package main

// main is never called: the library has no program.
func main() {}
