// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"bytes"
	"fmt"
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/queue"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/simnet"
)

// longEnd is one end of a long transfer.
type longEnd struct {
	qp  *rc.QP
	sq  *queue.SendQueue
	cq  *queue.CQ
	buf []byte
	mr  *mem.Region
}

const longBytes = 4 << 20

func newLongEnds(t *testing.T, w *world, mtu ib.MTU) (ends [2]*longEnd) {
	for i := range ends {
		n := w.newNode()
		e := &longEnd{sq: queue.NewSendQueue(64, 1, 0), cq: queue.NewCQ(64), buf: make([]byte, longBytes)}
		w.fill(e.buf)
		var err error
		if e.mr, err = n.mem.Register(domain, e.buf, virtual, targetAccess); err != nil {
			t.Fatal(err)
		}
		e.qp = rc.New(roce.Config{
			QPN: ib.QPN(0x11 + i), PD: domain, Mem: n.mem, SQ: e.sq, RQ: queue.NewRecvQueue(1, 1), SendCQ: e.cq, RecvCQ: e.cq,
		})
		n.qps[ib.QPN(0x11+i)] = &endpoint{world: w, node: n, machine: e.qp, scq: e.cq, rcq: e.cq, timerAt: monotime.Never}
		ends[i] = e
	}
	for i, e := range ends {
		path := roce.NewPath(w.nodes[i].addr, 0xc000, &ib.GRH{DGID: ib.GIDFromAddr(w.nodes[1-i].addr)})
		for _, s := range []ib.QPState{ib.QPInit, ib.QPRTR, ib.QPRTS} {
			mask := ib.QPStateAttr
			if s == ib.QPRTR {
				mask = ^ib.QPEnSQDAsyncNotify
			}
			e.qp.Modify(0, &ib.QPAttr{
				State: s, PathMTU: mtu, DestQPN: ib.QPN(0x12 - i), AccessFlags: targetAccess, RQPSN: 1<<24 - 1000, SQPSN: 1<<24 - 1000,
				MaxRdAtomic: 4, MaxDestRdAtomic: 4, Timeout: 14, RetryCnt: 7, RNRRetry: 7,
			}, mask, path)
		}
	}
	return ends
}

// TestLongTransfers writes and reads 4 MiB over a network that loses: the
// bytes arrive, and the time it takes is bounded. All packets of the WRITEs of
// 64 KiB have a RETH.
func TestLongTransfers(t *testing.T) {
	for name, c := range map[string]struct {
		faults simnet.Faults
		within monotime.Duration
	}{
		"no faults": {simnet.Faults{}, monotime.Second},
		"loss 1 %":  {simnet.Faults{Loss: 10}, 2 * monotime.Second},
		"loss 5 %":  {simnet.Faults{Loss: 50}, 10 * monotime.Second},
		"reordered": {simnet.Faults{Reorder: 20, Jitter: 300 * monotime.Microsecond}, 10 * monotime.Second},
		"repeated":  {simnet.Faults{Duplicate: 100, Jitter: 300 * monotime.Microsecond}, 10 * monotime.Second},
	} {
		for _, d := range []struct {
			op      ib.WROpcode
			message int
			mtu     ib.MTU
		}{
			{ib.WRRDMAWrite, longBytes, ib.MTU1024}, {ib.WRRDMARead, longBytes, ib.MTU1024},
			{ib.WRRDMAWrite, 64 << 10, ib.MTU4096},
		} {
			t.Run(fmt.Sprintf("%s %v of %d", name, d.op, d.message), func(t *testing.T) {
				w := &world{net: simnet.New(1), burst: roce.NewBurst()}
				c.faults.Delay = 20 * monotime.Microsecond
				w.net.Faults = c.faults
				w.burst.Limit(roce.MaxSegments)
				ends := newLongEnds(t, w, d.mtu)
				a, b := ends[0], ends[1]
				for at := uint64(virtual); at < virtual+longBytes; at += uint64(d.message) {
					s, _ := a.sq.Reserve()
					s.Opcode, s.Flags, s.Length, s.RemoteAddr, s.RKey = d.op, ib.SendSignaled, uint32(d.message), at, b.mr.RKey()
					s.SGE = append(s.SGE, ib.SGE{Addr: at, Length: uint32(d.message), LKey: a.mr.LKey()})
					a.sq.Commit()
				}
				e := w.nodes[0].qps[0x11]
				e.state, w.nodes[1].qps[0x12].state = ib.QPRTS, ib.QPRTS
				e.pump()
				wc := make([]ib.WC, longBytes/d.message)
				for a.cq.Len() < len(wc) && w.net.Step(monotime.Time(c.within)) {
				}
				if n := a.cq.Poll(wc); n != len(wc) {
					t.Fatalf("%d done within %v: %+v, counters %v", n, c.within, w.net.Count, a.qp.Counters())
				}
				for i := range wc {
					if wc[i].Status != ib.WCSuccess {
						t.Fatalf("%d: %v", i, wc[i].Status)
					}
				}
				if !bytes.Equal(a.buf, b.buf) {
					t.Fatal("other bytes")
				}
				t.Logf("%v of virtual time, %d packets for %d", monotime.Duration(w.net.Now()), w.net.Count.Sent, longBytes/d.mtu.Bytes())
			})
		}
	}
}
