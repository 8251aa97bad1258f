// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"sync"
	"sync/atomic"
	"syscall"
)

// A handle names an object to C:
//
//	 63    56 55         32 31          0
//	+--------+-------------+-------------+
//	|  kind  | generation  |  place + 1  |
//	+--------+-------------+-------------+
//
// A reused place has another generation, so that a handle of its earlier object names nothing.
type handle uint64

// kind is the type of a handle's object.
type kind uint8

const (
	kindContext kind = iota + 1
	kindPD
	kindXRCD
	kindMR
	kindMW
	kindCQ
	kindSRQ
	kindQP
	kindAH
	kindChannel
	kindCMChannel
	kindCMID
	kindCompCntr
	kindFlow
	kindWQ
	kindSpread
	kindCounters
)

func (k kind) String() string {
	return [...]string{
		kindContext: "context", kindPD: "PD", kindXRCD: "XRCD", kindMR: "MR", kindMW: "MW",
		kindCQ: "CQ", kindSRQ: "SRQ", kindQP: "QP", kindAH: "AH",
		kindChannel: "completion channel", kindCMChannel: "event channel", kindCMID: "identifier",
		kindCompCntr: "completion counter", kindFlow: "flow", kindWQ: "work queue",
		kindSpread: "indirection table", kindCounters: "counters",
	}[k]
}

const (
	placeBits      = 32
	generationBits = 24

	chunkPlaces = 256
	// maxPlaces bounds the objects of a kind, contexts included. It is the limit that the device
	// reports.
	maxPlaces = 1 << 20
)

// A table finds objects of one kind by handle. Look-ups take no lock.
type table[T any] struct {
	kind kind // immutable

	chunks [maxPlaces / chunkPlaces]atomic.Pointer[[chunkPlaces]place[T]]

	mu   sync.Mutex
	used uint32   // guarded by mu: places used so far
	free []uint32 // guarded by mu: places to use again
}

type place[T any] struct {
	entry      atomic.Pointer[entry[T]]
	generation uint32 // guarded by table.mu
}

// An entry is immutable.
type entry[T any] struct {
	handle handle
	object *T
}

// put gives an object a handle. Errors: ENOMEM if there are too many.
func (t *table[T]) put(o *T) (handle, error) {
	lookForGarbage()
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.used
	if n := len(t.free); n > 0 {
		i, t.free = t.free[n-1], t.free[:n-1]
	} else if i == maxPlaces {
		return 0, syscall.ENOMEM
	} else {
		t.used++
	}
	c := &t.chunks[i/chunkPlaces]
	chunk := c.Load()
	if chunk == nil {
		chunk = new([chunkPlaces]place[T])
		c.Store(chunk)
	}
	p := &chunk[i%chunkPlaces]
	p.generation = (p.generation + 1) & (1<<generationBits - 1)
	h := handle(t.kind)<<(placeBits+generationBits) | handle(p.generation)<<placeBits | handle(i+1)
	p.entry.Store(&entry[T]{h, o})
	return h, nil
}

// place returns the place in a handle, or nil.
func (t *table[T]) place(h handle) *place[T] {
	i := uint32(h) - 1
	if i >= maxPlaces {
		return nil
	}
	chunk := t.chunks[i/chunkPlaces].Load()
	if chunk == nil {
		return nil
	}
	return &chunk[i%chunkPlaces]
}

// get returns the object of a handle, nil if there is none. Nearly every call of C begins with it,
// so it calls ensureStack.
func (t *table[T]) get(h handle) *T {
	ensureStack()
	p := t.place(h)
	if p == nil {
		return nil
	}
	if e := p.entry.Load(); e != nil && e.handle == h {
		return e.object
	}
	return nil
}

// take returns the object of a handle, which then names nothing. One of several callers gets the
// object, the others nil.
func (t *table[T]) take(h handle) *T {
	if o := t.get(h); o != nil && t.remove(h) {
		return o
	}
	return nil
}

// each calls f with every object.
func (t *table[T]) each(f func(*T)) {
	t.mu.Lock()
	used := t.used
	t.mu.Unlock()
	for i := range used {
		if e := t.chunks[i/chunkPlaces].Load()[i%chunkPlaces].entry.Load(); e != nil {
			f(e.object)
		}
	}
}

// give gives a new object a handle, or destroys the object where there are too many.
func (t *table[T]) give(to *C.vb_handle, o *T, destroy func() error) error {
	h, err := t.put(o)
	if err != nil {
		_ = destroy() // it was just made; the error that counts is the first
		return err
	}
	*to = C.vb_handle(h)
	return nil
}

// none returns the error for a handle that names no object.
func (t *table[T]) none() error { return noObject(t.kind.String()) }

// end makes a handle name nothing if its object was destroyed without an error.
func (t *table[T]) end(h handle, err error) error {
	if err == nil {
		t.remove(h)
	}
	return err
}

// remove makes a handle name nothing. It returns true to one of several callers.
func (t *table[T]) remove(h handle) bool {
	p := t.place(h)
	if p == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := p.entry.Load(); e == nil || e.handle != h {
		return false
	}
	p.entry.Store(nil)
	t.free = append(t.free, uint32(h)-1)
	return true
}
