// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"math/bits"
	"sync"
	"syscall"

	"verbena/ib"
	"verbena/internal/device"
)

// DM is device memory: memory of the engine's, not of the application's.
type DM struct {
	ctx *Context

	mu      sync.Mutex
	buf     []byte // guarded by mu: nil once freed
	regions int    // guarded by mu: registered
}

// dmWordBytes is the granularity of copies to and from device memory.
const dmWordBytes = 4

// AllocDM allocates device memory of a length, at a multiple of 1<<logAlign: ibv_alloc_dm(3).
func (c *Context) AllocDM(length, logAlign int) (d *DM, err error) {
	defer func() { c.logCall("ibv_alloc_dm", err, "length", length) }()
	if err := c.alive(); err != nil {
		return nil, err
	}
	if err := device.CheckRange("length", length, 1, device.MaxDMSize); err != nil {
		return nil, err
	}
	most := bits.Len(device.MaxDMSize) - 1 // as the alignment takes memory too
	if err := device.CheckRange("logAlign", logAlign, 0, most); err != nil {
		return nil, err
	}
	align := uint64(1) << logAlign
	buf := make([]byte, uint64(length)+align)
	skip := -addressOf(buf) & (align - 1)
	return &DM{ctx: c, buf: buf[skip:][:length:length]}, nil
}

// Free frees the memory: ibv_free_dm(3).
func (d *DM) Free() (err error) {
	defer func() { d.ctx.logCall("ibv_free_dm", err) }()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.buf == nil:
		return invalid("DM", "was freed before")
	case d.regions > 0:
		return fail(syscall.EBUSY, "DM", "has %d regions", d.regions)
	}
	d.buf = nil
	return nil
}

// CopyTo copies src to the memory at an offset: ibv_memcpy_to_dm(3).
func (d *DM) CopyTo(off uint64, src []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	dst, err := d.partLocked(off, len(src))
	copy(dst, src)
	return err
}

// CopyFrom copies from the memory at an offset to dst: ibv_memcpy_from_dm(3).
func (d *DM) CopyFrom(dst []byte, off uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	src, err := d.partLocked(off, len(dst))
	copy(dst, src)
	return err
}

func (d *DM) partLocked(off uint64, n int) ([]byte, error) {
	if off%dmWordBytes != 0 || n%dmWordBytes != 0 {
		return nil, invalid("offset", "%d bytes at %d: must be multiples of %d", n, off,
			dmWordBytes)
	}
	return d.rangeLocked(off, n)
}

func (d *DM) rangeLocked(off uint64, n int) ([]byte, error) {
	if size := uint64(len(d.buf)); d.buf == nil || off > size || uint64(n) > size-off {
		return nil, invalid("offset", "%d bytes at %d: the memory has %d", n, off, size)
	}
	return d.buf[off:][:n:n], nil
}

// RegDMMR registers n bytes of device memory from an offset on. Its region is zero-based:
// ibv_reg_dm_mr(3).
func (p *PD) RegDMMR(d *DM, off uint64, n int, access ib.Access) (*MR, error) {
	if d == nil || d.ctx != p.ctx {
		return nil, invalid("DM", "is not of this context")
	}
	if !access.Has(ib.AccessZeroBased) || access.Has(ib.AccessOnDemand) {
		return nil, invalid("access", "%v: a region of device memory is ZERO_BASED", access)
	}
	buf, err := d.use(off, n)
	if err != nil {
		return nil, err
	}
	m, err := p.RegMRIOVA(buf, 0, access)
	if err != nil {
		d.release()
		return nil, err
	}
	m.dm = d
	return m, nil
}

// use returns a part of the memory for a region, which calls release at its end.
func (d *DM) use(off uint64, n int) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	buf, err := d.rangeLocked(off, n)
	if err == nil {
		d.regions++
	}
	return buf, err
}

// release ends the use of the memory by a region. d may be nil.
func (d *DM) release() {
	if d != nil {
		d.mu.Lock()
		d.regions--
		d.mu.Unlock()
	}
}
