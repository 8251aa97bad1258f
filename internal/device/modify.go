// SPDX-License-Identifier: BSD-2-Clause

package device

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"

	"verbena/ib"
)

// transition is one permitted change of state and the attributes that must and
// may come with it.
type transition struct {
	from, to           ib.QPState
	required, optional byType
}

// byType has attributes by the type of queue pair.
type byType struct{ ud, uc, rc, xsend, xrecv, raw ib.QPAttrMask }

func (b *byType) of(t ib.QPType) ib.QPAttrMask {
	switch t {
	case ib.QPTypeUD:
		return b.ud
	case ib.QPTypeUC:
		return b.uc
	case ib.QPTypeRC:
		return b.rc
	case ib.QPTypeXRCSend:
		return b.xsend
	case ib.QPTypeXRCRecv:
		return b.xrecv
	case ib.QPTypeRawPacket:
		return b.raw
	}
	return 0
}

// Attributes that several changes have.
const (
	apm       = ib.QPAltPath | ib.QPPathMigState
	connected = ib.QPPKeyIndex | ib.QPPort | ib.QPAccessFlags
	path      = ib.QPAV | ib.QPPathMTU | ib.QPDestQPN | ib.QPRQPSN
	late      = ib.QPAltPath | ib.QPAccessFlags | ib.QPPKeyIndex
	access    = ib.QPCurState | ib.QPAccessFlags | apm
	requester = ib.QPTimeout | ib.QPRetryCnt | ib.QPRNRRetry | ib.QPMaxQPRdAtomic
	responder = ib.QPMaxDestRdAtomic | ib.QPMinRNRTimer
	notify    = ib.QPEnSQDAsyncNotify
	drained   = ib.QPAV | ib.QPAccessFlags | ib.QPPKeyIndex | apm
)

var (
	initial = byType{ud: ib.QPPKeyIndex | ib.QPPort | ib.QPQKey, uc: connected, rc: connected,
		xsend: connected, xrecv: connected, raw: ib.QPPort}
	live = byType{ud: ib.QPCurState | ib.QPQKey | ib.QPRateLimit, uc: access | ib.QPRateLimit,
		rc:    access | ib.QPMinRNRTimer | ib.QPRateLimit,
		xsend: access | ib.QPRateLimit, xrecv: access | ib.QPMinRNRTimer,
		raw: ib.QPCurState | ib.QPRateLimit}
)

// transitions is the table of ibv_modify_qp(3), to which the kernel's ib_core
// adds XRC and CurState. The man page has limits of the rate for raw packets only; here every
// queue pair that sends has one. Changes to RESET and ERR are always permitted and take no
// attributes: these are not listed.
var transitions = [...]transition{
	{ib.QPReset, ib.QPInit, initial, byType{}},
	{ib.QPInit, ib.QPInit, byType{}, initial},
	{ib.QPInit, ib.QPRTR,
		byType{uc: path, rc: path | responder, xsend: path, xrecv: path | responder},
		byType{ud: ib.QPPKeyIndex | ib.QPQKey, uc: late, rc: late, xsend: late, xrecv: late}},
	{ib.QPRTR, ib.QPRTS,
		byType{ud: ib.QPSQPSN, uc: ib.QPSQPSN, rc: ib.QPSQPSN | requester,
			xsend: ib.QPSQPSN | requester, xrecv: ib.QPSQPSN | ib.QPTimeout}, live},
	{ib.QPRTS, ib.QPRTS, byType{}, live},
	{ib.QPSQD, ib.QPRTS, byType{}, live},
	{ib.QPSQE, ib.QPRTS, byType{},
		byType{ud: ib.QPCurState | ib.QPQKey, uc: ib.QPCurState | ib.QPAccessFlags}},
	{ib.QPRTS, ib.QPSQD, byType{},
		byType{ud: notify, uc: notify, rc: notify, xsend: notify, xrecv: notify}},
	{ib.QPSQD, ib.QPSQD, byType{}, byType{
		ud:    ib.QPPKeyIndex | ib.QPQKey,
		uc:    drained,
		rc:    drained | ib.QPPort | requester | responder,
		xsend: drained | ib.QPPort | requester,
		xrecv: drained | ib.QPPort | ib.QPTimeout | responder,
	}},
}

