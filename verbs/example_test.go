// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"context"
	"fmt"
	"os"

	"verbena/ib"
	"verbena/verbs"
)

// openLoopback opens the device of the loopback interface.
func openLoopback() *verbs.Context {
	for _, d := range must(verbs.Devices()) {
		if d.NetDev == "lo" || d.NetDev == "lo0" {
			return must(verbs.Open(d.Name))
		}
	}
	panic("no loopback interface")
}

// selfConnected takes a reliable queue pair to RTS with itself as its peer.
func selfConnected(dev *verbs.Context, qp *verbs.QP) {
	a := ib.QPAttr{State: ib.QPInit, PortNum: 1, AccessFlags: ib.AccessRemoteWrite | ib.AccessRemoteRead | ib.AccessRemoteAtomic}
	done(qp.Modify(&a, ib.QPStateAttr|ib.QPPort|ib.QPPKeyIndex|ib.QPAccessFlags))
	peer := ib.AHAttr{IsGlobal: true, PortNum: 1, GRH: ib.GRH{DGID: must(dev.QueryGID(1, 0))}}
	a = ib.QPAttr{State: ib.QPRTR, AH: peer, DestQPN: qp.QPN(), PathMTU: ib.MTU1024, MinRNRTimer: 12, MaxDestRdAtomic: 1}
	done(qp.Modify(&a, ib.QPStateAttr|ib.QPAV|ib.QPDestQPN|ib.QPPathMTU|ib.QPRQPSN|ib.QPMaxDestRdAtomic|ib.QPMinRNRTimer))
	a = ib.QPAttr{State: ib.QPRTS, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 1}
	done(qp.Modify(&a, ib.QPStateAttr|ib.QPSQPSN|ib.QPTimeout|ib.QPRetryCnt|ib.QPRNRRetry|ib.QPMaxQPRdAtomic))
}

// one polls for the next completion, which must be a success.
func one(cq *verbs.CQ) ib.WC {
	var wc [1]ib.WC
	for must(cq.Poll(wc[:])) == 0 {
	}
	done(wc[0].Err())
	return wc[0]
}

var small = ib.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: 64}

func ExampleContext() {
	dev := openLoopback()
	defer dev.Close()
	port := must(dev.QueryPort(1))
	gids := must(dev.GIDTable(1))
	fmt.Println(port.State, port.ActiveMTU, gids[0].Type, gids[0].GID.Addr().IsLoopback())
	// Output: PORT_ACTIVE 4096 RoCE v2 true
}

func ExamplePD() {
	dev := openLoopback()
	defer dev.Close()
	pd := must(dev.AllocPD())
	mr := must(pd.RegMR(make([]byte, 4096), ib.AccessLocalWrite))
	fmt.Println("with a region in it:", pd.Dealloc() != nil)
	done(mr.Dereg())
	fmt.Println("empty:", pd.Dealloc())
	// Output:
	// with a region in it: true
	// empty: <nil>
}

func ExampleQP() {
	dev := openLoopback()
	defer dev.Close()
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(16, nil))
	qp := must(pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq, Cap: small}))
	fmt.Println(qp.Type(), qp.State())
	selfConnected(dev, qp)
	fmt.Println(qp.Type(), qp.State())

	buf := must(pd.RegMR(make([]byte, 64), ib.AccessLocalWrite))
	must(qp.PostRecv(verbs.RecvWR{ID: 1, SGList: []ib.SGE{buf.SGE(0, 64)}}))
	must(qp.PostSend(verbs.SendWR{ID: 2, Opcode: ib.WRSendWithImm, ImmData: 7, Flags: ib.SendInline, Inline: []byte("to myself")}))
	wc := one(cq)
	fmt.Printf("%v %d: %q, immediate %d\n", wc.Opcode, wc.WRID, buf.Bytes()[:wc.ByteLen], wc.ImmData)
	// Output:
	// RC RESET
	// RC RTS
	// RECV 1: "to myself", immediate 7
}

