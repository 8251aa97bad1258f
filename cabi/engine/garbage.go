// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #define _GNU_SOURCE
// #include "../include/valgrind.h"
import "C"

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
)

// Garbage is collected when the free pages have been used up, not when the heap has doubled. A
// collection that leaves more than a tenth of the pages free makes the Go runtime return some to
// the system, by a timer. Timers start its poller, which fails in an application that closes all
// descriptors (package futex).
//
// Garbage comes from objects of the application and from messages of unknown peers, so each of
// these counts towards the next check. Posting and polling make none. The runtime collects any
// other garbage by itself, at a limit that leaves room for all of the above.
//
// Under valgrind nothing is collected. The runtime reports each new object to valgrind, but not the
// end of tiny ones. valgrind aborts when a new object lies where an old one was.

const (
	// comesPerLook objects and messages come between two checks. A check takes some microseconds; a
	// request allocates some KiB.
	comesPerLook = 64
	// leastGarbage bytes of garbage are worth a collection.
	leastGarbage = 4 << 20
	// At most 1/freeShare of the pages in use may be free when garbage is collected: half of the
	// share that the runtime keeps.
	freeShare = 20
	// strayGarbage bytes are allowed beyond twice the memory in use.
	strayGarbage = 32 << 20
)

var garbage struct {
	comes atomic.Uint64
	stays bool  // immutable after init: never collect
	user  int64 // immutable after init: GOMEMLIMIT

	mu    sync.Mutex
	sizes sizes // guarded by mu
	bound int64 // guarded by mu: the runtime's memory limit
}

// The kinds of sizes.
const (
	heapObjects = iota // objects, garbage included
	heapUnused         // the rest of these pages
	heapFree           // free pages that were not given back
	heapLive           // live bytes after the last collection
	released           // pages given back to the system
	total              // all of it, released included
	numSizes
)

// sizes has the memory statistics of the runtime, in bytes.
type sizes [numSizes]metrics.Sample

func (s *sizes) read() { metrics.Read(s[:]) }

func (s *sizes) of(i int) uint64 { return s[i].Value.Uint64() }

func init() {
	debug.SetGCPercent(-1)
	if garbage.stays = C.vb_under_valgrind() != 0; garbage.stays {
		return
	}
	garbage.user = debug.SetMemoryLimit(-1)
	for i, name := range [numSizes]string{
		heapObjects: "/memory/classes/heap/objects:bytes",
		heapUnused:  "/memory/classes/heap/unused:bytes",
		heapFree:    "/memory/classes/heap/free:bytes",
		heapLive:    "/gc/heap/live:bytes",
		released:    "/memory/classes/heap/released:bytes",
		total:       "/memory/classes/total:bytes",
	} {
		garbage.sizes[i].Name = name
	}
	garbage.sizes.read()
	setBound()
	afterCollections()
}

// lookForGarbage counts a new object or a message of an unknown peer, and collects garbage at
// times.
func lookForGarbage() {
	if garbage.comes.Add(1)%comesPerLook == 0 && !garbage.stays {
		go collect()
	}
}

// collect checks, and collects if that is due. It holds the lock throughout: a second collection
// right after the first would find free pages.
func collect() {
	if !garbage.mu.TryLock() {
		return
	}
	defer garbage.mu.Unlock()
	s := &garbage.sizes
	s.read()
	if due(s.of(heapObjects), s.of(heapUnused), s.of(heapFree), s.of(heapLive)) {
		runtime.GC()
	}
}

// due reports whether garbage is to be collected, by sizes in bytes.
func due(objects, unused, free, live uint64) bool {
	return objects >= 2*live+leastGarbage && free <= (objects+unused)/freeShare
}

// afterCollections moves the bound after each collection, also those that the runtime starts.
func afterCollections() {
	type sentinel struct{ _ [16]byte }
	runtime.SetFinalizer(new(sentinel), func(*sentinel) {
		garbage.mu.Lock()
		garbage.sizes.read()
		setBound()
		garbage.mu.Unlock()
		afterCollections()
	})
}

// setBound raises the memory limit of the runtime above the memory in use. It never lowers it: the
// runtime would give back pages. The caller holds garbage.mu and has read the sizes.
func setBound() {
	s := &garbage.sizes
	other := s.of(total) - s.of(released) - s.of(heapObjects) - s.of(heapUnused) - s.of(heapFree)
	if b := boundFor(s.of(heapLive)+other, garbage.user); b > garbage.bound {
		garbage.bound = b
		debug.SetMemoryLimit(b)
	}
}

// boundFor returns the memory limit for used bytes: twice that and strayGarbage, at most the limit
// of the user.
func boundFor(used uint64, user int64) int64 {
	return min(int64(min(2*used+strayGarbage, math.MaxInt64)), user)
}
