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

// Garbage is collected when the pages that are free have been used up, and not
// as soon as the heap has doubled. A collection that leaves more of them than a
// tenth makes the Go runtime give some back to the system, bit by bit, by a timer;
// and timers start its poller, which an application that closes all descriptors
// must not meet (package nap).
//
// Garbage comes with objects of the application and with the messages of strangers,
// so it is looked for as these come. Posting and polling make none.
//
// Under valgrind nothing is collected. The runtime tells it of each object, but not of the
// end of tiny ones, and valgrind gives up when one of them is where another was.
//
// Should some come another way, the runtime collects it by itself at a bound that
// leaves room for all of the above.

const (
	// comesPerLook is how many objects and messages come between looks, which take some
	// microseconds. A request allocates some KiB.
	comesPerLook = 64
	// leastGarbage is what a collection is worth the while for.
	leastGarbage = 4 << 20
	// freeShare of the pages in use may be free when garbage is collected, half
	// of what the runtime leaves alone.
	freeShare = 20
	// strayGarbage is how much there may be beyond twice what is in use.
	strayGarbage = 32 << 20
)

var garbage struct {
	comes atomic.Uint64
	stays bool  // immutable after init: nothing is collected
	user  int64 // immutable after init: GOMEMLIMIT

	mu    sync.Mutex
	sizes sizes // guarded by mu
	bound int64 // guarded by mu: the runtime's memory limit
}

// What sizes are of.
const (
	heapObjects = iota // with garbage
	heapUnused         // the rest of the pages in use
	heapFree           // pages that are free and have not been given back
	heapLive           // after the last collection
	released           // pages given back
	total              // with those
	numSizes
)

// sizes are what the runtime says of its memory, in bytes.
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
		heapObjects: "/memory/classes/heap/objects:bytes", heapUnused: "/memory/classes/heap/unused:bytes",
		heapFree: "/memory/classes/heap/free:bytes", heapLive: "/gc/heap/live:bytes",
		released: "/memory/classes/heap/released:bytes", total: "/memory/classes/total:bytes",
	} {
		garbage.sizes[i].Name = name
	}
	garbage.sizes.read()
	setBound()
	afterCollections()
}

// lookForGarbage is called as an object is made, and as a stranger says something.
func lookForGarbage() {
	if garbage.comes.Add(1)%comesPerLook == 0 && !garbage.stays {
		go collect()
	}
}

// collect holds the lock for as long as it takes: a second collection right after the
// first would find the pages free.
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

// afterCollections has the bound moved after each collection, whatever began it.
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

// setBound moves the runtime's memory limit out of the way of what the application
// has. It never comes back: a lower limit is one that the runtime gives pages back for.
// The caller holds garbage.mu and has read the sizes.
func setBound() {
	s := &garbage.sizes
	other := s.of(total) - s.of(released) - s.of(heapObjects) - s.of(heapUnused) - s.of(heapFree)
	if b := boundFor(s.of(heapLive)+other, garbage.user); b > garbage.bound {
		garbage.bound = b
		debug.SetMemoryLimit(b)
	}
}

// boundFor returns the memory limit where so much is in use: twice that and some more,
// but never what is beyond the user's.
func boundFor(used uint64, user int64) int64 {
	return min(int64(min(2*used+strayGarbage, math.MaxInt64)), user)
}