// A READ fetches memory that the peer registered, at the address and with the key that the peer
// sent.
func ExampleMR() {
	dev := openLoopback()
	defer dev.Close()
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(16, nil))
	qp := must(pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq, Cap: small}))
	selfConnected(dev, qp)

	remote := must(pd.RegMR([]byte("far away"), ib.AccessRemoteRead))
	local := must(pd.RegMR(make([]byte, 8), ib.AccessLocalWrite))
	must(qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMARead, Flags: ib.SendSignaled,
		SGList: []ib.SGE{local.SGE(0, 8)}, RemoteAddr: remote.Addr(), RKey: remote.RKey()}))
	wc := one(cq)
	fmt.Printf("%v of %d bytes: %s\n", wc.Opcode, wc.ByteLen, local.Bytes())
	// Output: RDMA_READ of 8 bytes: far away
}

// Fast registration puts scattered memory under one key by a work request, and
// takes it back by another.
func ExampleMR_Map() {
	dev := openLoopback()
	defer dev.Close()
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(16, nil))
	qp := must(pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq, Cap: small}))
	selfConnected(dev, qp)

	first, second := make([]byte, 6), make([]byte, 6)
	mr := must(pd.AllocMR(2))
	fmt.Println("segments:", must(mr.Map([][]byte{first, second}, 0)))
	key := mr.RKey().Next() // the low byte is free to choose
	must(qp.PostSend(
		verbs.SendWR{Opcode: ib.WRRegMR, Reg: &verbs.RegWR{MR: mr, Key: key, Access: ib.AccessLocalWrite | ib.AccessRemoteWrite}},
		verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: ib.SendInline, Inline: []byte("twelve bytes"), RKey: key},
		verbs.SendWR{Opcode: ib.WRLocalInv, Flags: ib.SendSignaled, InvalidateRKey: key}))
	fmt.Println(one(cq).Opcode)
	fmt.Printf("%q %q\n", first, second)
	// Output:
	// segments: 2
	// LOCAL_INV
	// "twelve" " bytes"
}

// A window grants a part of a region for as long as it is bound.
func ExampleMW() {
	dev := openLoopback()
	defer dev.Close()
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(16, nil))
	qp := must(pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq, Cap: small}))
	selfConnected(dev, qp)

	mr := must(pd.RegMR(make([]byte, 16), ib.AccessLocalWrite|ib.AccessMWBind))
	mw := must(pd.AllocMW(ib.MWType1))
	done(qp.BindMW(mw, verbs.BindWR{Flags: ib.SendSignaled, MR: mr, Addr: mr.Addr() + 4, Length: 4, Access: ib.AccessRemoteWrite}))
	fmt.Println(one(cq).Opcode)
	must(qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled | ib.SendInline, Inline: []byte("four"),
		RemoteAddr: mr.Addr() + 4, RKey: mw.RKey()}))
	fmt.Println(one(cq).Opcode)
	fmt.Printf("%q\n", mr.Bytes()[2:10])
	fmt.Println("while it is bound:", mr.Dereg() != nil)
	done(mw.Dealloc())
	fmt.Println("afterwards:", mr.Dereg())
	// Output:
	// BIND_MW
	// RDMA_WRITE
	// "\x00\x00four\x00\x00"
	// while it is bound: true
	// afterwards: <nil>
}

// Poll takes completions in batches, in the order of each queue.
func ExampleCQ() {
	dev := openLoopback()
	defer dev.Close()
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(16, nil))
	qp := must(pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq, Cap: small}))
	selfConnected(dev, qp)
	for id := range uint64(3) {
		must(qp.PostSend(verbs.SendWR{ID: id, Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled}))
	}
	wc := make([]ib.WC, 8)
	for done := 0; done < 3; {
		n := must(cq.Poll(wc))
		for _, c := range wc[:n] {
			fmt.Println(c.WRID, c.Opcode, c.Status)
		}
		done += n
	}
	// Output:
	// 0 RDMA_WRITE success
	// 1 RDMA_WRITE success
	// 2 RDMA_WRITE success
}