// transitionOf returns the change from one state to another, if it is permitted.
func transitionOf(from, to ib.QPState) (tr *transition, ok bool) {
	if to == ib.QPReset || to == ib.QPErr {
		return &transition{}, true
	}
	for i := range transitions {
		if tr := &transitions[i]; tr.from == from && tr.to == to {
			return tr, true
		}
	}
	return nil, false
}

// Taken is mask without the attributes that XRC queue pairs, which are one half
// of an RC one, are given for the half they lack. Applications set both halves
// alike, perftest among them.
//
// Source: the kernel's ib_uverbs, which removes them before ib_core looks.
func Taken(t ib.QPType, mask ib.QPAttrMask) ib.QPAttrMask {
	switch t {
	case ib.QPTypeXRCSend:
		return mask &^ (ib.QPMaxDestRdAtomic | ib.QPMinRNRTimer)
	case ib.QPTypeXRCRecv:
		return mask &^ (ib.QPMaxQPRdAtomic | ib.QPRetryCnt | ib.QPRNRRetry)
	}
	return mask
}

// CheckModify checks a modification of a queue pair of the device; see the
// function of this name, and for other kinds checkIWARP and checkNTB.
func (d *Info) CheckModify(t ib.QPType, cur ib.QPState, a *ib.QPAttr, mask ib.QPAttrMask,
	limits *Limits) (ib.QPState, error) {
	switch {
	case d.Kind.IsIWARP():
		return checkIWARP(cur, a, mask, limits)
	case d.Kind == KindNTB:
		return checkNTB(cur, a, mask, limits)
	}
	return CheckModify(t, cur, a, mask, limits)
}

// CheckModify checks a modification of a RoCE queue pair of type t in state cur
// against the state table and the range of each attribute. It returns the
// state that results.
//
// Source: ibv_modify_qp(3).
func CheckModify(t ib.QPType, cur ib.QPState, a *ib.QPAttr, mask ib.QPAttrMask,
	limits *Limits) (ib.QPState, error) {
	next, err := checkTransition(t, cur, a, mask)
	if err == nil {
		err = checkRanges(a, mask, limits)
	}
	if err == nil {
		err = checkPath(a, mask, limits)
	}
	if err != nil {
		return cur, err
	}
	return next, nil
}

// checkTransition checks a change of state, and which attributes come with it.
func checkTransition(t ib.QPType, cur ib.QPState, a *ib.QPAttr,
	mask ib.QPAttrMask) (ib.QPState, error) {
	if mask&ib.QPCurState != 0 && a.CurState != cur {
		return cur, invalid("CurState", "is %v, but the queue pair is in %v", a.CurState, cur)
	}
	next := cur
	if mask&ib.QPStateAttr != 0 {
		next = a.State
	}
	tr, ok := transitionOf(cur, next)
	if !ok {
		return cur, invalid("State", "cannot go from %v to %v", cur, next)
	}
	given := mask &^ ib.QPStateAttr
	if missing := tr.required.of(t) &^ given; missing != 0 {
		return cur, invalid("mask", "%v → %v of a %v queue pair also needs %v", cur, next, t,
			maskNames(missing))
	}
	if extra := given &^ (tr.required.of(t) | tr.optional.of(t)); extra != 0 {
		return cur, invalid("mask", "%v → %v of a %v queue pair does not take %v", cur, next, t,
			maskNames(extra))
	}
	return next, nil
}

// Limits bound the attributes that a device allows.
type Limits struct {
	MaxRdAtomic uint8
	GIDs        []netip.Addr // the GID table; zero where an entry is free
	Peers       []netip.Addr // KindNTB: the addresses at the other end; none if they are not known
	PKeys       uint16
	Ports       uint8
}

