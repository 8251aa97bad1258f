// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/mem"
)

// MR is a memory region: bytes of the application that work requests and peers name by key.
type MR struct {
	// immutable
	ctx    *Context
	region *mem.Region
	dm     *DM // whose memory it is, or nil

	mu      sync.Mutex
	pd      *PD    // guarded by mu: Rereg may change it
	buf     []byte // guarded by mu; keeps the memory alive; nil for fast registration and null
	gone    bool   // guarded by mu
	exposed bool   // guarded by mu: the peer of a link writes it directly
}

// RegMR registers buf in place: ibv_reg_mr(3).
func (p *PD) RegMR(buf []byte, access ib.Access) (*MR, error) {
	iova := addressOf(buf)
	if access.Has(ib.AccessZeroBased) {
		iova = 0
	}
	return p.RegMRIOVA(buf, iova, access)
}

// RegMRIOVA registers buf under an address of the caller's choice, by which SGEs and peers name
// its first byte: ibv_reg_mr_iova(3).
func (p *PD) RegMRIOVA(buf []byte, iova uint64, access ib.Access) (m *MR, err error) {
	defer func() { p.ctx.logCall("ibv_reg_mr", err, "mr", m) }()
	if err := p.ctx.alive(); err != nil {
		return nil, err
	}
	if err := checkAccess(buf, access); err != nil {
		return nil, err
	}
	if access.Has(ib.AccessZeroBased) && iova != 0 {
		return nil, invalid("iova", "%#x: a zero-based region starts at 0", iova)
	}
	if err := use(&p.users, "PD"); err != nil {
		return nil, err
	}
	r, err := p.ctx.keys.Register(p.num, buf, iova, access)
	return p.newMR(r, buf, err)
}

// RegAddressSpace registers all memory of a C program, on demand: ibv_reg_mr(3) of address 0 and
// length SIZE_MAX.
func (p *PD) RegAddressSpace(access ib.Access) (m *MR, err error) {
	defer func() { p.ctx.logCall("ibv_reg_mr", err, "mr", m) }()
	if err := p.ctx.alive(); err != nil {
		return nil, err
	}
	all := []byte{} // the region is a plain one
	if err := checkAccess(all, access); err != nil {
		return nil, err
	}
	if err := use(&p.users, "PD"); err != nil {
		return nil, err
	}
	r, err := p.ctx.keys.RegisterAddressSpace(p.num, access)
	return p.newMR(r, all, err)
}

// AllocNullMR allocates a region for local use that discards the bytes written to it and gives
// zeros: ibv_alloc_null_mr(3).
func (p *PD) AllocNullMR() (m *MR, err error) {
	defer func() { p.ctx.logCall("ibv_alloc_null_mr", err, "mr", m) }()
	if err := p.ctx.alive(); err != nil {
		return nil, err
	}
	if err := use(&p.users, "PD"); err != nil {
		return nil, err
	}
	r, err := p.ctx.keys.RegisterNull(p.num)
	return p.newMR(r, nil, err)
}

// newMR makes an MR of a new region of the domain, which counts it already.
func (p *PD) newMR(r *mem.Region, buf []byte, err error) (*MR, error) {
	if err != nil {
		p.users.Add(-1)
		if errors.Is(err, mem.ErrNoKey) {
			return nil, fail(syscall.ENOMEM, "buf", "%v", err)
		}
		return nil, invalid("iova", "%v", err)
	}
	m := &MR{ctx: p.ctx, pd: p, region: r, buf: buf}
	m.expose()
	return m, nil
}