// Waiting instead of polling: arm, look once more, wait.
func ExampleCompChannel() {
	dev := openLoopback()
	defer dev.Close()
	ch := must(dev.CreateCompChannel())
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(16, ch))
	qp := must(pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq, Cap: small}))
	selfConnected(dev, qp)

	done(cq.RequestNotify(false))
	must(qp.PostSend(verbs.SendWR{ID: 5, Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled}))
	ready := must(ch.Wait(context.Background()))
	done(ready.RequestNotify(false)) // before it is emptied, so that nothing is missed
	fmt.Println(one(ready).WRID)
	// Output: 5
}

// A shared receive queue feeds any number of queue pairs and tells when it runs
// low.
func ExampleSRQ() {
	dev := openLoopback()
	defer dev.Close()
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(16, nil))
	srq := must(pd.CreateSRQ(ib.SRQAttr{MaxWR: 8, MaxSGE: 1}))
	buf := must(pd.RegMR(make([]byte, 64), ib.AccessLocalWrite))
	for id := range uint64(2) {
		must(srq.PostRecv(verbs.RecvWR{ID: id, SGList: []ib.SGE{buf.SGE(int(id)*32, 32)}}))
	}
	done(srq.Modify(ib.SRQAttr{SRQLimit: 1}, ib.SRQLimit))
	for range 2 {
		qp := must(pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq, SRQ: srq, Cap: small}))
		selfConnected(dev, qp)
		must(qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendInline, Inline: []byte("hello")}))
		wc := one(cq)
		fmt.Printf("receive %d: %s\n", wc.WRID, buf.Bytes()[wc.WRID*32:][:wc.ByteLen])
	}
	for {
		if e := must(dev.AsyncEvent(context.Background())); e.SRQ == srq {
			fmt.Println(e.Type)
			break
		}
	}
	// Output:
	// receive 0: hello
	// receive 1: hello
	// SRQ limit reached
}

// A message finds the receive that was posted for its tag. The queue pair is connected to itself.
func ExampleSRQ_PostOps() {
	dev := openLoopback()
	defer dev.Close()
	pd, sent, matched := must(dev.AllocPD()), must(dev.CreateCQ(16, nil)), must(dev.CreateCQ(16, nil))
	srq := must(pd.CreateTagSRQ(ib.SRQAttr{MaxWR: 8, MaxSGE: 1}, ib.TMAttr{MaxNumTags: 8, MaxOps: 8}, matched))
	qp := must(pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SRQ: srq, SendCQ: sent, RecvCQ: matched, Cap: ib.QPCap{MaxSendWR: 8, MaxInlineData: 64}}))
	selfConnected(dev, qp)
	mr := must(pd.RegMR(make([]byte, 128), ib.AccessLocalWrite))
	must(srq.PostOps(
		ib.TagWR{Opcode: ib.TagAdd, RecvID: 1, Tag: 1, Mask: 0xff, SGList: []ib.SGE{mr.SGE(0, 64)}},
		ib.TagWR{Opcode: ib.TagAdd, RecvID: 2, Tag: 2, Mask: 0xff, SGList: []ib.SGE{mr.SGE(64, 64)}},
	))
	header := ib.TMH{Op: ib.TMEager, AppCtx: 7, Tag: 2}
	must(qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendInline, Inline: append(header.Append(nil), "hello"...)}))
	wc := one(matched)
	fmt.Printf("receive %d, tag %d from %d: %s\n", wc.WRID, wc.TMInfo().Tag, wc.TMInfo().Priv, mr.Bytes()[64:64+wc.ByteLen])
	// Output: receive 2, tag 2 from 7: hello
}

