// SPDX-License-Identifier: BSD-2-Clause

package device

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"verbena/ib"
)

// lawful is the state table written down a second time, as ibv_modify_qp(3) has it, and for XRC
// ib_core: the attributes that must and that may be given. All others are refused. RESET and ERR
// need no attribute and no particular state. RateLimit is Verbena's: the man page has it for raw
// packets only.
const lawful = `
RESET INIT UD | PKeyIndex Port QKey        |
RESET INIT UC | PKeyIndex Port AccessFlags |
RESET INIT RC | PKeyIndex Port AccessFlags |
INIT  INIT UD |                            | PKeyIndex Port QKey
INIT  INIT UC |                            | PKeyIndex Port AccessFlags
INIT  INIT RC |                            | PKeyIndex Port AccessFlags
INIT  RTR  UD |                            | PKeyIndex QKey
INIT  RTR  UC | AV PathMTU DestQPN RQPSN   | AltPath AccessFlags PKeyIndex
INIT  RTR  RC | AV PathMTU DestQPN RQPSN MaxDestRdAtomic MinRNRTimer | AltPath AccessFlags PKeyIndex
RTR   RTS  UD | SQPSN                      | CurState QKey RateLimit
RTR   RTS  UC | SQPSN                      | CurState AltPath AccessFlags PathMigState RateLimit
RTR   RTS  RC | SQPSN Timeout RetryCnt RNRRetry MaxQPRdAtomic | CurState AltPath AccessFlags MinRNRTimer PathMigState RateLimit
RTS   RTS  UD |                            | CurState QKey RateLimit
RTS   RTS  UC |                            | CurState AltPath AccessFlags PathMigState RateLimit
RTS   RTS  RC |                            | CurState AltPath AccessFlags MinRNRTimer PathMigState RateLimit
RTS   SQD  UD |                            | EnSQDAsyncNotify
RTS   SQD  UC |                            | EnSQDAsyncNotify
RTS   SQD  RC |                            | EnSQDAsyncNotify
SQD   RTS  UD |                            | CurState QKey RateLimit
SQD   RTS  UC |                            | CurState AltPath AccessFlags PathMigState RateLimit
SQD   RTS  RC |                            | CurState AltPath AccessFlags MinRNRTimer PathMigState RateLimit
SQD   SQD  UD |                            | PKeyIndex QKey
SQD   SQD  UC |                            | AV AltPath AccessFlags PKeyIndex PathMigState
SQD   SQD  RC |                            | Port AV Timeout RetryCnt RNRRetry MaxQPRdAtomic MaxDestRdAtomic AltPath AccessFlags PKeyIndex MinRNRTimer PathMigState
SQE   RTS  UD |                            | CurState QKey
SQE   RTS  UC |                            | CurState AccessFlags
SQE   RTS  RC |                            |
RESET INIT RAW_PACKET | Port |
INIT  INIT RAW_PACKET |      | Port
INIT  RTR  RAW_PACKET |      |
RTR   RTS  RAW_PACKET |      | CurState RateLimit
RTS   RTS  RAW_PACKET |      | CurState RateLimit
SQD   RTS  RAW_PACKET |      | CurState RateLimit
RTS   SQD  RAW_PACKET |      |
SQD   SQD  RAW_PACKET |      |
SQE   RTS  RAW_PACKET |      |
RESET INIT XRC_SEND | PKeyIndex Port AccessFlags |
RESET INIT XRC_RECV | PKeyIndex Port AccessFlags |
INIT  INIT XRC_SEND |                            | PKeyIndex Port AccessFlags
INIT  INIT XRC_RECV |                            | PKeyIndex Port AccessFlags
INIT  RTR  XRC_SEND | AV PathMTU DestQPN RQPSN   | AltPath AccessFlags PKeyIndex
INIT  RTR  XRC_RECV | AV PathMTU DestQPN RQPSN MaxDestRdAtomic MinRNRTimer | AltPath AccessFlags PKeyIndex
RTR   RTS  XRC_SEND | SQPSN Timeout RetryCnt RNRRetry MaxQPRdAtomic | CurState AltPath AccessFlags PathMigState RateLimit
RTR   RTS  XRC_RECV | SQPSN Timeout              | CurState AltPath AccessFlags MinRNRTimer PathMigState
RTS   RTS  XRC_SEND |                            | CurState AltPath AccessFlags PathMigState RateLimit
RTS   RTS  XRC_RECV |                            | CurState AltPath AccessFlags MinRNRTimer PathMigState
RTS   SQD  XRC_SEND |                            | EnSQDAsyncNotify
RTS   SQD  XRC_RECV |                            | EnSQDAsyncNotify
SQD   RTS  XRC_SEND |                            | CurState AltPath AccessFlags PathMigState RateLimit
SQD   RTS  XRC_RECV |                            | CurState AltPath AccessFlags MinRNRTimer PathMigState
SQD   SQD  XRC_SEND |                            | Port AV Timeout RetryCnt RNRRetry MaxQPRdAtomic AltPath AccessFlags PKeyIndex PathMigState
SQD   SQD  XRC_RECV |                            | Port AV Timeout MaxDestRdAtomic AltPath AccessFlags PKeyIndex MinRNRTimer PathMigState
SQE   RTS  XRC_SEND |                            |
SQE   RTS  XRC_RECV |                            |
`

