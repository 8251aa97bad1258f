// SPDX-License-Identifier: BSD-2-Clause

package mem

import (
	"errors"
	"sync/atomic"

	"verbena/ib"
)

// Errors of Prefetch.
var (
	ErrNoKeyEntry  = errors.New("mem: no region has this key")
	ErrNotOnDemand = errors.New("mem: the key is not of an on-demand paging region")
	ErrDomain      = errors.New("mem: region of another protection domain")
	ErrReadOnly    = errors.New("mem: region without local write access")
	ErrFault       = errors.New("mem: memory outside the region, or not mapped")
)

// Prefetch pages in the memory of an element of an on-demand paging region: ibv_advise_mr(3). It
// returns when all pages are there.
func (t *Table) Prefetch(pd PD, sge ib.SGE, advice ib.MRAdvice) error {
	need := ib.Access(0)
	if advice == ib.AdvicePrefetchWrite {
		need = ib.AccessLocalWrite
	}
	s := t.slotOf(uint32(sge.LKey))
	g, off, v := s.openLocal(pd, sge, need, true)
	switch v {
	case ib.VendorNone:
	case ib.VendorPD:
		return ErrDomain
	case ib.VendorAccess:
		return ErrReadOnly
	case ib.VendorBounds:
		return ErrFault
	default:
		if s != nil {
			if e := s.entry.Load(); e != nil && e.key == uint32(sge.LKey) && e.window {
				return ErrNotOnDemand
			}
		}
		return ErrNoKeyEntry
	}
	defer g.gate.release()
	if !g.strict {
		return ErrNotOnDemand
	}
	if !populate(g.mem[off:off+uint64(sge.Length)], advice) {
		return ErrFault
	}
	return nil
}

// touched keeps the reads of touch.
var touched atomic.Uint32

// touch reads a byte of each page of b, or writes one as it is. It returns false if a page is not
// mapped, or may not be written.
func touch(b []byte, write bool) bool {
	return Try(func() {
		for ; len(b) > 0; b = b[min(len(b), untilPage(b)):] {
			if write {
				atomic.AddUint32(wordAround(b), 0)
			} else {
				touched.Store(uint32(b[0]))
			}
		}
	})
}
