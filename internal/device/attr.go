// SPDX-License-Identifier: BSD-2-Clause

package device

import (
	"fmt"
	"math"
	"net"
	"strconv"
	"syscall"

	"verbena/ib"
	"verbena/internal/steer"
)

const errNoDevice = syscall.ENODEV

func quote(s string) string { return strconv.Quote(s) }

// Device limits. A software device is bounded by memory; these are the numbers
// beyond which a call is refused.
const (
	MaxQP       = 1<<14 - 16
	MaxQPWR     = 1 << 15
	MaxCQE      = 1 << 22
	MaxSRQWR    = 1 << 15
	MaxInline   = 512
	MaxRdAtomic = 128
	MaxFRSegs   = 512
	MaxDMSize   = 1 << 24
	MaxRWQTable = 1 << 9 // work queues of an indirection table
	MaxTags     = 1 << 10
	MaxTagOps   = 1 << 10
	maxObjects  = 1 << 20
	gidTableLen = 256
	// IPv6, UDP, BTH, RETH, ImmDt, ICRC: a full packet carries them beside payload
	RoCEOverhead = 40 + 8 + 12 + 16 + 4 + 4
)

// coreClock is the frequency of monotime in kHz.
const coreClock = 1e6

// On-demand paging covers each operation that the transport has.
const (
	odpGeneral = ib.ODPSupport | ib.ODPSupportImplicit
	odpRC      = ib.ODPSend | ib.ODPRecv | ib.ODPWrite | ib.ODPRead | ib.ODPAtomic | ib.ODPSRQRecv
	odpRoCERC  = odpRC | ib.ODPFlush | ib.ODPAtomicWrite
)

// CompCntrCaps has the bounds of completion counters. A request of the peer that completes nothing
// here is not counted.
var CompCntrCaps = ib.CompCntrCaps{MaxValue: math.MaxUint64, MaxCounters: maxObjects,
	Ops: ib.CompCntrSend | ib.CompCntrRecv | ib.CompCntrRead | ib.CompCntrWrite}

// CQModeration has the bounds of ibv_modify_cq(3): those of its 16-bit fields.
var CQModeration = ib.CQModerationCaps{MaxCount: math.MaxUint16, MaxPeriod: math.MaxUint16}

// Attr returns the device's attributes.
func (d *Info) Attr() (a ib.DeviceAttr) {
	switch {
	case d.Kind.IsIWARP():
		a = d.iwarpAttr()
	case d.Kind == KindNTB:
		a = d.ntbAttr()
	default:
		a = d.roceAttr()
	}
	a.CQModeration = CQModeration
	a.DeviceCapFlags |= systemCaps
	return a
}

