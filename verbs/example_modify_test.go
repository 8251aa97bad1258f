// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"fmt"
	"log"

	"verbena/ib"
	"verbena/verbs"
)

// A queue pair is driven through its states by hand and connected to itself: it
// writes from one memory region into another.
func ExampleQP_Modify() {
	dev := must(verbs.Open(""))
	defer dev.Close()
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(16, nil))
	qp := must(pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq, Cap: ib.QPCap{MaxSendWR: 8, MaxSendSGE: 1}}))
	src := must(pd.RegMR([]byte("hello, RDMA"), 0))
	dst := must(pd.RegMR(make([]byte, 11), ib.AccessLocalWrite|ib.AccessRemoteWrite))

	// RESET → INIT → RTR → RTS. The peer is this queue pair itself.
	a := ib.QPAttr{State: ib.QPInit, PortNum: 1, AccessFlags: ib.AccessRemoteWrite}
	done(qp.Modify(&a, ib.QPStateAttr|ib.QPPort|ib.QPPKeyIndex|ib.QPAccessFlags))
	peer := ib.AHAttr{IsGlobal: true, PortNum: 1, GRH: ib.GRH{DGID: must(dev.QueryGID(1, 0))}}
	a = ib.QPAttr{State: ib.QPRTR, AH: peer, DestQPN: qp.QPN(), PathMTU: ib.MTU1024, MinRNRTimer: 12}
	done(qp.Modify(&a, ib.QPStateAttr|ib.QPAV|ib.QPDestQPN|ib.QPPathMTU|ib.QPRQPSN|ib.QPMaxDestRdAtomic|ib.QPMinRNRTimer))
	a = ib.QPAttr{State: ib.QPRTS, Timeout: 14, RetryCnt: 7, RNRRetry: 7}
	done(qp.Modify(&a, ib.QPStateAttr|ib.QPSQPSN|ib.QPTimeout|ib.QPRetryCnt|ib.QPRNRRetry|ib.QPMaxQPRdAtomic))

	must(qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled,
		SGList: []ib.SGE{src.SGE(0, 11)}, RemoteAddr: dst.Addr(), RKey: dst.RKey()}))
	wc := make([]ib.WC, 1)
	for must(cq.Poll(wc)) == 0 {
	}
	fmt.Printf("%v: %s\n", wc[0].Status, dst.Bytes())
	// Output: success: hello, RDMA
}

func must[T any](v T, err error) T { done(err); return v }

func done(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