// AdviseMR pages in memory of on-demand paging regions of the domain: ibv_advise_mr(3). It returns
// when all is there.
func (p *PD) AdviseMR(advice ib.MRAdvice, sgl []ib.SGE) (err error) {
	defer func() { p.ctx.logCall("ibv_advise_mr", err, "elements", len(sgl)) }()
	if err := p.ctx.alive(); err != nil {
		return err
	}
	if advice > ib.AdvicePrefetchNoFault {
		return fail(syscall.EOPNOTSUPP, "advice", "%d is not known", advice)
	}
	for i, sge := range sgl {
		err := p.ctx.keys.Prefetch(p.num, sge, advice)
		if err == nil {
			continue
		}
		errno := syscall.EFAULT
		switch err {
		case mem.ErrNoKeyEntry:
			errno = syscall.ENOENT
		case mem.ErrNotOnDemand:
			errno = syscall.EINVAL
		case mem.ErrDomain, mem.ErrReadOnly:
			errno = syscall.EPERM
		}
		return fail(errno, "sgl", "element %d, %d bytes at %#x by key %#x: %v", i, sge.Length,
			sge.Addr, uint32(sge.LKey), err)
	}
	return nil
}

func checkAccess(buf []byte, access ib.Access) error {
	switch {
	case buf == nil:
		return invalid("buf", "is nil")
	case !access.Valid():
		return invalid("access", "%v: remote write and remote atomic need LOCAL_WRITE", access)
	}
	return nil
}

// AllocMR allocates a region for fast registration by Map and a WRRegMR work request.
func (p *PD) AllocMR(maxSegments int) (m *MR, err error) {
	defer func() { p.ctx.logCall("ib_alloc_mr", err, "mr", m) }()
	if err := p.ctx.alive(); err != nil {
		return nil, err
	}
	if err := device.CheckRange("maxSegments", maxSegments, 1, device.MaxFRSegs); err != nil {
		return nil, err
	}
	if err := use(&p.users, "PD"); err != nil {
		return nil, err
	}
	r, err := p.ctx.keys.AllocFast(p.num, maxSegments)
	if err != nil {
		p.users.Add(-1)
		return nil, fail(syscall.ENOMEM, "maxSegments", "%v", err)
	}
	return &MR{ctx: p.ctx, pd: p, region: r}, nil
}

// Map gives a region from AllocMR the memory that its next WRRegMR registers, at address iova.
func (m *MR) Map(segs [][]byte, iova uint64) (int, error) {
	n, err := m.region.Map(segs, iova)
	if err != nil {
		return n, invalid("segs", "%v", err)
	}
	return n, nil
}

// Addr returns the address of the region's first byte, as SGEs and peers name it.
func (m *MR) Addr() uint64 { return m.region.Addr() }

// Length returns the size of the region in bytes.
func (m *MR) Length() uint64 { return m.region.Length() }

// Bytes returns the memory registered, nil for a region from AllocMR.
func (m *MR) Bytes() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.buf
}

// LKey returns the key for work requests of the owner.
func (m *MR) LKey() ib.LKey { return m.region.LKey() }

// RKey returns the key to give to peers.
func (m *MR) RKey() ib.RKey { return m.region.RKey() }

// SGE returns the scatter/gather element of n bytes from offset off.
func (m *MR) SGE(off, n int) ib.SGE {
	return ib.SGE{Addr: m.Addr() + uint64(off), Length: uint32(n), LKey: m.LKey()}
}

