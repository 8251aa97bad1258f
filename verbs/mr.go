// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"verbena/ib"
	"verbena/internal/core"
)

// MR is a memory region: bytes of the application that work requests and
// peers name by key. ibv_mr.
type MR core.MR

// RegMR registers buf in place: ibv_reg_mr(3). Its address is that of buf, or
// 0 with AccessZeroBased. buf must stay reachable only through the MR's life;
// the MR keeps it alive.
//
// A region of no bytes grants nothing.
//
// Errors: EINVAL if buf is nil or access grants remote writing without
// AccessLocalWrite; EOPNOTSUPP for AccessOnDemand.
func (p *PD) RegMR(buf []byte, access ib.Access) (*MR, error) {
	v, err := (*core.PD)(p).RegMR(buf, access)
	return (*MR)(v), err
}

// RegMRIOVA registers buf under an address of the caller's choice, by which
// SGEs and peers name its first byte: ibv_reg_mr_iova(3).
func (p *PD) RegMRIOVA(buf []byte, iova uint64, access ib.Access) (*MR, error) {
	v, err := (*core.PD)(p).RegMRIOVA(buf, iova, access)
	return (*MR)(v), err
}

// AllocMR allocates a region for fast registration by Map and a WRRegMR work
// request. It grants nothing before.
func (p *PD) AllocMR(maxSegments int) (*MR, error) {
	v, err := (*core.PD)(p).AllocMR(maxSegments)
	return (*MR)(v), err
}

// Map gives a region from AllocMR the memory that its next WRRegMR registers,
// at address iova. It returns how many segments were taken: all, or as many as
// the region has room for. segs itself may be reused; the memory must stay.
func (m *MR) Map(segs [][]byte, iova uint64) (int, error) { return (*core.MR)(m).Map(segs, iova) }

// Addr returns the address of the region's first byte, as SGEs and peers name
// it.
func (m *MR) Addr() uint64 { return (*core.MR)(m).Addr() }

// Length returns the size of the region in bytes.
func (m *MR) Length() uint64 { return (*core.MR)(m).Length() }

// Bytes returns the memory registered, nil for a region from AllocMR.
func (m *MR) Bytes() []byte { return (*core.MR)(m).Bytes() }

// LKey returns the key for work requests of the owner.
func (m *MR) LKey() ib.LKey { return (*core.MR)(m).LKey() }

// RKey returns the key to give to peers.
func (m *MR) RKey() ib.RKey { return (*core.MR)(m).RKey() }

// SGE returns the scatter/gather element of n bytes from offset off. It does
// not check bounds: the completion does.
func (m *MR) SGE(off, n int) ib.SGE { return (*core.MR)(m).SGE(off, n) }

// Rereg changes memory, domain or access of a region, as flags say:
// ibv_rereg_mr(3). With new memory the keys change; read them again. On error
// nothing changed.
//
// Errors: EINVAL names the argument; EBUSY while memory windows are bound.
func (m *MR) Rereg(flags ib.ReregFlags, pd *PD, buf []byte, access ib.Access) error {
	return (*core.MR)(m).Rereg(flags, (*core.PD)(pd), buf, access)
}

// Dereg ends the registration: ibv_dereg_mr(3). When it returns no byte of the
// memory is touched any more. Errors: EBUSY while memory windows are bound.
func (m *MR) Dereg() error { return (*core.MR)(m).Dereg() }

// MW is a memory window: rights to a part of a region, granted and taken back
// by work requests. ibv_mw.
type MW core.MW

// AllocMW allocates a memory window: ibv_alloc_mw(3). It grants nothing before
// it is bound.
func (p *PD) AllocMW(t ib.MWType) (*MW, error) {
	v, err := (*core.PD)(p).AllocMW(t)
	return (*MW)(v), err
}

// RKey returns the window's key as of its last bind.
func (w *MW) RKey() ib.RKey { return (*core.MW)(w).RKey() }

// Type returns the type of the window.
func (w *MW) Type() ib.MWType { return (*core.MW)(w).Type() }

// Dealloc removes the window and what it grants: ibv_dealloc_mw(3).
func (w *MW) Dealloc() error { return (*core.MW)(w).Dealloc() }
