// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"fmt"
	"math"
	"sync/atomic"

	"verbena/ib"
)

// A Region is registered memory and its key: an MR. Its LKey and RKey are the same number. The
// methods that return its attributes may be called at any time. After Deregister they return the
// last ones.
type Region struct {
	// immutable after registration
	table       *Table
	slot        uint32
	maxSegments int // of a fast-registration region, 0 for a plain one

	gate drainGate // of the memory, until a re-registration brings other memory

	// The attributes. Replaced under table.mu. In force only while the slot
	// has the same entry.
	entry atomic.Pointer[keyEntry]

	// guarded by table.mu
	windows int       // bound to this region
	mapped  *keyEntry // prepared by Map for the next FastRegister
	iova    uint64    // of the last Map
	gone    bool
}

// Register grants access to buf, in place, at the addresses from iova on: MR
// registration. A region of AccessZeroBased answers to addresses from 0, and
// iova must be 0. An empty buf makes a region that permits nothing
// (CVE-2023-25775).
//
// Errors: ErrInvalid if iova plus the length of buf overflows
// (CVE-2014-8159), or if access is no legal set; ErrNoKey.
func (t *Table) Register(pd PD, buf []byte, iova uint64, access ib.Access) (*Region, error) {
	if err := checkRegion(buf, iova, access); err != nil {
		return nil, err
	}
	return t.register(&keyEntry{pd: pd, access: access, base: iova, length: uint64(len(buf)),
		mem: buf})
}

// RegisterAddressSpace grants access to all memory of the process by its addresses, but the first
// page and the heap of the Go runtime: an implicit region of on-demand paging.
//
// The heap is left out for the reason that OutOfReach has. So a region of a Go program would be of
// little use, and package verbs has none.
//
// Errors: as Register.
func (t *Table) RegisterAddressSpace(pd PD, access ib.Access) (*Region, error) {
	buf, hole := addressSpace()
	access |= ib.AccessOnDemand
	if err := checkRegion(buf, uint64(addressOf(buf)), access); err != nil {
		return nil, err
	}
	return t.register(&keyEntry{pd: pd, access: access, base: uint64(addressOf(buf)),
		length: uint64(len(buf)), mem: buf, hole: hole})
}

// register makes a region of an entry, and puts it in force.
func (t *Table) register(g *keyEntry) (*Region, error) {
	r := &Region{table: t}
	g.qpn, g.gate, g.strict = anyQP, &r.gate, g.access.Has(ib.AccessOnDemand)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.enterLocked(r, g); err != nil {
		return nil, err
	}
	t.publishLocked(r.slot, g)
	return r, nil
}

// enterLocked gives r a slot and g as its attributes with a new key.
func (t *Table) enterLocked(r *Region, g *keyEntry) error {
	n, key, err := t.takeLocked()
	if err != nil {
		return err
	}
	g.key, r.slot = key, n
	r.entry.Store(g)
	t.slotNumber(n).region = r
	return nil
}

func checkRegion(buf []byte, iova uint64, access ib.Access) error {
	if !access.Valid() {
		return fmt.Errorf("%w: access %v: remote write and atomic need local write",
			ErrInvalid, access)
	}
	if access.Has(ib.AccessZeroBased) && iova != 0 {
		return fmt.Errorf("%w: iova %#x of a zero-based region", ErrInvalid, iova)
	}
	return checkRange(uint64(len(buf)), iova)
}

// checkRange refuses a range that wraps around the address space.
func checkRange(length, iova uint64) error {
	if length > 0 && length-1 > math.MaxUint64-iova {
		return fmt.Errorf("%w: iova %#x + length %d overflows", ErrInvalid, iova, length)
	}
	return nil
}

