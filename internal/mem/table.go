// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"errors"
	"sync"
	"sync/atomic"

	"verbena/ib"
)

// PD is the number of a protection domain. A key works only for queue pairs of
// its own domain.
type PD uint32

// An AccessError says whether a key permits an access and, if not, why:
//
//   - VendorNone: permitted
//   - VendorKey: no such key, or invalidated
//   - VendorPD: the key belongs to another protection domain
//   - VendorAccess: the right is not granted
//   - VendorBounds: outside the region or window
//   - VendorAlign: atomic target not one aligned word
//   - VendorBound: memory windows or a window's queue pair are in the way
type AccessError = ib.VendorErr

// Errors of the calls that manage regions and windows. They come wrapped with
// the argument that is at fault.
var (
	ErrInvalid = errors.New("mem: invalid argument")
	ErrBusy    = errors.New("mem: memory windows are bound to the region")
	ErrNoKey   = errors.New("mem: no free memory key")
	ErrGone    = errors.New("mem: already deregistered")
)

// A Table maps keys to memory for one device. All methods may be called
// concurrently.
//
// Lock order: a connection's lock, then a completion queue's, then mu. Local
// and Remote take no lock.
type Table struct {
	// immutable after NewTable
	perm permutation

	// immutable after the first registration
	guard *sync.Mutex // see Guard; nil for none

	chunks atomic.Pointer[[]*chunk] // replaced under mu

	mu sync.Mutex
	// guarded by mu
	seed     func() uint32
	fresh    uint32 // slots from here on were never used
	freeHead uint32
	freeTail uint32
	freeLen  int
}

// NewTable returns an empty table. seed gives the random numbers that keys are
// made from; the table calls it one call at a time.
func NewTable(seed func() uint32) *Table {
	t := &Table{perm: newPermutation(seed), seed: seed, freeHead: noSlot, freeTail: noSlot}
	t.chunks.Store(new([]*chunk))
	return t
}

// Guard promises that PutLocal and GetLocal are only called with mu locked. They need not hold the
// memory then: Deregister waits for mu instead. It is to be called before the first registration.
func (t *Table) Guard(mu *sync.Mutex) { t.guard = mu }

// drain waits until nobody uses the memory of an entry that is in its slot no more.
func (t *Table) drain(g *keyEntry) {
	if t.guard != nil {
		t.guard.Lock() // a copy that has found the entry is over
		//lint:ignore SA2001 the wait is all that the lock is for
		t.guard.Unlock()
	}
	g.gate.drain()
}

// publishLocked puts g in force under its key.
func (t *Table) publishLocked(n uint32, g *keyEntry) { t.slotNumber(n).entry.Store(g) }

// revokeLocked takes the rights of slot n away; the slot stays taken.
func (t *Table) revokeLocked(n uint32) { t.slotNumber(n).entry.Store(nil) }