type step struct {
	from, to ib.QPState
	typ      ib.QPType
}

func readLawful(t *testing.T) map[step][2]ib.QPAttrMask {
	bits := map[string]ib.QPAttrMask{}
	for _, b := range maskBits {
		bits[strings.TrimPrefix(b.name, "QP")] = b.bit
	}
	states, types := map[string]ib.QPState{}, map[string]ib.QPType{}
	for s := ib.QPReset; s <= ib.QPErr; s++ {
		states[s.String()] = s
	}
	for _, q := range everyType {
		types[q.String()] = q
	}
	out := map[step][2]ib.QPAttrMask{}
	for line := range strings.Lines(strings.TrimSpace(lawful)) {
		col := strings.Split(line, "|")
		w := strings.Fields(col[0])
		var m [2]ib.QPAttrMask
		for i, c := range col[1:] {
			for _, name := range strings.Fields(c) {
				if bits[name] == 0 {
					t.Fatalf("%q in the table is no attribute", name)
				}
				m[i] |= bits[name]
			}
		}
		out[step{states[w[0]], states[w[1]], types[w[2]]}] = m
	}
	for _, q := range everyType {
		for s := ib.QPReset; s <= ib.QPErr; s++ {
			out[step{s, ib.QPReset, q}], out[step{s, ib.QPErr, q}] = [2]ib.QPAttrMask{}, [2]ib.QPAttrMask{}
		}
	}
	return out
}

var everyType = []ib.QPType{ib.QPTypeRC, ib.QPTypeUC, ib.QPTypeUD, ib.QPTypeXRCSend, ib.QPTypeXRCRecv, ib.QPTypeRawPacket}

var testLimits = Limits{MaxRdAtomic: 16, GIDs: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}, PKeys: 1, Ports: 1}

// goodAttr has a legal value in every attribute.
func goodAttr(cur, to ib.QPState) *ib.QPAttr {
	return &ib.QPAttr{
		State: to, CurState: cur, PathMTU: ib.MTU1024, DestQPN: 7, PortNum: 1,
		AH:    ib.AHAttr{IsGlobal: true, PortNum: 1, GRH: ib.GRH{DGID: ib.GIDFromAddr(netip.MustParseAddr("192.0.2.9"))}},
		AltAH: ib.AHAttr{IsGlobal: true, PortNum: 1, GRH: ib.GRH{DGID: ib.GIDFromAddr(netip.MustParseAddr("192.0.2.8"))}}, AltPortNum: 1,
	}
}

func wantInvalid(t *testing.T, err error, arg, mention string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, syscall.EINVAL) || e.Arg != arg || !strings.Contains(e.Why, mention) {
		t.Fatalf("got %v, want EINVAL of %s that mentions %s", err, arg, mention)
	}
}

// TestEveryTransition tries each pair of states with each attribute missing or
// added, for each service.
func TestEveryTransition(t *testing.T) {
	table := readLawful(t)
	for _, typ := range everyType {
		for from := ib.QPReset; from <= ib.QPErr; from++ {
			for to := ib.QPReset; to <= ib.QPErr; to++ {
				m, ok := table[step{from, to, typ}]
				t.Run(typ.String()+" "+from.String()+" "+to.String(), func(t *testing.T) {
					if !ok {
						_, err := CheckModify(typ, from, goodAttr(from, to), ib.QPStateAttr, &testLimits)
						wantInvalid(t, err, "State", to.String())
						return
					}
					tryAttributes(t, step{from, to, typ}, m[0], m[1])
				})
			}
		}
	}
}

