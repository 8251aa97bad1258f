// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"verbena/ib"
	"verbena/internal/core"
)

// DM is device memory: ibv_dm. On a NIC a request reaches it without the bus. Here it is memory of
// the process, and as fast as any other.
type DM core.DM

// AllocDM allocates zeroed device memory, at a multiple of 1<<logAlign: ibv_alloc_dm(3). Its length
// and 1<<logAlign are at most DeviceAttr.MaxDMSize.
//
// Errors: EINVAL for a length or an alignment that is out of range.
func (c *Context) AllocDM(length, logAlign int) (*DM, error) {
	v, err := (*core.Context)(c).AllocDM(length, logAlign)
	return (*DM)(v), err
}

// Free frees the memory: ibv_free_dm(3). Errors: EBUSY while a region has part of it.
func (d *DM) Free() error { return (*core.DM)(d).Free() }

// CopyTo copies src to the memory at an offset: ibv_memcpy_to_dm(3). Offset and length are
// multiples of 4, as other devices demand. Errors: EINVAL if they are not, or are out of bounds.
func (d *DM) CopyTo(off uint64, src []byte) error { return (*core.DM)(d).CopyTo(off, src) }

// CopyFrom copies from the memory at an offset to dst: ibv_memcpy_from_dm(3). Its rules are those
// of CopyTo.
func (d *DM) CopyFrom(dst []byte, off uint64) error { return (*core.DM)(d).CopyFrom(dst, off) }

// RegDMMR registers n bytes of device memory from an offset on: ibv_reg_dm_mr(3). The access rights
// include AccessZeroBased: requests name the first byte by address 0. Rereg refuses such a region.
//
// Errors: EINVAL for memory of another context, bytes out of bounds, or other access rights.
func (p *PD) RegDMMR(d *DM, off uint64, n int, access ib.Access) (*MR, error) {
	v, err := (*core.PD)(p).RegDMMR((*core.DM)(d), off, n, access)
	return (*MR)(v), err
}
