// SPDX-License-Identifier: BSD-2-Clause

package ib

// SGE is a scatter/gather element: Length bytes at Addr of the region that
// LKey names. With a zero-based region Addr counts from the region's start.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   LKey
}

// MaxSGE is the longest scatter/gather list of one work request.
const MaxSGE = 32

// MaxMessage is the longest message in bytes.
//
// Spec: IBTA vol. 1, 9.3.3 (DMA length).
const MaxMessage = 1 << 31

// WROpcode is the operation of a send work request. Values are those of
// ibv_wr_opcode; operations that verbs.h does not define have values from 64 on.
type WROpcode uint8

// Send operations.
const (
	WRRDMAWrite         WROpcode = 0
	WRRDMAWriteWithImm  WROpcode = 1
	WRSend              WROpcode = 2
	WRSendWithImm       WROpcode = 3
	WRRDMARead          WROpcode = 4
	WRAtomicCmpAndSwp   WROpcode = 5
	WRAtomicFetchAndAdd WROpcode = 6
	WRLocalInv          WROpcode = 7
	WRBindMW            WROpcode = 8
	WRSendWithInv       WROpcode = 9
	WRTSO               WROpcode = 10
	WRDriver1           WROpcode = 11
	WRFlush             WROpcode = 14
	WRAtomicWrite       WROpcode = 15
	WRRegMR             WROpcode = 64
)

var wrNames = [...]string{
	WRRDMAWrite: "RDMA_WRITE", WRRDMAWriteWithImm: "RDMA_WRITE_WITH_IMM", WRSend: "SEND",
	WRSendWithImm: "SEND_WITH_IMM", WRRDMARead: "RDMA_READ",
	WRAtomicCmpAndSwp: "ATOMIC_CMP_AND_SWP", WRAtomicFetchAndAdd: "ATOMIC_FETCH_AND_ADD",
	WRLocalInv: "LOCAL_INV", WRBindMW: "BIND_MW", WRSendWithInv: "SEND_WITH_INV", WRTSO: "TSO",
	WRDriver1: "DRIVER1", WRFlush: "FLUSH", WRAtomicWrite: "ATOMIC_WRITE", WRRegMR: "REG_MR",
}

func (o WROpcode) String() string {
	if int(o) < len(wrNames) && wrNames[o] != "" {
		return wrNames[o]
	}
	return "unknown"
}

// SendFlags modify a send work request: ibv_send_flags.
type SendFlags uint8

// Send flags.
const (
	SendFence     SendFlags = 1 << 0 // wait for earlier READs and atomics
	SendSignaled  SendFlags = 1 << 1 // success makes a completion
	SendSolicited SendFlags = 1 << 2 // wakes a receiver armed for solicited events
	SendInline    SendFlags = 1 << 3 // data is copied when posted
)

// FlushType selects the guarantee of a FLUSH: that data are visible to the host (global), or
// persistent.
type FlushType uint8

// Flush placement types, as FETH.PLT carries them.
const (
	FlushGlobal     FlushType = 1 << 0
	FlushPersistent FlushType = 1 << 1
)

// FlushLevel selects the range of a FLUSH: FETH.SEL.
type FlushLevel uint8

// Flush selectivity levels.
const (
	FlushRange FlushLevel = 0 // RemoteAddr and the length given
	FlushMR    FlushLevel = 1 // the whole region
)
