// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/verbs"
)

// The time of a completion is between posting and polling, by both clocks.
func TestCompletionTimes(t *testing.T) {
	var timed *verbs.CQ
	a := newEnd(t, ib.QPTypeRC, 64)
	timed, err := a.ctx.CreateTimedCQ(4, nil)
	check(t, err)
	a.qp, err = a.pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: timed, RecvCQ: a.cq, Cap: ib.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
	check(t, err)
	b := newEnd(t, ib.QPTypeRC, 64)
	connect(t, a, b, ib.MTU1024)
	wc, times := make([]ib.WC, 1), make([]ib.WCTime, 1)
	_, err = timed.PollTimed(make([]ib.WC, 2), times)
	wantError(t, err, syscall.EINVAL, "times")
	for i := range 50 {
		before := a.ctx.Clock()
		_, err := a.qp.PostSend(verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		check(t, err)
		for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
			n, err := timed.PollTimed(wc, times)
			check(t, err)
			if n == 1 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("no completion after 10 s")
			}
		}
		wantStatus(t, wc[0].Status, ib.WCSuccess)
		after := a.ctx.Clock()
		if at := times[0]; at.Device < before.Device || at.Device > after.Device || at.Wallclock < before.Wallclock || at.Wallclock > after.Wallclock {
			t.Fatalf("request %d completed at %v, between %v and %v", i, at, before, after)
		}
	}
}
