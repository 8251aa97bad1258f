// SPDX-License-Identifier: BSD-2-Clause

package device

import (
	"encoding/binary"
	"math"

	"verbena/ib"
)

// iwarpAttr are the attributes of a device of iWARP: no datagrams, no XRC, no
// FLUSH, and over TCP no atomics that an application could count on, as a peer
// may have none.
func (d *Info) iwarpAttr() ib.DeviceAttr {
	atomics, odp := ib.AtomicNone, odpRC&^ib.ODPAtomic
	if d.Kind == KindTRP {
		atomics, odp = ib.AtomicHCA, odpRC
	}
	return ib.DeviceAttr{
		FWVer: "1.0.0", NodeType: ib.NodeRNIC, NodeGUID: d.GUID, SysImageGUID: d.GUID,
		MaxMRSize: 1<<63 - 1, PageSizeCap: 0xfffff000,
		VendorID: 0xffffff, VendorPartID: 2, HWVer: 1,
		MaxQP: MaxQP, MaxQPWR: MaxQPWR,
		DeviceCapFlags: ib.CapCurrQPStateMod | ib.CapSysImageGUID | ib.CapSRQResize |
			ib.CapMemWindow | ib.CapMemWindowType2B | ib.CapMemMgtExtensions,
		MaxSGE: ib.MaxSGE, MaxSGERd: ib.MaxSGE, MaxInlineData: MaxInline,
		MaxCQ: maxObjects, MaxCQE: MaxCQE, MaxMR: maxObjects, MaxPD: maxObjects,
		MaxQPRdAtom: MaxRdAtomic, MaxResRdAtom: MaxRdAtomic * MaxQP, MaxQPInitRdAtom: MaxRdAtomic,
		AtomicCap: atomics, MaxMW: maxObjects,
		MaxSRQ: maxObjects, MaxSRQWR: MaxSRQWR, MaxSRQSGE: ib.MaxSGE,
		MaxFastRegPages: MaxFRSegs, MaxPKeys: 1, PhysPortCnt: 1,
		MaxDMSize: MaxDMSize, HCACoreClock: coreClock, CompletionTimestampMask: math.MaxUint64,
		ODPCaps: ib.ODPCaps{General: odpGeneral, RC: odp},
	}
}

// macGID is the one entry of the GID table of a device of iWARP: the MAC address
// and zeros. Peers are named by IP address and port; nothing is sent to a GID.
//
// Source: siw's query_gid.
func (d *Info) macGID() (g ib.GID) {
	var eui [8]byte
	binary.BigEndian.PutUint64(eui[:], uint64(d.GUID))
	eui[0] ^= 2
	copy(g[:3], eui[:3])
	copy(g[3:6], eui[5:])
	return g
}

// iwarpTaken lists the attributes that a modification of an iWARP queue pair may have
// beside the state, by states; none is required. Changes to RESET and ERR are always
// permitted. A queue pair goes to RTS with its connection and not by a call.
//
// Source: the attributes that iw_cm gives a queue pair, and P_Key index and port,
// which InfiniBand wants.
var iwarpTaken = [...]struct {
	from, to ib.QPState
	mask     ib.QPAttrMask
}{
	{ib.QPReset, ib.QPInit, ib.QPAccessFlags | ib.QPPKeyIndex | ib.QPPort},
	{ib.QPInit, ib.QPInit, ib.QPAccessFlags | ib.QPPKeyIndex | ib.QPPort},
	{ib.QPRTS, ib.QPRTS, ib.QPAccessFlags},
	{ib.QPRTS, ib.QPSQD, ib.QPEnSQDAsyncNotify},
	{ib.QPSQD, ib.QPSQD, ib.QPAccessFlags},
	{ib.QPSQD, ib.QPRTS, ib.QPAccessFlags},
}

// checkIWARP is CheckModify of an iWARP queue pair, which is of type RC.
func checkIWARP(cur ib.QPState, a *ib.QPAttr, mask ib.QPAttrMask,
	limits *Limits) (ib.QPState, error) {
	if mask&ib.QPCurState != 0 && a.CurState != cur {
		return cur, invalid("CurState", "is %v, but the queue pair is in %v", a.CurState, cur)
	}
	next := cur
	if mask&ib.QPStateAttr != 0 {
		next = a.State
	}
	taken, ok := ib.QPAttrMask(0), false
	for _, e := range iwarpTaken {
		if e.from == cur && e.to == next {
			taken, ok = e.mask, true
		}
	}
	switch {
	case next == ib.QPReset || next == ib.QPErr:
	case !ok && (next == ib.QPRTR || next == ib.QPRTS):
		return cur, invalid("State", "cannot go from %v to %v: an iWARP queue pair goes to RTS "+
			"with its connection, by rdma_connect or rdma_accept", cur, next)
	case !ok:
		return cur, invalid("State", "cannot go from %v to %v", cur, next)
	}
	if extra := mask &^ (taken | ib.QPStateAttr | ib.QPCurState); extra != 0 {
		return cur, invalid("mask", "%v → %v of an iWARP queue pair does not take %v", cur, next,
			maskNames(extra))
	}
	if err := checkRanges(a, mask, limits); err != nil {
		return cur, err
	}
	return next, nil
}