// Rereg changes memory, domain or access of a region, as flags say: ibv_rereg_mr(3).
func (m *MR) Rereg(flags ib.ReregFlags, pd *PD, buf []byte, access ib.Access) (err error) {
	defer func() { m.ctx.logCall("ibv_rereg_mr", err, "mr", m) }()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.gone:
		return invalid("MR", "was deregistered")
	case m.buf == nil:
		return invalid("MR", "has no memory of its own: it is null, or for fast registration")
	case m.dm != nil:
		return invalid("MR", "is of device memory")
	case flags == 0 || flags&^(ib.ReregTranslation|ib.ReregPD|ib.ReregAccess) != 0:
		return invalid("flags", "%#x: must be some of ReregTranslation, ReregPD and ReregAccess",
			uint8(flags))
	}
	newPD, newBuf, newAccess := m.pd, m.buf, m.region.Access()
	if flags&ib.ReregTranslation != 0 {
		newBuf = buf
	}
	if flags&ib.ReregPD != 0 {
		if pd == nil || pd.ctx != m.ctx {
			return invalid("pd", "is not a protection domain of this context")
		}
		newPD = pd
	}
	if flags&ib.ReregAccess != 0 {
		newAccess = access
	}
	if err := checkAccess(newBuf, newAccess); err != nil {
		return err
	}
	if err := use(&newPD.users, "pd"); err != nil {
		return err
	}
	iova := addressOf(newBuf)
	if newAccess.Has(ib.AccessZeroBased) {
		iova = 0
	}
	was := m.exposed
	m.withdraw()
	if err := m.ctx.keys.Reregister(m.region, flags, newPD.num, newBuf, iova,
		newAccess); err != nil {
		newPD.users.Add(-1)
		if was {
			m.expose()
		}
		if errors.Is(err, mem.ErrBusy) {
			return fail(syscall.EBUSY, "MR", "%v", err)
		}
		return invalid("access", "%v", err)
	}
	m.pd.users.Add(-1)
	m.pd, m.buf = newPD, newBuf
	m.expose()
	return nil
}

// Dereg ends the registration: ibv_dereg_mr(3).
func (m *MR) Dereg() (err error) {
	defer func() { m.ctx.logCall("ibv_dereg_mr", err, "mr", m) }()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return invalid("MR", "was deregistered before")
	}
	m.withdraw()
	if err := m.ctx.keys.Deregister(m.region); err != nil && !m.ctx.purged(err) {
		m.expose()
		return fail(syscall.EBUSY, "MR", "%v", err)
	}
	m.gone = true
	m.pd.users.Add(-1)
	m.dm.release()
	return nil
}

// purged reports whether the context's end was also that of a region or window.
func (c *Context) purged(err error) bool { return errors.Is(err, mem.ErrGone) && c.closed.Load() }

// MW is a memory window: rights to a part of a region, granted and taken back by work requests.
type MW struct {
	pd     *PD
	window *mem.Window
	gone   atomic.Bool
}

// AllocMW allocates a memory window: ibv_alloc_mw(3).
func (p *PD) AllocMW(t ib.MWType) (w *MW, err error) {
	defer func() { p.ctx.logCall("ibv_alloc_mw", err, "type", text{t}) }()
	if err := p.ctx.alive(); err != nil {
		return nil, err
	}
	if t != ib.MWType1 && t != ib.MWType2 {
		return nil, invalid("type", "%d is neither MWType1 nor MWType2", t)
	}
	if err := use(&p.users, "PD"); err != nil {
		return nil, err
	}
	window, err := p.ctx.keys.AllocWindow(p.num, t)
	if err != nil {
		p.users.Add(-1)
		return nil, fail(syscall.ENOMEM, "type", "%v", err)
	}
	return &MW{pd: p, window: window}, nil
}

// RKey returns the window's key as of its last bind.
func (w *MW) RKey() ib.RKey { return w.window.RKey() }

// Type returns the type of the window.
func (w *MW) Type() ib.MWType { return w.window.Type() }

// Dealloc removes the window and its grant: ibv_dealloc_mw(3).
func (w *MW) Dealloc() (err error) {
	defer func() { w.pd.ctx.logCall("ibv_dealloc_mw", err, "type", text{w.Type()}) }()
	if w.gone.Swap(true) {
		return invalid("MW", "was deallocated before")
	}
	if err := w.pd.ctx.keys.FreeWindow(w.window); err != nil && !w.pd.ctx.purged(err) {
		w.gone.Store(false)
		return fail(syscall.EBUSY, "MW", "%v", err)
	}
	w.pd.users.Add(-1)
	return nil
}
