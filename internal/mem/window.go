// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"fmt"
	"sync/atomic"

	"verbena/ib"
)

// windowAccess are the rights a window may carry.
const windowAccess = ib.AccessRemote | ib.AccessZeroBased

// A Window is a memory window: a second key to part of a region, with rights
// of its own, granted and taken back by work requests.
type Window struct {
	// immutable after AllocWindow
	table *Table
	slot  uint32
	pd    PD
	typ   ib.MWType

	key atomic.Uint32 // changed under table.mu

	// guarded by table.mu
	region *Region // bound to, nil if free
	gone   bool
}

// AllocWindow returns a window that is bound to nothing.
//
// Errors: ErrInvalid for an unknown type; ErrNoKey.
func (t *Table) AllocWindow(pd PD, typ ib.MWType) (*Window, error) {
	if typ != ib.MWType1 && typ != ib.MWType2 {
		return nil, fmt.Errorf("%w: memory window %v", ErrInvalid, typ)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n, key, err := t.takeLocked()
	if err != nil {
		return nil, err
	}
	w := &Window{table: t, slot: n, pd: pd, typ: typ}
	w.key.Store(key)
	t.slotNumber(n).window = w
	return w, nil
}

// Bind opens length bytes at addr of mr, as mr's requests name them, under the
// window's new key, which it returns. That the posting queue pair is of the
// window's domain is for the caller to check (C10-72).
//
// Type 1: every bind replaces the one before, under a new key, which any queue
// pair of the domain may use. key 0 takes NextKey; any other must have the
// window's upper 24 bits and new low ones. Length 0 unbinds.
//
// Type 2: the window must be free, and only queue pair qpn may use it (type 2B).
// The low 8 bits of key are the new key's; the upper ones are the window's, whatever
// key has there: NICs and rxe do not look at them.
//
// Errors, on which nothing has changed: VendorKey for another type 1 key; VendorPD
// if mr is of another domain; VendorAccess if the rights are no window's, mr
// lacks MW_BIND, or would let a peer write where mr has no LOCAL_WRITE;
// VendorBounds if mr has not these bytes; VendorBound if the window is not
// free, mr is zero-based or without rights, or a type 1 window asks to be
// zero-based.
//
// Spec: IBTA vol. 1, 10.6.7, C10-72 to C10-75, o10-36.2.2, o10-37.2.30,
// o10-37.2.40.
func (t *Table) Bind(w *Window, qpn ib.QPN, key ib.RKey, mr *Region, addr, length uint64,
	access ib.Access) (ib.RKey, AccessError) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.table != t || w.gone {
		return 0, ib.VendorBound
	}
	newKey, v := w.nextKeyLocked(uint32(key))
	if v == ib.VendorNone {
		v = w.checkBindLocked(mr, addr, length, access)
	}
	if v != ib.VendorNone {
		return 0, v
	}

	w.unbindLocked()
	w.key.Store(newKey)
	t.slotNumber(w.slot).tag = uint8(newKey)
	if length == 0 {
		return ib.RKey(newKey), ib.VendorNone
	}
	of := mr.entry.Load()
	g := &keyEntry{key: newKey, pd: w.pd, access: access, window: true, qpn: anyQP, base: addr}
	if w.typ == ib.MWType2 {
		g.qpn = uint32(qpn)
	}
	if access.Has(ib.AccessZeroBased) {
		g.base = 0
	}
	g.cover(of, addr-of.base, length)
	w.region = mr
	mr.windows++
	t.publishLocked(w.slot, g)
	return ib.RKey(newKey), ib.VendorNone
}

func (w *Window) nextKeyLocked(key uint32) (uint32, AccessError) {
	old := w.key.Load()
	switch {
	case w.typ == ib.MWType2:
		return old>>tagBits<<tagBits | key&(1<<tagBits-1), ib.VendorNone
	case key == 0:
		return uint32(w.NextKey()), ib.VendorNone
	case key>>tagBits != old>>tagBits || key == old:
		return 0, ib.VendorKey
	}
	return key, ib.VendorNone
}

func (w *Window) checkBindLocked(mr *Region, addr, length uint64, access ib.Access) AccessError {
	switch {
	case access&^windowAccess != 0:
		return ib.VendorAccess
	case w.typ == ib.MWType1 && length == 0:
		return ib.VendorNone // unbind: the region does not matter
	case w.typ == ib.MWType1 && access.Has(ib.AccessZeroBased):
		return ib.VendorBound // o10-36.2.2
	case w.typ == ib.MWType2 && w.region != nil:
		return ib.VendorBound // o10-37.2.30: not in the free state
	case length == 0:
		return ib.VendorBound // o10-37.2.40
	case mr == nil || mr.table != w.table || mr.gone:
		return ib.VendorBound
	}
	g := mr.entry.Load()
	switch {
	case w.table.slotNumber(mr.slot).entry.Load() != g:
		return ib.VendorBound // a fast-registration region in the free state
	case g.pd != w.pd:
		return ib.VendorPD
	case !g.access.Has(ib.AccessMWBind):
		return ib.VendorAccess // C10-73
	case access&(ib.AccessRemoteWrite|ib.AccessRemoteAtomic) != 0 &&
		!g.access.Has(ib.AccessLocalWrite):
		return ib.VendorAccess // C10-74
	case g.access.Has(ib.AccessZeroBased):
		return ib.VendorBound
	}
	if _, ok := g.within(addr, length); !ok {
		return ib.VendorBounds // C10-75
	}
	return ib.VendorNone
}

func (w *Window) unbindLocked() {
	w.table.revokeLocked(w.slot)
	if w.region != nil {
		w.region.windows--
		w.region = nil
	}
}

func (w *Window) invalidateLocked(s *slot, pd PD, qpn ib.QPN, key uint32, remote bool) AccessError {
	g := s.entry.Load()
	switch {
	case w.key.Load() != key || remote && g == nil:
		return ib.VendorKey
	case w.pd != pd:
		return ib.VendorPD
	case w.typ != ib.MWType2:
		return ib.VendorAccess // o10-37.2.26
	case remote && g.qpn != uint32(qpn):
		return ib.VendorBound
	}
	w.unbindLocked()
	return ib.VendorNone
}

// FreeWindow voids the window's key, bound or not, and frees it. It does not
// wait for spans opened through it; Deregister of the region does.
//
// Errors: ErrInvalid for a window of another table, ErrGone.
func (t *Table) FreeWindow(w *Window) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.table != t {
		return fmt.Errorf("%w: window of another device", ErrInvalid)
	}
	if w.gone {
		return ErrGone
	}
	w.unbindLocked()
	w.gone = true
	t.giveLocked(w.slot)
	return nil
}

// RKey returns the key of the last bind, or, before the first, the key whose
// upper 24 bits a bind must have.
func (w *Window) RKey() ib.RKey { return ib.RKey(w.key.Load()) }

// NextKey returns the key that a bind of a type 1 window with key 0 would take now. A caller uses
// it if the key must be known when the bind is posted. For more binds posted behind that it counts
// on from there in the low 8 bits.
func (w *Window) NextKey() ib.RKey {
	key := w.key.Load()
	return ib.RKey(key&^0xff | uint32(uint8(key)+tagStep))
}

// Type returns whether it is a type 1 or a type 2 window.
func (w *Window) Type() ib.MWType { return w.typ }

// PD returns the protection domain.
func (w *Window) PD() PD { return w.pd }