// A datagram is sent to an address handle, a queue pair number and its Q_Key,
// and arrives behind 40 bytes of network header.
func ExampleAH() {
	dev := openLoopback()
	defer dev.Close()
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(16, nil))
	qp := must(pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeUD, SendCQ: cq, RecvCQ: cq, Cap: small}))
	const key = 0x11111111
	done(qp.Modify(&ib.QPAttr{State: ib.QPInit, PortNum: 1, QKey: key}, ib.QPStateAttr|ib.QPPort|ib.QPPKeyIndex|ib.QPQKey))
	done(qp.Modify(&ib.QPAttr{State: ib.QPRTR}, ib.QPStateAttr))
	done(qp.Modify(&ib.QPAttr{State: ib.QPRTS}, ib.QPStateAttr|ib.QPSQPSN))

	buf := must(pd.RegMR(make([]byte, 40+64), ib.AccessLocalWrite))
	must(qp.PostRecv(verbs.RecvWR{SGList: []ib.SGE{buf.SGE(0, 40+64)}}))
	ah := must(pd.CreateAH(&ib.AHAttr{IsGlobal: true, PortNum: 1, GRH: ib.GRH{DGID: must(dev.QueryGID(1, 0))}}))
	must(qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendInline, Inline: []byte("datagram"), AH: ah, RemoteQPN: qp.QPN(), RemoteQKey: key}))
	wc := one(cq)
	fmt.Printf("%d bytes, from itself: %v, %q\n", wc.ByteLen, wc.SrcQP == qp.QPN(), buf.Bytes()[40:wc.ByteLen])

	answer := must(pd.CreateAHFromWC(&wc, buf.Bytes(), 1))
	done(answer.Destroy())
	// Output: 48 bytes, from itself: true, "datagram"
}

func ExampleContext_AsyncEvent() {
	dev := openLoopback()
	defer dev.Close()
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(16, nil))
	qp := must(pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: cq, RecvCQ: cq, Cap: small}))
	selfConnected(dev, qp)
	done(qp.Modify(&ib.QPAttr{State: ib.QPSQD, EnSQDAsyncNotify: true}, ib.QPStateAttr|ib.QPEnSQDAsyncNotify))
	e := must(dev.AsyncEvent(context.Background()))
	fmt.Println(e.Type, e.QP == qp)
	// Output: send queue drained true
}

// One connection to a target serves all shared receive queues of its domain.
func ExampleXRCD() {
	dev := openLoopback()
	defer dev.Close()
	pd := must(dev.AllocPD())
	domain := must(dev.OpenXRCD(nil, os.O_CREATE))
	target := must(domain.CreateQP(nil))
	sent := must(dev.CreateCQ(4, nil))
	initiator := must(pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeXRCSend, SendCQ: sent, Cap: small}))

	first := ib.QPAttr{State: ib.QPInit, PortNum: 1}
	there := ib.AHAttr{IsGlobal: true, PortNum: 1, GRH: ib.GRH{DGID: must(dev.QueryGID(1, 0))}}
	route := ib.QPStateAttr | ib.QPAV | ib.QPDestQPN | ib.QPPathMTU | ib.QPRQPSN
	for _, qp := range []*verbs.QP{target, initiator} {
		done(qp.Modify(&first, ib.QPStateAttr|ib.QPPort|ib.QPPKeyIndex|ib.QPAccessFlags))
	}
	a := ib.QPAttr{State: ib.QPRTR, AH: there, DestQPN: initiator.QPN(), PathMTU: ib.MTU1024, MinRNRTimer: 12}
	done(target.Modify(&a, route|ib.QPMaxDestRdAtomic|ib.QPMinRNRTimer))
	a = ib.QPAttr{State: ib.QPRTR, AH: there, DestQPN: target.QPN(), PathMTU: ib.MTU1024}
	done(initiator.Modify(&a, route))
	a = ib.QPAttr{State: ib.QPRTS, Timeout: 14, RetryCnt: 7, RNRRetry: 7}
	done(initiator.Modify(&a, ib.QPStateAttr|ib.QPSQPSN|ib.QPTimeout|ib.QPRetryCnt|ib.QPRNRRetry|ib.QPMaxQPRdAtomic))

	for _, name := range []string{"first", "second"} {
		received := must(dev.CreateCQ(4, nil))
		srq := must(pd.CreateXRCSRQ(ib.SRQAttr{MaxWR: 4, MaxSGE: 1}, domain, received))
		must(srq.PostRecv(verbs.RecvWR{}))
		must(initiator.PostSend(verbs.SendWR{Opcode: ib.WRSendWithImm, Flags: ib.SendSignaled, ImmData: 7, RemoteSRQN: srq.Num()}))
		one(sent)
		wc := one(received)
		fmt.Println(name, wc.Opcode, wc.ImmData, wc.QPN == target.QPN())
	}
	// Output:
	// first RECV 7 true
	// second RECV 7 true
}
