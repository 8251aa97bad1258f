// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"verbena/ib"
	"verbena/internal/core"
)

// MR is a memory region: ibv_mr. Work requests and peers name the application's bytes in it by
// key.
type MR core.MR

// RegMR registers buf in place: ibv_reg_mr(3). The region's address is that of buf, or 0 with
// AccessZeroBased. The MR keeps buf alive. A region of no bytes grants nothing.
//
// Memory of AccessOnDemand may be mapped only later, or never: a request that needs a page that is
// not mapped fails then. C programs can register their whole address space that way (address 0,
// length SIZE_MAX). Go programs cannot: the garbage collector owns their heap.
//
// Errors: EINVAL if buf is nil, or if access grants remote writing without AccessLocalWrite.
func (p *PD) RegMR(buf []byte, access ib.Access) (*MR, error) {
	v, err := (*core.PD)(p).RegMR(buf, access)
	return (*MR)(v), err
}

// RegMRIOVA registers buf under an address of the caller's choice: ibv_reg_mr_iova(3). SGEs and
// peers name the first byte of buf by that address.
func (p *PD) RegMRIOVA(buf []byte, iova uint64, access ib.Access) (*MR, error) {
	v, err := (*core.PD)(p).RegMRIOVA(buf, iova, access)
	return (*MR)(v), err
}

// AdviseMR pages in memory that requests will use soon: ibv_advise_mr(3). The elements name memory
// of the domain's regions of AccessOnDemand. It blocks until the pages are there.
//
// Errors: EFAULT if memory is outside its region or not mapped; ENOENT for a key of no region;
// EINVAL for one of a window, or of a region without AccessOnDemand; EPERM for a region of another
// domain, or for AdvicePrefetchWrite without AccessLocalWrite. Elements before the one that failed
// are paged in.
func (p *PD) AdviseMR(advice ib.MRAdvice, sgl []ib.SGE) error {
	return (*core.PD)(p).AdviseMR(advice, sgl)
}

// AllocNullMR allocates a null region: ibv_alloc_null_mr(3). Elements with its LKey may have any
// address and length. It discards the bytes written to it, and reading it gives zeros. It has no
// rights for peers.
func (p *PD) AllocNullMR() (*MR, error) {
	v, err := (*core.PD)(p).AllocNullMR()
	return (*MR)(v), err
}

// AllocMR allocates a region for fast registration by Map and a WRRegMR work request. It grants
// nothing before that.
func (p *PD) AllocMR(maxSegments int) (*MR, error) {
	v, err := (*core.PD)(p).AllocMR(maxSegments)
	return (*MR)(v), err
}

// Map sets the memory, and the address iova, that the next WRRegMR of a region from AllocMR
// registers. It returns the number of segments that it used: all, or as many as the region has
// room for. The caller may reuse segs, and must keep the memory.
func (m *MR) Map(segs [][]byte, iova uint64) (int, error) { return (*core.MR)(m).Map(segs, iova) }

// Addr returns the address by which SGEs and peers name the region's first byte.
func (m *MR) Addr() uint64 { return (*core.MR)(m).Addr() }

// Length returns the size of the region in bytes.
func (m *MR) Length() uint64 { return (*core.MR)(m).Length() }

// Bytes returns the registered memory, nil for a region from AllocMR or AllocNullMR.
func (m *MR) Bytes() []byte { return (*core.MR)(m).Bytes() }

// LKey returns the key for the owner's work requests.
func (m *MR) LKey() ib.LKey { return (*core.MR)(m).LKey() }

// RKey returns the key for peers.
func (m *MR) RKey() ib.RKey { return (*core.MR)(m).RKey() }

// SGE returns the scatter/gather element of n bytes from offset off. It does not check bounds.
// An element out of bounds makes its work request fail.
func (m *MR) SGE(off, n int) ib.SGE { return (*core.MR)(m).SGE(off, n) }

// Rereg changes the memory, domain or access of a region, as selected by flags: ibv_rereg_mr(3).
// New memory changes the keys, so read them again. After an error nothing has changed.
//
// Errors: EINVAL names the argument; EBUSY while memory windows are bound.
func (m *MR) Rereg(flags ib.ReregFlags, pd *PD, buf []byte, access ib.Access) error {
	return (*core.MR)(m).Rereg(flags, (*core.PD)(pd), buf, access)
}

// Dereg ends the registration: ibv_dereg_mr(3). When it returns, the device no longer touches
// the memory. Errors: EBUSY while memory windows are bound.
func (m *MR) Dereg() error { return (*core.MR)(m).Dereg() }

// MW is a memory window: ibv_mw. It has rights to a part of a region, which work requests grant
// and revoke.
type MW core.MW

// AllocMW allocates a memory window: ibv_alloc_mw(3). It grants nothing until it is bound.
func (p *PD) AllocMW(t ib.MWType) (*MW, error) {
	v, err := (*core.PD)(p).AllocMW(t)
	return (*MW)(v), err
}

// RKey returns the key that the window's last bind gave it.
func (w *MW) RKey() ib.RKey { return (*core.MW)(w).RKey() }

// Type returns the type of the window.
func (w *MW) Type() ib.MWType { return (*core.MW)(w).Type() }

// Dealloc removes the window and its rights: ibv_dealloc_mw(3).
func (w *MW) Dealloc() error { return (*core.MW)(w).Dealloc() }