// checkRanges checks the attributes that are numbers.
func checkRanges(a *ib.QPAttr, mask ib.QPAttrMask, l *Limits) error {
	switch {
	case mask&ib.QPPathMigState != 0 && a.PathMigState > ib.MigRearm:
		return invalid("PathMigState", "%d: MigRearm, or MigMigrated to change the path now",
			a.PathMigState)
	case mask&ib.QPAltPath != 0 && (a.AltPortNum == 0 || a.AltPortNum > l.Ports):
		return invalid("AltPortNum", "%d: ports count from 1 to %d", a.AltPortNum, l.Ports)
	case mask&ib.QPAltPath != 0 && a.AltPKeyIndex >= l.PKeys:
		return invalid("AltPKeyIndex", "%d: the P_Key table has %d entries", a.AltPKeyIndex,
			l.PKeys)
	case mask&ib.QPPort != 0 && (a.PortNum == 0 || a.PortNum > l.Ports):
		return invalid("PortNum", "%d: ports count from 1 to %d", a.PortNum, l.Ports)
	case mask&ib.QPPKeyIndex != 0 && a.PKeyIndex >= l.PKeys:
		return invalid("PKeyIndex", "%d: the P_Key table has %d entries", a.PKeyIndex, l.PKeys)
	case mask&ib.QPRateLimit != 0 && a.RateLimit == 0 && (a.RateBurst != 0 || a.RatePacket != 0):
		return invalid("RateLimit", "is 0, no limit, but a burst or a packet size is given")
	case mask&ib.QPPathMTU != 0 && !a.PathMTU.Valid():
		return invalid("PathMTU", "code %d is none of 256, 512, 1024, 2048, 4096", a.PathMTU)
	}
	const bits24, codes, retries = 1<<24 - 1, 31, 7
	for _, n := range [...]struct {
		bit         ib.QPAttrMask
		arg         string
		value, most uint32
	}{
		{ib.QPDestQPN, "DestQPN", uint32(a.DestQPN), bits24},
		{ib.QPRQPSN, "RQPSN", uint32(a.RQPSN), bits24},
		{ib.QPSQPSN, "SQPSN", uint32(a.SQPSN), bits24},
		{ib.QPMaxQPRdAtomic, "MaxRdAtomic", uint32(a.MaxRdAtomic), uint32(l.MaxRdAtomic)},
		{ib.QPMaxDestRdAtomic, "MaxDestRdAtomic", uint32(a.MaxDestRdAtomic), uint32(l.MaxRdAtomic)},
		{ib.QPMinRNRTimer, "MinRNRTimer", uint32(a.MinRNRTimer), codes},
		{ib.QPTimeout, "Timeout", uint32(a.Timeout), codes},
		{ib.QPAltPath, "AltTimeout", uint32(a.AltTimeout), codes},
		{ib.QPRetryCnt, "RetryCnt", uint32(a.RetryCnt), retries},
		{ib.QPRNRRetry, "RNRRetry", uint32(a.RNRRetry), retries},
	} {
		if mask&n.bit != 0 && n.value > n.most {
			return invalid(n.arg, "%d is more than %d", n.value, n.most)
		}
	}
	return nil
}

// checkPath checks the address vectors of a connected queue pair.
func checkPath(a *ib.QPAttr, mask ib.QPAttrMask, l *Limits) error {
	if mask&ib.QPAV != 0 {
		if err := checkConnected(&a.AH, l); err != nil {
			return err
		}
	}
	if mask&ib.QPAltPath != 0 {
		if err := checkConnected(&a.AltAH, l); err != nil {
			err.Arg = "Alt" + err.Arg
			return err
		}
	}
	return nil
}

func checkConnected(a *ib.AHAttr, l *Limits) *Error {
	if err := CheckAH(a, l); err != nil {
		return err.(*Error)
	}
	if a.GRH.DGID.IsMulticast() {
		return invalid("AH.GRH.DGID", "%v is a multicast address: only UD messages go there",
			a.GRH.DGID.Addr()).(*Error)
	}
	return nil
}

