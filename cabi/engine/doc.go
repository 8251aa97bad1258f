// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

// The engine of the C ABI: what stands behind struct vb_engine of
// cabi/include/engine.h. Built with -buildmode=c-shared it is
// libverbena-engine.so, which libibverbs.so.1 opens at the first object that
// needs it.
//
//	C thread ──► table.c ──► exported function ──► handle ──► object ──► verbs
//	                          (a file a section                (objects.go)
//	                           of engine.h)
//
// It translates and holds no protocol: structures of C to values of ib, handles
// to objects of verbs, errors to errno. A handle that names nothing any more is
// refused with EINVAL. The work requests of a post are read where they are, by
// types that mirror C's (wr.go); table.c holds the two equal.
//
// Guests in a foreign process, we install nothing that Go does not, use the
// descriptors of the front and never wait for an application.
package main

// main is never called: the library has no program.
func main() {}
