// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"testing"

	"verbena/ib"
	"verbena/internal/testkit/netns"
	"verbena/verbs"
)

// TestPathMTUAboveThePorts: a path MTU is taken up to the port's largest, as the kernel takes it.
// By UDP a datagram that does not fit the interface's frames is lost and counted.
func TestPathMTUAboveThePorts(t *testing.T) {
	n := netns.New(t)
	if n == nil {
		return
	}
	lo := n.Link("lo")
	check(t, n.LinkSetMTU(lo, 1500))
	n.Up("lo")
	first, err := verbs.Open("roce_lo", verbs.WithoutLocalPath())
	check(t, err)
	defer first.Close()
	a, b := newEndOn(t, "roce_lo", ib.QPTypeRC, 1<<16), newEndOn(t, "roce_lo", ib.QPTypeRC, 1<<16)
	if p, err := a.ctx.QueryPort(1); err != nil || p.ActiveMTU != ib.MTU1024 || p.MaxMTU != ib.MTU4096 {
		t.Fatalf("active MTU %v of %v, %v", p.ActiveMTU, p.MaxMTU, err)
	}
	connect(t, a, b, ib.MTU4096, func(q *ib.QPAttr) { q.Timeout, q.RetryCnt = 8, 1 })
	write := func(n int) ib.WC {
		return a.post(verbs.SendWR{Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{a.mr.SGE(0, n)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	}
	wantStatus(t, write(1400).Status, ib.WCSuccess)
	was := a.counter("over_mtu")
	wantStatus(t, write(4000).Status, ib.WCRetryExcErr)
	if a.counter("over_mtu") == was {
		t.Error("no packet was counted as longer than the MTU")
	}
}