// CheckAH checks an address vector. Its errors are of *Error.
func CheckAH(a *ib.AHAttr, l *Limits) error {
	switch {
	case !a.IsGlobal:
		return invalid("AH.IsGlobal", "must be set: RoCE always routes by GRH")
	case a.PortNum != 0 && a.PortNum > l.Ports:
		return invalid("AH.PortNum", "%d: ports count from 1 to %d", a.PortNum, l.Ports)
	case int(a.GRH.SGIDIndex) >= len(l.GIDs):
		return invalid("AH.GRH.SGIDIndex",
			"%d: the GID table has %d entries; see `verbena devinfo -v`", a.GRH.SGIDIndex,
			len(l.GIDs))
	case !l.GIDs[a.GRH.SGIDIndex].IsValid():
		return invalid("AH.GRH.SGIDIndex",
			"%d: the GID table has no entry there; see `verbena devinfo -v`", a.GRH.SGIDIndex)
	case a.GRH.DGID.IsZero():
		return invalid("AH.GRH.DGID", "is empty: it is the peer's GID")
	case a.GRH.FlowLabel >= 1<<20:
		return invalid("AH.GRH.FlowLabel", "%#x does not fit 20 bits", a.GRH.FlowLabel)
	}
	if src, dst := l.GIDs[a.GRH.SGIDIndex], a.GRH.DGID.Addr(); src.Is4() != dst.Is4() {
		return invalid("AH.GRH.DGID", "%v and the address %v of SGIDIndex %d are not of one family",
			dst, src, a.GRH.SGIDIndex)
	}
	return nil
}

// Error is a call that cannot be done as asked: which argument, why, and the
// errno that rdma-core returns for it.
type Error struct {
	Arg string
	Why string
	Err syscall.Errno
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%v)", e.Arg, e.Why, e.Err) }

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Err }

func invalid(arg, format string, a ...any) error {
	return &Error{Arg: arg, Why: fmt.Sprintf(format, a...), Err: syscall.EINVAL}
}

var maskBits = []struct {
	bit  ib.QPAttrMask
	name string
}{
	{ib.QPCurState, "QPCurState"}, {ib.QPEnSQDAsyncNotify, "QPEnSQDAsyncNotify"},
	{ib.QPAccessFlags, "QPAccessFlags"}, {ib.QPPKeyIndex, "QPPKeyIndex"}, {ib.QPPort, "QPPort"},
	{ib.QPQKey, "QPQKey"}, {ib.QPAV, "QPAV"}, {ib.QPPathMTU, "QPPathMTU"},
	{ib.QPTimeout, "QPTimeout"}, {ib.QPRetryCnt, "QPRetryCnt"}, {ib.QPRNRRetry, "QPRNRRetry"},
	{ib.QPRQPSN, "QPRQPSN"}, {ib.QPMaxQPRdAtomic, "QPMaxQPRdAtomic"}, {ib.QPAltPath, "QPAltPath"},
	{ib.QPMinRNRTimer, "QPMinRNRTimer"}, {ib.QPSQPSN, "QPSQPSN"},
	{ib.QPMaxDestRdAtomic, "QPMaxDestRdAtomic"}, {ib.QPPathMigState, "QPPathMigState"},
	{ib.QPCapAttr, "QPCapAttr"}, {ib.QPDestQPN, "QPDestQPN"}, {ib.QPRateLimit, "QPRateLimit"},
}

func maskNames(m ib.QPAttrMask) string {
	var s []string
	for _, b := range maskBits {
		if m&b.bit != 0 {
			s = append(s, b.name)
			m &^= b.bit
		}
	}
	if m != 0 {
		s = append(s, fmt.Sprintf("unknown bits %#x", uint32(m)))
	}
	return strings.Join(s, ", ")
}
