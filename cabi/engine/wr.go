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

	"verbena/ib"
	"verbena/internal/core"
	"verbena/internal/mem"
)

// The work requests of C, as they lie in its memory: struct ibv_send_wr, whose
// unions cgo shows as bytes. table.c holds the layouts equal.
type (
	sendWR struct {
		id       uint64
		next     *sendWR
		sgList   *ib.SGE // struct ibv_sge has the layout of ib.SGE
		numSGE   int32
		opcode   uint32
		flags    uint32
		imm      [4]byte // big-endian; or invalidate_rkey, in host order
		op       [32]byte
		xrcSRQN  uint32
		_        uint32
		mw       *C.struct_vb_mw
		mwKey    uint32
		_        uint32
		bindInfo C.struct_ibv_mw_bind_info
	}

	// What op holds, by opcode.
	opRDMA struct {
		addr uint64
		rkey uint32
	}
	opAtomic struct {
		addr, compareAdd, swap uint64
		rkey                   uint32
	}
	opUD struct {
		ah        *C.struct_vb_ah
		qpn, qkey uint32
	}
)

func sendList(wr *C.struct_ibv_send_wr) *sendWR { return (*sendWR)(unsafe.Pointer(wr)) }

// sges returns a list of elements where it is.
func sges(list *ib.SGE, n int32) ([]ib.SGE, error) {
	if n < 0 || n > ib.MaxSGE || n > 0 && list == nil {
		return nil, invalid("num_sge %d", n)
	}
	return unsafe.Slice(list, int(n)), nil
}

// inlineBytes holds the inline data of one work request on its way.
type inlineBytes [maxInline]byte

// take reads a work request of a queue pair of type t. What points to C's
// memory in it holds until the post returns.
func (wr *sendWR) take(to *core.SendWR, t ib.QPType, inline *inlineBytes, bind *core.BindWR) (err error) {
	if wr.opcode > math.MaxUint8 || wr.flags > math.MaxUint8 {
		return invalid("opcode %d, send_flags %#x", wr.opcode, wr.flags)
	}
	to.ID, to.Opcode, to.Flags = wr.id, ib.WROpcode(wr.opcode), ib.SendFlags(wr.flags)
	to.Inline, to.SGList = nil, nil
	if wr.flags&uint32(ib.SendInline) != 0 {
		to.Inline, err = wr.gather(inline)
	} else {
		to.SGList, err = sges(wr.sgList, wr.numSGE)
	}
	if err != nil {
		return err
	}
	if t == ib.QPTypeUD {
		return wr.takeUD(to)
	}
	to.RemoteSRQN = ib.SRQN(wr.xrcSRQN) // of XRC_SEND alone; verbs ignores others'
	switch to.Opcode {
	case ib.WRSendWithImm, ib.WRRDMAWriteWithImm:
		to.ImmData = binary.BigEndian.Uint32(wr.imm[:])
	case ib.WRSendWithInv, ib.WRLocalInv:
		to.InvalidateRKey = ib.RKey(binary.NativeEndian.Uint32(wr.imm[:]))
	case ib.WRRegMR: // the kernel's alone
		return invalid("opcode %d", wr.opcode)
	}
	switch to.Opcode {
	case ib.WRRDMAWrite, ib.WRRDMAWriteWithImm, ib.WRRDMARead, ib.WRAtomicWrite:
		o := (*opRDMA)(unsafe.Pointer(&wr.op))
		to.RemoteAddr, to.RKey = o.addr, ib.RKey(o.rkey)
	case ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd:
		o := (*opAtomic)(unsafe.Pointer(&wr.op))
		to.RemoteAddr, to.CompareAdd, to.Swap, to.RKey = o.addr, o.compareAdd, o.swap, ib.RKey(o.rkey)
	case ib.WRFlush: // as engine.h has it
		o := (*opAtomic)(unsafe.Pointer(&wr.op))
		if o.compareAdd > math.MaxUint32 || o.swap > math.MaxUint16 {
			return invalid("FLUSH of %d bytes, type and level %#x", o.compareAdd, o.swap)
		}
		to.RemoteAddr, to.FlushLength, to.RKey = o.addr, uint32(o.compareAdd), ib.RKey(o.rkey)
		to.FlushType, to.FlushLevel = ib.FlushType(o.swap), ib.FlushLevel(o.swap>>8)
	case ib.WRBindMW:
		return wr.takeBindMW(to, bind)
	}
	return nil
}

func (wr *sendWR) takeUD(to *core.SendWR) error {
	o := (*opUD)(unsafe.Pointer(&wr.op))
	if o.ah == nil {
		return invalid("no address handle")
	}
	a := ahs.get(handle(o.ah.handle))
	if a == nil {
		return noObject("AH")
	}
	to.AH, to.RemoteQPN, to.RemoteQKey = a.verbs, ib.QPN(o.qpn), ib.QKey(o.qkey)
	if to.Opcode == ib.WRSendWithImm {
		to.ImmData = binary.BigEndian.Uint32(wr.imm[:])
	}
	return nil
}

func (wr *sendWR) takeBindMW(to *core.SendWR, bind *core.BindWR) error {
	if wr.mw == nil {
		return invalid("no memory window")
	}
	w := mws.get(handle(wr.mw.handle))
	if w == nil {
		return noObject("MW")
	}
	bind.MW, bind.RKey = w.verbs, ib.RKey(wr.mwKey)
	to.Bind = bind
	return takeBind(bind, &wr.bindInfo)
}

// gather copies inline data from where its elements say: their keys do not
// count. Source: ibv_post_send(3), IBV_SEND_INLINE.
func (wr *sendWR) gather(to *inlineBytes) ([]byte, error) {
	if wr.numSGE < 0 || wr.numSGE > 0 && wr.sgList == nil {
		return nil, invalid("num_sge %d", wr.numSGE)
	}
	n := 0
	for _, g := range unsafe.Slice(wr.sgList, int(wr.numSGE)) {
		if g.Length == 0 {
			continue
		}
		if uint64(g.Length) > uint64(len(to)-n) {
			return nil, invalid("more than %d bytes of inline data", len(to))
		}
		// Neither nothing nor what wraps around makes a slice.
		if g.Addr == 0 || g.Addr+uint64(g.Length) < g.Addr || !mem.Copy(to[n:], unsafe.Slice((*byte)(addressed(g.Addr)), int(g.Length))) {
			return nil, fmt.Errorf("inline data at %#x: %w", g.Addr, syscall.EFAULT)
		}
		n += int(g.Length)
	}
	return to[:n], nil
}

// addressed is the memory of C at an address.
func addressed(a uint64) unsafe.Pointer {
	p := uintptr(a)
	return *(*unsafe.Pointer)(unsafe.Pointer(&p)) // vet cannot know that it is not Go's
}