// Reregister changes the properties of a plain region that flags name: its domain (ReregPD: pd),
// its memory (ReregTranslation: buf, iova) or its rights (ReregAccess: access). With new memory the
// region gets a new key, and the old one is void. The call waits, as Deregister does, until the old
// memory is no longer in use. Otherwise the key stays: peers know it, and drivers of the kernel
// keep it too.
//
// On an error nothing has changed: the region goes on under its old key with
// its old attributes. (ibv_rereg_mr leaves it undefined after some errors.)
//
// Errors: ErrInvalid, as Register, and for flags, a null region or a fast-registration
// region; ErrBusy while windows are bound to the region; ErrGone.
func (t *Table) Reregister(r *Region, flags ib.ReregFlags, pd PD, buf []byte, iova uint64,
	access ib.Access) error {
	if flags == 0 || flags&^(ib.ReregTranslation|ib.ReregPD|ib.ReregAccess) != 0 {
		return fmt.Errorf("%w: rereg flags %#x", ErrInvalid, uint8(flags))
	}
	old, err := t.reregister(r, flags, pd, buf, iova, access)
	if err == nil && flags&ib.ReregTranslation != 0 {
		t.drain(old)
	}
	return err
}

func (t *Table) reregister(r *Region, flags ib.ReregFlags, pd PD, buf []byte, iova uint64,
	access ib.Access) (old *keyEntry, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ownsLocked(r); err != nil {
		return nil, err
	}
	if r.maxSegments > 0 || r.entry.Load().null {
		return nil, fmt.Errorf("%w: region is for fast registration, or null", ErrInvalid)
	}
	if r.windows > 0 {
		return nil, fmt.Errorf("%w: %d", ErrBusy, r.windows)
	}
	old = r.entry.Load()
	next := *old
	if flags&ib.ReregPD != 0 {
		next.pd = pd
	}
	if flags&ib.ReregTranslation != 0 {
		next.base, next.length, next.mem, next.gate = iova, uint64(len(buf)), buf, new(drainGate)
		next.hole = extent{}
	}
	if flags&ib.ReregAccess != 0 {
		next.access = access
	}
	next.strict = next.access.Has(ib.AccessOnDemand) || next.hole != extent{}
	if err := checkRegion(next.mem, next.base, next.access); err != nil {
		return nil, err
	}
	if flags&ib.ReregTranslation != 0 {
		next.key = t.renewLocked(r.slot)
	}
	r.entry.Store(&next)
	t.publishLocked(r.slot, &next)
	return old, nil
}

func (t *Table) ownsLocked(r *Region) error {
	if r.table != t {
		return fmt.Errorf("%w: region of another device", ErrInvalid)
	}
	if r.gone {
		return ErrGone
	}
	return nil
}

// Deregister voids the region's key and waits until no span holds its memory.
// When it has returned, nothing here reads or writes a byte of it. The caller
// must hold no span of the region.
//
// Errors: ErrBusy while windows are bound to it, and nothing has changed;
// ErrGone.
//
// Spec: IBTA vol. 1, 11.2.8; ibv_dereg_mr(3) (EBUSY).
func (t *Table) Deregister(r *Region) error {
	t.mu.Lock()
	if err := t.ownsLocked(r); err != nil {
		t.mu.Unlock()
		return err
	}
	if r.windows > 0 {
		err := fmt.Errorf("%w: %d", ErrBusy, r.windows)
		t.mu.Unlock()
		return err
	}
	r.gone = true
	r.mapped = nil
	t.revokeLocked(r.slot)
	g := r.entry.Load()
	t.mu.Unlock()

	t.drain(g)

	// The attributes stay, the memory is let go.
	bare := *g
	bare.mem, bare.segs = nil, nil
	r.entry.Store(&bare)
	t.mu.Lock()
	t.giveLocked(r.slot)
	t.mu.Unlock()
	return nil
}

// Idle reports whether no span of the region's memory is held. After its key
// was invalidated this stays so: a LOCAL_INV that completes only when Idle
// says yes gives its poster the memory back for good.
func (r *Region) Idle() bool { return r.entry.Load().gate.held.Load() == 0 }

// LKey returns the key for local use.
func (r *Region) LKey() ib.LKey { return ib.LKey(r.entry.Load().key) }

// RKey returns the key for remote use.
func (r *Region) RKey() ib.RKey { return ib.RKey(r.entry.Load().key) }

// Addr returns the address of the first byte, as requests name it.
func (r *Region) Addr() uint64 { return r.entry.Load().base }

// Length returns the number of bytes.
func (r *Region) Length() uint64 { return r.entry.Load().length }

// Access returns the rights.
func (r *Region) Access() ib.Access { return r.entry.Load().access }

// PD returns the protection domain.
func (r *Region) PD() PD { return r.entry.Load().pd }
