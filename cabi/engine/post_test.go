// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"unsafe"

	"verbena/cabi/layout"
	"verbena/ib"
	"verbena/internal/core"
	"verbena/internal/device"
)

// looped returns a queue pair on the loopback device, connected to itself, and a region.
func looped(t testing.TB) (*qpObject, *core.CQ, *core.MR) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	devices, err := device.ParseSelection("").List()
	must(err)
	local := netip.MustParseAddr("127.0.0.1")
	gid, name := -1, ""
	for _, d := range devices {
		addrs, err := d.Addrs()
		must(err)
		if i := slices.Index(addrs, local); i >= 0 {
			gid, name = i, d.Name
		}
	}
	if gid < 0 {
		t.Fatal("no device has 127.0.0.1")
	}
	c, err := core.Open(name, nil)
	must(err)
	t.Cleanup(func() { c.Close() })
	pd, err := c.AllocPD()
	must(err)
	cq, err := c.CreateCQ(1024, nil)
	must(err)
	qp, err := pd.CreateQP(&core.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq,
		Cap: ib.QPCap{MaxSendWR: 256, MaxRecvWR: 256, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 256}})
	must(err)
	must(qp.Modify(&ib.QPAttr{State: ib.QPInit, PortNum: 1, AccessFlags: ib.AccessRemoteWrite}, ib.QPStateAttr|ib.QPPort|ib.QPPKeyIndex|ib.QPAccessFlags))
	must(qp.Modify(&ib.QPAttr{State: ib.QPRTR, PathMTU: ib.MTU1024, DestQPN: qp.QPN(), MaxDestRdAtomic: 1, MinRNRTimer: 1,
		AH: ib.AHAttr{IsGlobal: true, PortNum: 1, GRH: ib.GRH{DGID: ib.GIDFromAddr(local), SGIDIndex: uint8(gid)}}},
		ib.QPStateAttr|ib.QPAV|ib.QPPathMTU|ib.QPDestQPN|ib.QPRQPSN|ib.QPMaxDestRdAtomic|ib.QPMinRNRTimer))
	must(qp.Modify(&ib.QPAttr{State: ib.QPRTS, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 1},
		ib.QPStateAttr|ib.QPSQPSN|ib.QPTimeout|ib.QPRetryCnt|ib.QPRNRRetry|ib.QPMaxQPRdAtomic))
	mr, err := pd.RegMR(make([]byte, 4096), ib.AccessLocalWrite|ib.AccessRemoteWrite)
	must(err)
	return &qpObject{verbs: qp}, cq, mr
}

// Neither posting from memory of C, inline or not, nor receiving allocates.
func TestPostAllocatesNothing(t *testing.T) {
	o, cq, mr := looped(t)
	target := mr.SGE(0, 64)
	source := []ib.SGE{mr.SGE(2048, 64), {Addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mr.Bytes()[2048:])))), Length: 64}}
	inline := sendWR{SGList: &source[1], NumSGE: 1, Opcode: uint32(ib.WRSendWithImm), Flags: uint32(ib.SendInline)}
	binary.BigEndian.PutUint32(inline.Imm[:], 5)
	list := sendWR{Next: (*layout.SendWR)(&inline), SGList: &source[0], NumSGE: 1, Opcode: uint32(ib.WRSend), Flags: uint32(ib.SendSignaled)}
	recvs := []core.RecvWR{{SGList: []ib.SGE{target}}, {SGList: []ib.SGE{target}}}
	wcs := make([]ib.WC, 4)
	round := func() {
		if _, err := o.verbs.PostRecv(recvs); err != nil {
			t.Fatal(err)
		}
		if _, err := o.postSend(&list); err != nil {
			t.Fatal(err)
		}
		for n := 0; n < 3; {
			k, err := cq.Poll(wcs)
			if err != nil {
				t.Fatal(err)
			}
			for i := range k {
				if wcs[i].Status != ib.WCSuccess {
					t.Fatal(wcs[i].Err())
				}
			}
			n += k
		}
	}
	round()
	if n := testing.AllocsPerRun(200, round); n >= 1 { // calls of the engine's goroutine count, too
		t.Errorf("%v allocations", n)
	}
}
