// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"fmt"

	"verbena/ib"
)

// A fast-registration region goes round in work requests:
//
//	AllocFast → free ──Map, FastRegister (REG_MR)──→ valid
//	              ↑                                    │
//	              └──── Invalidate (LOCAL_INV, ────────┘
//	                    or the peer's SEND with invalidate)

// AllocFast returns a region for fast registration with a list of at most
// maxSegments pieces of memory. It permits nothing until FastRegister.
//
// Errors: ErrInvalid if maxSegments < 1; ErrNoKey.
//
// Spec: IBTA vol. 1, 10.6 (base memory management extensions).
func (t *Table) AllocFast(pd PD, maxSegments int) (*Region, error) {
	if maxSegments < 1 {
		return nil, fmt.Errorf("%w: %d segments", ErrInvalid, maxSegments)
	}
	r := &Region{table: t, maxSegments: maxSegments}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.enterLocked(r, &keyEntry{pd: pd, qpn: anyQP, gate: &r.gate}); err != nil {
		return nil, err
	}
	return r, nil
}

// Map sets the memory that the next FastRegister will open, one piece after the other at the
// addresses from iova on. It returns how many elements of segs it took: all, or as many as the
// region has room for. Empty ones are taken and need no room. segs itself may be reused. The memory
// in force now does not change.
//
// Errors: ErrInvalid for a plain region, or if the addresses overflow; ErrGone.
func (r *Region) Map(segs [][]byte, iova uint64) (int, error) {
	if r.maxSegments == 0 {
		return 0, fmt.Errorf("%w: region is not for fast registration", ErrInvalid)
	}
	g := &keyEntry{qpn: anyQP}
	taken, pieces := 0, 0
	for _, b := range segs {
		if len(b) > 0 {
			if pieces == r.maxSegments {
				break
			}
			pieces++
		}
		taken++
	}
	list := make([]segment, 0, pieces)
	for _, b := range segs[:taken] {
		if len(b) == 0 {
			continue
		}
		if err := checkRange(uint64(len(b)), g.length); err != nil {
			return 0, err
		}
		g.length += uint64(len(b))
		list = append(list, segment{end: g.length, mem: b})
	}
	if err := checkRange(g.length, iova); err != nil {
		return 0, err
	}
	if len(list) == 1 {
		g.mem = list[0].mem
	} else if len(list) > 1 {
		g.segs = list
	}

	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	if r.gone {
		return 0, ErrGone
	}
	g.gate = r.entry.Load().gate
	r.mapped, r.iova = g, iova
	return taken, nil
}

// FastRegister puts the memory of the last Map in force under key, for queue pairs of domain pd:
// the REG_MR work request. The key's upper 24 bits are the region's, its low 8 are free to choose.
//
// Errors: VendorKey if the key is not the region's, VendorPD, VendorAccess for rights that are no
// legal set or have AccessOnDemand. VendorBound if the region is still valid, VendorBounds if no
// memory was mapped. On these nothing has changed.
//
// It allocates nothing if a Map came since the last FastRegister.
func (t *Table) FastRegister(pd PD, r *Region, key ib.RKey, access ib.Access) AccessError {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ownsLocked(r) != nil || r.maxSegments == 0 {
		return ib.VendorKey
	}
	last, s := r.entry.Load(), t.slotNumber(r.slot)
	switch {
	case uint32(key)>>tagBits != last.key>>tagBits:
		return ib.VendorKey
	case pd != last.pd:
		return ib.VendorPD
	case !access.Valid() || access.Has(ib.AccessOnDemand):
		return ib.VendorAccess
	case s.entry.Load() != nil:
		return ib.VendorBound
	}
	g := r.mapped
	if g == nil {
		again := *last
		g = &again
	}
	if g.length == 0 {
		return ib.VendorBounds
	}
	r.mapped = nil
	g.key, g.pd, g.access, g.base = uint32(key), pd, access, r.iova
	if access.Has(ib.AccessZeroBased) {
		g.base = 0
	}
	s.tag = uint8(key)
	r.entry.Store(g)
	t.publishLocked(r.slot, g)
	return ib.VendorNone
}

// Invalidate voids the key of a fast-registration region or a type 2 window,
// for queue pair qpn of domain pd: LOCAL_INV, or with remote the peer's SEND
// with invalidate. The region or window can then be registered or bound anew.
// Nothing else can be invalidated: plain regions and type 1 windows give
// VendorAccess.
//
// Other verdicts: VendorKey, VendorPD; VendorBound while windows are bound to the region, or if a
// peer invalidates a window tied to another queue pair. For a free region a peer gets VendorKey.
// LOCAL_INV of its last key does nothing, because the peer's invalidation may have come just
// before.
//
// No access is granted from here on, but it does not wait for spans that are
// held (the caller may hold one itself): see Region.Idle.
//
// Spec: IBTA vol. 1, 10.6 (invalidation of keys), 9.4.1.1 (SEND with invalidate).
func (t *Table) Invalidate(pd PD, qpn ib.QPN, key ib.RKey, remote bool) AccessError {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.slotOf(uint32(key))
	switch {
	case s == nil:
		return ib.VendorKey
	case s.region != nil:
		return s.region.invalidateLocked(s, pd, uint32(key), remote)
	case s.window != nil:
		return s.window.invalidateLocked(s, pd, qpn, uint32(key), remote)
	}
	return ib.VendorKey
}

func (r *Region) invalidateLocked(s *slot, pd PD, key uint32, remote bool) AccessError {
	g := r.entry.Load()
	switch {
	case r.gone || g.key != key || remote && s.entry.Load() == nil:
		return ib.VendorKey
	case g.pd != pd:
		return ib.VendorPD
	case r.maxSegments == 0:
		return ib.VendorAccess
	case r.windows > 0:
		return ib.VendorBound
	}
	s.entry.Store(nil)
	return ib.VendorNone
}
