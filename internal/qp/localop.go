// SPDX-License-Identifier: BSD-2-Clause

package qp

import (
	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/queue"
)

// ExecuteLocal runs LOCAL_INV, REG_MR or BIND_MW. Any status but success comes with the vendor
// error.
func (q *Core) ExecuteLocal(w *queue.SendWQE) (ib.WCStatus, ib.VendorErr) {
	var v mem.AccessError
	fault := ib.WCLocQPOpErr
	switch w.Opcode {
	case ib.WRLocalInv:
		v = q.Mem.Invalidate(q.PD, q.QPN, w.InvalidateKey, false)
	case ib.WRRegMR:
		v = q.Mem.FastRegister(q.PD, w.Region, w.RKey, w.Access)
	case ib.WRBindMW:
		fault = ib.WCMWBindErr
		_, v = q.Mem.Bind(w.Window, q.QPN, w.RKey, w.Region, w.BindAddr, w.BindLen, w.Access)
	}
	if v != ib.VendorNone {
		return fault, v
	}
	return ib.WCSuccess, ib.VendorNone
}

// BadLength reports whether an operation on a word of 8 bytes was posted with local
// memory of another length.
func BadLength(w *queue.SendWQE) bool {
	switch w.Opcode {
	case ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd, ib.WRAtomicWrite:
		return w.Length != 8
	}
	return false
}

// IsLocal reports whether an operation sends nothing.
func IsLocal(o ib.WROpcode) bool {
	return o == ib.WRLocalInv || o == ib.WRBindMW || o == ib.WRRegMR
}