func tryAttributes(t *testing.T, s step, required, optional ib.QPAttrMask) {
	try := func(mask ib.QPAttrMask) (ib.QPState, error) {
		return CheckModify(s.typ, s.from, goodAttr(s.from, s.to), mask|ib.QPStateAttr, &testLimits)
	}
	if next, err := try(required); err != nil || next != s.to {
		t.Fatalf("with what is required: %v, %v", next, err)
	}
	for _, b := range maskBits {
		switch {
		case required&b.bit != 0:
			next, err := try(required &^ b.bit)
			wantInvalid(t, err, "mask", b.name)
			if next != s.from {
				t.Errorf("refused, yet the state would be %v", next)
			}
		case optional&b.bit != 0:
			if _, err := try(required | b.bit); err != nil {
				t.Errorf("with %s: %v", b.name, err)
			}
		default:
			_, err := try(required | b.bit)
			wantInvalid(t, err, "mask", b.name)
		}
	}
	_, err := try(required | 1<<30)
	wantInvalid(t, err, "mask", "0x40000000")
}

// TestModifyWithoutState changes attributes in place where the table has the
// state twice.
func TestModifyWithoutState(t *testing.T) {
	if next, err := CheckModify(ib.QPTypeRC, ib.QPRTS, &ib.QPAttr{MinRNRTimer: 3}, ib.QPMinRNRTimer, &testLimits); err != nil || next != ib.QPRTS {
		t.Errorf("in RTS: %v, %v", next, err)
	}
	_, err := CheckModify(ib.QPTypeRC, ib.QPRTR, &ib.QPAttr{}, ib.QPAccessFlags, &testLimits)
	wantInvalid(t, err, "State", "RTR")
}

func TestCurrentStateMustBeRight(t *testing.T) {
	a := goodAttr(ib.QPSQD, ib.QPRTS)
	_, err := CheckModify(ib.QPTypeRC, ib.QPRTS, a, ib.QPStateAttr|ib.QPCurState, &testLimits)
	wantInvalid(t, err, "CurState", "SQD")
	a.State = 99
	_, err = CheckModify(ib.QPTypeRC, ib.QPRTS, a, ib.QPStateAttr, &testLimits)
	wantInvalid(t, err, "State", "unknown")
}

