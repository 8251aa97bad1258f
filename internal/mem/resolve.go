// SPDX-License-Identifier: BSD-2-Clause

package mem

import "verbena/ib"

// Local opens the memory of a scatter/gather element for a queue pair of
// domain pd. need is 0 for reading and AccessLocalWrite for writing; every
// region may be read locally. The key of a window is none for local use.
//
// With VendorNone the span is held and the caller releases it; with any other verdict there is no
// span. An element of zero length is checked like any other: a caller that does not want that does
// not ask.
//
// Spec: IBTA vol. 1, 10.6.3; checks in the order key, domain, access, bounds.
func (t *Table) Local(pd PD, sge ib.SGE, need ib.Access) (Span, AccessError) {
	g, off, v := t.slotOf(uint32(sge.LKey)).openLocal(pd, sge, need, true)
	if v != ib.VendorNone {
		return Span{}, v
	}
	return g.span(off, uint64(sge.Length)), ib.VendorNone
}

// PutLocal is Local for writing, Span.CopyIn of data, which is no longer than the element, and
// Span.Release in one. It is for short messages, whose cost these calls would dominate.
func (t *Table) PutLocal(last *LastKey, pd PD, sge ib.SGE, data []byte) (v AccessError, ok bool) {
	hold := t.guard == nil
	g, off, v := last.slotIn(t, uint32(sge.LKey)).openLocal(pd, sge, ib.AccessLocalWrite, hold)
	if v != ib.VendorNone {
		return v, false
	}
	if n := uint64(len(data)); g.segs == nil {
		ok = g.copyIn(g.mem[off:off+n], data)
	} else {
		s := g.span(off, n)
		ok = s.CopyIn(0, data)
	}
	if hold {
		g.gate.release()
	}
	return ib.VendorNone, ok
}

// GetLocal is Local for reading, Span.CopyOut to dst, which is as long as the element, and
// Span.Release in one. It is for short messages, as PutLocal is.
func (t *Table) GetLocal(last *LastKey, pd PD, sge ib.SGE, dst []byte) (v AccessError, ok bool) {
	hold := t.guard == nil
	g, off, v := last.slotIn(t, uint32(sge.LKey)).openLocal(pd, sge, 0, hold)
	if v != ib.VendorNone {
		return v, false
	}
	if n := uint64(len(dst)); g.segs == nil {
		ok = Copy(dst, g.mem[off:off+n])
	} else {
		s := g.span(off, n)
		ok = s.CopyOut(0, dst)
	}
	if hold {
		g.gate.release()
	}
	return ib.VendorNone, ok
}

// A LastKey remembers where a Table has the key that was looked up last. A key never moves, so that
// only finding its place is saved, and every check is made. Its owner serialises its use. The zero
// LastKey remembers nothing.
type LastKey struct {
	table *Table
	key   uint32
	slot  *slot
}

// slotIn is Table.slotOf.
func (l *LastKey) slotIn(t *Table, key uint32) *slot {
	if l.slot == nil || l.key != key || l.table != t {
		l.table, l.key, l.slot = t, key, t.slotOf(key)
	}
	return l.slot
}

// openLocal is Table.Local without the span: the entry is held if hold says so. s may be nil.
func (s *slot) openLocal(pd PD, sge ib.SGE, need ib.Access, hold bool) (g *keyEntry, off uint64,
	v AccessError) {
	if s == nil {
		return nil, 0, ib.VendorKey
	}
	for {
		g := s.entry.Load()
		if g == nil || g.key != uint32(sge.LKey) || g.window {
			return nil, 0, ib.VendorKey
		}
		if g.pd != pd {
			return nil, 0, ib.VendorPD
		}
		if !g.access.Has(need) {
			return nil, 0, ib.VendorAccess
		}
		off, ok := g.within(sge.Addr, uint64(sge.Length))
		if !ok {
			return nil, 0, ib.VendorBounds
		}
		if !hold || s.hold(g) {
			return g, off, ib.VendorNone
		}
	}
}

// Remote opens n bytes at va for a request that reached queue pair qpn of
// domain pd with key. need is the right the operation takes, such as
// AccessRemoteRead; with AccessRemoteAtomic the target must be one aligned
// word as well, in the request's addresses and in memory, else VendorAlign.
//
// With VendorNone the span is held and the caller releases it; with any other
// verdict there is no span. A window tied to another queue pair gives
// VendorBound. A request of zero bytes needs no key (C9-88): the caller does
// not ask for it.
//
// Spec: IBTA vol. 1, 9.7.4.1.5 (R_Key validation), 10.6.7.2 (windows).
func (t *Table) Remote(pd PD, qpn ib.QPN, key ib.RKey, va uint64, n uint32,
	need ib.Access) (Span, AccessError) {
	s := t.slotOf(uint32(key))
	if s == nil {
		return Span{}, ib.VendorKey
	}
	for {
		g := s.entry.Load()
		if g == nil || g.key != uint32(key) {
			return Span{}, ib.VendorKey
		}
		if g.pd != pd {
			return Span{}, ib.VendorPD
		}
		if g.qpn != anyQP && g.qpn != uint32(qpn) {
			return Span{}, ib.VendorBound
		}
		if !g.access.Has(need) {
			return Span{}, ib.VendorAccess
		}
		off, ok := g.within(va, uint64(n))
		if !ok {
			return Span{}, ib.VendorBounds
		}
		if !s.hold(g) {
			continue
		}
		span := g.span(off, uint64(n))
		if need&ib.AccessRemoteAtomic != 0 && (va&7 != 0 || !span.Aligned8()) {
			g.gate.release()
			return Span{}, ib.VendorAlign
		}
		return span, ib.VendorNone
	}
}
