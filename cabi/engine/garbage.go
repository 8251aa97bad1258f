//go:build cabi

package main

import (
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
// Objects of the application are what garbage comes with, so it is looked for as
// they are made. Posting and polling make none.

const (
	// putsPerLook is how many objects are made between looks, which take some
	// microseconds.
	putsPerLook = 64
	// leastGarbage is what a collection is worth the while for.
	leastGarbage = 4 << 20
	// freeShare of the pages in use may be free when garbage is collected, half
	// of what the runtime leaves alone.
	freeShare = 20
	// strayGarbage bounds what strangers can make, without an object of ours:
	// beyond it the runtime does as it likes.
	strayGarbage = 1 << 30
)

var garbage struct {
	puts atomic.Uint64

	mu      sync.Mutex
	samples [4]metrics.Sample // guarded by mu
	bound   int64             // guarded by mu: the runtime's memory limit
}

// What garbage.samples are of.
const (
	heapObjects = iota // with garbage
	heapUnused         // the rest of the pages in use
	heapFree           // pages that are free and have not been given back
	heapLive           // after the last collection
)

func init() {
	debug.SetGCPercent(-1)
	for i, name := range [...]string{
		heapObjects: "/memory/classes/heap/objects:bytes", heapUnused: "/memory/classes/heap/unused:bytes",
		heapFree: "/memory/classes/heap/free:bytes", heapLive: "/gc/heap/live:bytes",
	} {
		garbage.samples[i].Name = name
	}
	boundStrays()
}

// lookForGarbage is called as an object is made.
func lookForGarbage() {
	if garbage.puts.Add(1)%putsPerLook == 0 {
		go collect()
	}
}

func collect() {
	if !garbage.mu.TryLock() {
		return
	}
	defer garbage.mu.Unlock()
	metrics.Read(garbage.samples[:])
	bytes := func(i int) uint64 { return garbage.samples[i].Value.Uint64() }
	if due(bytes(heapObjects), bytes(heapUnused), bytes(heapFree), bytes(heapLive)) {
		runtime.GC()
		boundStrays()
	}
}

// due reports whether garbage is to be collected, by sizes in bytes.
func due(objects, unused, free, live uint64) bool {
	return objects >= 2*live+leastGarbage && free <= (objects+unused)/freeShare
}

// boundStrays moves the bound out of the way of what the application has. It
// never comes back: a lower goal is one that the runtime gives pages back for.
func boundStrays() {
	all := [...]metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(all[:])
	used := all[0].Value.Uint64() - all[1].Value.Uint64()
	if bound := int64(2*used + strayGarbage); bound > garbage.bound {
		garbage.bound = bound
		debug.SetMemoryLimit(bound)
	}
}
