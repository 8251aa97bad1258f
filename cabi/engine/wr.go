// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"encoding/binary"
	"fmt"
	"math"
	"syscall"
	"unsafe"

	"verbena/cabi/layout"
	"verbena/ib"
	"verbena/internal/core"
	"verbena/internal/mem"
)

// A sendWR is a work request in memory of C.
type sendWR layout.SendWR

func sendList(wr *C.struct_ibv_send_wr) *sendWR { return (*sendWR)(unsafe.Pointer(wr)) }

// sges returns a list of elements as a slice of memory of C.
func sges(list *ib.SGE, n int32) ([]ib.SGE, error) {
	if n < 0 || n > ib.MaxSGE || n > 0 && list == nil {
		return nil, invalid("num_sge %d", n)
	}
	return unsafe.Slice(list, int(n)), nil
}

// inlineBytes holds the inline data of the work request being posted.
type inlineBytes [maxInline]byte

// take decodes a work request of a queue pair of type t. Pointers to memory of C in it are valid
// until the post returns.
func (wr *sendWR) take(to *core.SendWR, t ib.QPType, inline *inlineBytes,
	bind *core.BindWR) (err error) {
	if wr.Opcode > math.MaxUint8 || wr.Flags > math.MaxUint8 {
		return invalid("opcode %d, send_flags %#x", wr.Opcode, wr.Flags)
	}
	to.ID, to.Opcode, to.Flags = wr.ID, ib.WROpcode(wr.Opcode), ib.SendFlags(wr.Flags)
	to.Inline, to.SGList = nil, nil
	if wr.Flags&uint32(ib.SendInline) != 0 {
		to.Inline, err = wr.gather(inline)
	} else {
		to.SGList, err = sges(wr.SGList, wr.NumSGE)
	}
	if err != nil {
		return err
	}
	if t == ib.QPTypeUD {
		return wr.takeUD(to)
	}
	to.RemoteSRQN = ib.SRQN(wr.XRCSRQN) // verbs ignores it but for XRC_SEND
	switch to.Opcode {
	case ib.WRSendWithImm, ib.WRRDMAWriteWithImm:
		to.ImmData = binary.BigEndian.Uint32(wr.Imm[:])
	case ib.WRSendWithInv, ib.WRLocalInv:
		to.InvalidateRKey = ib.RKey(binary.NativeEndian.Uint32(wr.Imm[:]))
	case ib.WRRegMR: // for users of the kernel only
		return invalid("opcode %d", wr.Opcode)
	}
	switch to.Opcode {
	case ib.WRRDMAWrite, ib.WRRDMAWriteWithImm, ib.WRRDMARead, ib.WRAtomicWrite:
		o := (*layout.RDMA)(unsafe.Pointer(&wr.Op))
		to.RemoteAddr, to.RKey = o.Addr, ib.RKey(o.RKey)
	case ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd:
		o := (*layout.Atomic)(unsafe.Pointer(&wr.Op))
		to.RemoteAddr, to.RKey = o.Addr, ib.RKey(o.RKey)
		to.CompareAdd, to.Swap = o.CompareAdd, o.Swap
	case ib.WRFlush: // encoded as engine.h says
		o := (*layout.Atomic)(unsafe.Pointer(&wr.Op))
		if o.CompareAdd > math.MaxUint32 || o.Swap > math.MaxUint16 {
			return invalid("FLUSH of %d bytes, type and level %#x", o.CompareAdd, o.Swap)
		}
		to.RemoteAddr, to.FlushLength, to.RKey = o.Addr, uint32(o.CompareAdd), ib.RKey(o.RKey)
		to.FlushType, to.FlushLevel = ib.FlushType(o.Swap), ib.FlushLevel(o.Swap>>8)
	case ib.WRBindMW:
		return wr.takeBindMW(to, bind)
	}
	return nil
}

func (wr *sendWR) takeUD(to *core.SendWR) error {
	o := (*layout.UD)(unsafe.Pointer(&wr.Op))
	if o.AH == nil {
		return invalid("no address handle")
	}
	a := ahs.get(handle((*C.struct_vb_ah)(o.AH).handle))
	if a == nil {
		return ahs.none()
	}
	to.AH, to.RemoteQPN, to.RemoteQKey = a.verbs, ib.QPN(o.QPN), ib.QKey(o.QKey)
	if to.Opcode == ib.WRSendWithImm {
		to.ImmData = binary.BigEndian.Uint32(wr.Imm[:])
	}
	return nil
}

func (wr *sendWR) takeBindMW(to *core.SendWR, bind *core.BindWR) error {
	if wr.MW == nil {
		return invalid("no memory window")
	}
	w := mws.get(handle((*C.struct_vb_mw)(wr.MW).handle))
	if w == nil {
		return mws.none()
	}
	bind.MW, bind.RKey = w.verbs, ib.RKey(wr.MWKey)
	to.Bind = bind
	return takeBind(bind, (*C.struct_ibv_mw_bind_info)(unsafe.Pointer(&wr.BindInfo)))
}

// gather copies inline data from the memory of its elements; their keys are ignored. Source:
// ibv_post_send(3), IBV_SEND_INLINE.
func (wr *sendWR) gather(to *inlineBytes) ([]byte, error) {
	if wr.NumSGE < 0 || wr.NumSGE > 0 && wr.SGList == nil {
		return nil, invalid("num_sge %d", wr.NumSGE)
	}
	n := 0
	for _, g := range unsafe.Slice(wr.SGList, int(wr.NumSGE)) {
		if g.Length == 0 {
			continue
		}
		if uint64(g.Length) > uint64(len(to)-n) {
			return nil, invalid("more than %d bytes of inline data", len(to))
		}
		// unsafe.Slice takes neither NULL nor memory that wraps around.
		if g.Addr == 0 || g.Addr+uint64(g.Length) < g.Addr ||
			!mem.Copy(to[n:], unsafe.Slice((*byte)(addressed(g.Addr)), int(g.Length))) {
			return nil, fmt.Errorf("inline data at %#x: %w", g.Addr, syscall.EFAULT)
		}
		n += int(g.Length)
	}
	return to[:n], nil
}

// addressed returns a pointer to memory of C.
func addressed(a uint64) unsafe.Pointer {
	p := uintptr(a)
	return *(*unsafe.Pointer)(unsafe.Pointer(&p)) // hides from vet that this is no Go memory
}