// TestAttributeRanges has one value just outside for each attribute, and the
// last one inside.
func TestAttributeRanges(t *testing.T) {
	const most = ib.QPAV | ib.QPPathMTU | ib.QPDestQPN | ib.QPRQPSN | ib.QPMaxDestRdAtomic | ib.QPMinRNRTimer | ib.QPPKeyIndex | ib.QPAccessFlags
	const rts = ib.QPSQPSN | ib.QPTimeout | ib.QPRetryCnt | ib.QPRNRRetry | ib.QPMaxQPRdAtomic
	const first = ib.QPPKeyIndex | ib.QPPort | ib.QPAccessFlags
	for _, c := range []struct {
		from, to ib.QPState
		mask     ib.QPAttrMask
		arg      string
		good     func(*ib.QPAttr)
		bad      func(*ib.QPAttr)
	}{
		{ib.QPReset, ib.QPInit, first, "PortNum", func(a *ib.QPAttr) { a.PortNum = 1 }, func(a *ib.QPAttr) { a.PortNum = 0 }},
		{ib.QPReset, ib.QPInit, first, "PortNum", func(a *ib.QPAttr) { a.PortNum = 1 }, func(a *ib.QPAttr) { a.PortNum = 2 }},
		{ib.QPReset, ib.QPInit, first, "PKeyIndex", func(a *ib.QPAttr) { a.PKeyIndex = 0 }, func(a *ib.QPAttr) { a.PKeyIndex = 1 }},
		{ib.QPInit, ib.QPRTR, most, "PathMTU", func(a *ib.QPAttr) { a.PathMTU = ib.MTU256 }, func(a *ib.QPAttr) { a.PathMTU = 0 }},
		{ib.QPInit, ib.QPRTR, most, "PathMTU", func(a *ib.QPAttr) { a.PathMTU = ib.MTU4096 }, func(a *ib.QPAttr) { a.PathMTU = 6 }},
		{ib.QPInit, ib.QPRTR, most, "DestQPN", func(a *ib.QPAttr) { a.DestQPN = 1<<24 - 1 }, func(a *ib.QPAttr) { a.DestQPN = 1 << 24 }},
		{ib.QPInit, ib.QPRTR, most, "RQPSN", func(a *ib.QPAttr) { a.RQPSN = 1<<24 - 1 }, func(a *ib.QPAttr) { a.RQPSN = 1 << 24 }},
		{ib.QPInit, ib.QPRTR, most, "MaxDestRdAtomic", func(a *ib.QPAttr) { a.MaxDestRdAtomic = 16 }, func(a *ib.QPAttr) { a.MaxDestRdAtomic = 17 }},
		{ib.QPInit, ib.QPRTR, most, "MinRNRTimer", func(a *ib.QPAttr) { a.MinRNRTimer = 31 }, func(a *ib.QPAttr) { a.MinRNRTimer = 32 }},
		{ib.QPRTR, ib.QPRTS, rts, "SQPSN", func(a *ib.QPAttr) { a.SQPSN = 1<<24 - 1 }, func(a *ib.QPAttr) { a.SQPSN = 1 << 24 }},
		{ib.QPRTR, ib.QPRTS, rts, "Timeout", func(a *ib.QPAttr) { a.Timeout = 31 }, func(a *ib.QPAttr) { a.Timeout = 32 }},
		{ib.QPRTR, ib.QPRTS, rts, "RetryCnt", func(a *ib.QPAttr) { a.RetryCnt = 7 }, func(a *ib.QPAttr) { a.RetryCnt = 8 }},
		{ib.QPRTR, ib.QPRTS, rts, "RNRRetry", func(a *ib.QPAttr) { a.RNRRetry = 7 }, func(a *ib.QPAttr) { a.RNRRetry = 8 }},
		{ib.QPRTR, ib.QPRTS, rts, "MaxRdAtomic", func(a *ib.QPAttr) { a.MaxRdAtomic = 16 }, func(a *ib.QPAttr) { a.MaxRdAtomic = 17 }},
	} {
		a := goodAttr(c.from, c.to)
		c.good(a)
		if _, err := CheckModify(ib.QPTypeRC, c.from, a, c.mask|ib.QPStateAttr, &testLimits); err != nil {
			t.Errorf("%s inside its range: %v", c.arg, err)
		}
		c.bad(a)
		_, err := CheckModify(ib.QPTypeRC, c.from, a, c.mask|ib.QPStateAttr, &testLimits)
		wantInvalid(t, err, c.arg, "")
	}
}

func TestAddressVector(t *testing.T) {
	for _, c := range []struct {
		arg string
		bad func(*ib.AHAttr)
	}{
		{"AH.IsGlobal", func(a *ib.AHAttr) { a.IsGlobal = false }},
		{"AH.PortNum", func(a *ib.AHAttr) { a.PortNum = 2 }},
		{"AH.GRH.SGIDIndex", func(a *ib.AHAttr) { a.GRH.SGIDIndex = 2 }},
		{"AH.GRH.DGID", func(a *ib.AHAttr) { a.GRH.DGID = ib.GID{} }},
		{"AH.GRH.DGID", func(a *ib.AHAttr) { a.GRH.SGIDIndex = 1 }}, // IPv6 to IPv4
		{"AH.GRH.FlowLabel", func(a *ib.AHAttr) { a.GRH.FlowLabel = 1 << 20 }},
	} {
		a := goodAttr(0, 0).AH
		if err := CheckAH(&a, &testLimits); err != nil {
			t.Fatal(err)
		}
		c.bad(&a)
		wantInvalid(t, CheckAH(&a, &testLimits), c.arg, "")
	}
	group := goodAttr(ib.QPInit, ib.QPRTR)
	group.AH.GRH.DGID = ib.GIDFromAddr(netip.MustParseAddr("239.1.2.3"))
	if err := CheckAH(&group.AH, &testLimits); err != nil {
		t.Errorf("UD messages may go to a group: %v", err)
	}
	_, err := CheckModify(ib.QPTypeUC, ib.QPInit, group, ib.QPStateAttr|ib.QPAV|ib.QPPathMTU|ib.QPDestQPN|ib.QPRQPSN, &testLimits)
	wantInvalid(t, err, "AH.GRH.DGID", "multicast")
}