func (d *Info) roceAttr() ib.DeviceAttr {
	return ib.DeviceAttr{
		FWVer: "1.0.0", NodeType: ib.NodeCA, NodeGUID: d.GUID, SysImageGUID: d.GUID,
		MaxMRSize: 1<<63 - 1, PageSizeCap: 0xfffff000,
		VendorID: 0xffffff, VendorPartID: 1, HWVer: 1,
		MaxQP: MaxQP, MaxQPWR: MaxQPWR,
		DeviceCapFlags: ib.CapBadPKeyCntr | ib.CapBadQKeyCntr | ib.CapAutoPathMig |
			ib.CapCurrQPStateMod | ib.CapSysImageGUID | ib.CapRCRNRNAKGen | ib.CapSRQResize |
			ib.CapMemWindow | ib.CapMemWindowType2B | ib.CapMemMgtExtensions | ib.CapXRC |
			ib.CapManagedFlowSteering |
			ib.CapFlushGlobal | ib.CapFlushPersistent | ib.CapAtomicWrite,
		MaxSGE: ib.MaxSGE, MaxSGERd: ib.MaxSGE, MaxInlineData: MaxInline,
		MaxCQ: maxObjects, MaxCQE: MaxCQE, MaxMR: maxObjects, MaxPD: maxObjects,
		MaxQPRdAtom: MaxRdAtomic, MaxResRdAtom: MaxRdAtomic * MaxQP, MaxQPInitRdAtom: MaxRdAtomic,
		AtomicCap: ib.AtomicHCA, // as rxe says: UCX wants no other, though Glob would be true
		MaxMW:     maxObjects, MaxRawEthyQP: MaxQP,
		MaxMcastGrp: 8192, MaxMcastQPAttach: 56, MaxTotalMcastQPAttach: 8192 * 56,
		MaxAH: maxObjects, MaxSRQ: maxObjects, MaxSRQWR: MaxSRQWR, MaxSRQSGE: ib.MaxSGE,
		MaxFastRegPages: MaxFRSegs, MaxPKeys: 1, LocalCAAckDelay: 15, PhysPortCnt: 1,
		MaxDMSize: MaxDMSize, HCACoreClock: coreClock, CompletionTimestampMask: math.MaxUint64,
		ODPCaps: ib.ODPCaps{General: odpGeneral, RC: odpRoCERC, XRC: odpRoCERC &^ ib.ODPRecv,
			UC: ib.ODPSend | ib.ODPRecv | ib.ODPWrite, UD: ib.ODPSend | ib.ODPRecv | ib.ODPSRQRecv},
		RSS: ib.RSSCaps{Types: 1 << ib.QPTypeRawPacket, MaxTables: maxObjects,
			MaxTableSize: MaxRWQTable, Fields: steer.AllHash, Function: 1},
		MaxWQTypeRQ: MaxQP,
		TM: ib.TMCaps{MaxRndvHdrSize: ib.MaxTMRendezvous, MaxNumTags: MaxTags, MaxOps: MaxTagOps,
			MaxSGE: ib.MaxSGE, Flags: ib.TMCapRC},
		PacketPacing: ib.PacketPacingCaps{Min: 1, Max: math.MaxUint32,
			Types: 1<<ib.QPTypeRC | 1<<ib.QPTypeUC | 1<<ib.QPTypeUD |
				1<<ib.QPTypeRawPacket | 1<<ib.QPTypeXRCSend},
	}
}

// portCM is the capability of a port to carry the connection manager's messages, the only one that
// rdma_rxe's ports have: IBV_PORT_CM_SUP.
const portCM = 1 << 16

// PortAttr returns the attributes of the device's port.
func (d *Info) PortAttr() ib.PortAttr {
	if d.Kind == KindNTB {
		return d.ntbPort()
	}
	a := ib.PortAttr{
		State: ib.PortDown, MaxMTU: ib.MTU4096, ActiveMTU: ib.MTU256, GIDTblLen: gidTableLen,
		MaxMsgSz: ib.MaxMessage, PKeyTblLen: 1,
		PortCapFlags: portCM,
		MaxVLNum:     1, ActiveWidth: 1, ActiveSpeed: 1, PhysState: 3, LinkLayer: ib.LinkEthernet,
	}
	if d.Kind.IsIWARP() {
		a.GIDTblLen = 1
	}
	i, err := interfaceNow(d.NetDev)
	if err != nil {
		return a
	}
	if m := ib.MTUFor(i.MTU - d.Overhead()); m != 0 {
		a.ActiveMTU = m
	}
	if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagRunning != 0 {
		a.State, a.PhysState = ib.PortActive, 5
	}
	return a
}

// Overhead is the room that headers take of the interface's MTU. iWARP's are
// the stream's business.
func (d *Info) Overhead() int {
	if d.Kind.IsIWARP() {
		return 0
	}
	return RoCEOverhead
}

// CheckRange refuses a number outside [lo, hi].
func CheckRange(arg string, v, lo, hi int) error {
	if v < lo || v > hi {
		return &Error{Arg: arg, Why: fmt.Sprintf("%d: must be %d to %d", v, lo, hi),
			Err: syscall.EINVAL}
	}
	return nil
}
