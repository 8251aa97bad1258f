// SPDX-License-Identifier: BSD-2-Clause

package queue

import (
	"net/netip"

	"verbena/ib"
	"verbena/internal/mem"
)

// A SendWQE is a posted send work request and the requester's notes on it.
// SGE and Inline point into the queue's own arenas.
//
// The layout is by size, not by topic: at most 192 bytes, because every slot
// of every send queue is one.
type SendWQE struct {
	WRID   uint64
	SGE    []ib.SGE // local memory: source, or target of a READ or atomic
	Inline []byte   // the data itself, instead of SGE, with ib.SendInline

	Opcode ib.WROpcode
	Flags  ib.SendFlags

	// State is the requester's.
	State uint8

	// FLUSH
	Flush ib.FlushType
	Level ib.FlushLevel

	// UD: where to send
	SGIDIndex    uint8
	TrafficClass uint8
	HopLimit     uint8

	Length uint32 // bytes in all, at most ib.MaxMessage
	Imm    uint32 // with immediate: as a number

	RemoteAddr uint64 // RDMA, atomics, FLUSH: the address there
	// RKey is the peer's key for RDMA, atomics and FLUSH, and the new key of
	// REG_MR and BIND_MW.
	RKey          ib.RKey
	InvalidateKey ib.RKey // LOCAL_INV, SEND with invalidate

	CompareAdd uint64 // atomics: compare, or add
	Swap       uint64

	// The requester's: the PSNs the request takes, the message's number, and
	// how many bytes were sent or, of a READ, have come.
	FirstPSN ib.PSN
	LastPSN  ib.PSN
	MSN      ib.MSN
	Sent     uint32

	// UD: the destination. Dst is not valid where the address handle is of another protection
	// domain. RemoteQPN is also where XRC has its number: see RemoteSRQ.
	RemoteQPN ib.QPN
	QKey      ib.QKey
	Dst       netip.Addr
	FlowLabel uint32

	// BIND_MW and REG_MR
	Access   ib.Access
	Window   *mem.Window
	Region   *mem.Region
	BindAddr uint64
	BindLen  uint64
}

// RemoteSRQ returns the shared receive queue that an XRC request is for.
func (w *SendWQE) RemoteSRQ() ib.SRQN { return ib.SRQN(w.RemoteQPN) }

// SetRemoteSRQ sets it. UD's number gives its place: no queue pair needs both,
// and every slot would be 8 bytes longer.
func (w *SendWQE) SetRemoteSRQ(n ib.SRQN) { w.RemoteQPN = ib.QPN(n) }

// A RecvWQE is a posted receive work request. SGE points into the queue's own
// arena.
type RecvWQE struct {
	WRID   uint64
	SGE    []ib.SGE
	Length uint32 // bytes in all
}

// TotalLength returns the bytes of a scatter/gather list; ok is false if they
// are more than ib.MaxMessage. The sum does not overflow.
func TotalLength(sge []ib.SGE) (n uint32, ok bool) {
	var sum uint64
	for i := range sge {
		sum += uint64(sge[i].Length)
	}
	return uint32(sum), sum <= ib.MaxMessage
}
