// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"runtime"
	"testing"

	"verbena/ib"
	"verbena/verbs"
)

// TestNoAllocations posts, carries, answers and polls each operation over the
// loopback interface without allocating.
func TestNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates: run without -race")
	}
	onBothPaths(t, noAllocations)
}

func noAllocations(t *testing.T) {
	a, b := newEnd(t, ib.QPTypeRC, 64<<10), newEnd(t, ib.QPTypeRC, 64<<10)
	connect(t, a, b, ib.MTU1024)
	u, v := datagrams(t, 4096), datagrams(t, 4096)
	_, gid := u.gidOf("127.0.0.1")
	local, remote := []ib.SGE{a.mr.SGE(0, 8)}, b.mr.Addr()
	recvB, recvV := []verbs.RecvWR{{SGList: []ib.SGE{b.mr.SGE(0, 64<<10)}}}, []verbs.RecvWR{{SGList: []ib.SGE{v.mr.SGE(0, 4096)}}}
	for _, c := range []struct {
		name     string
		from, to *end
		recv     []verbs.RecvWR
		wr       verbs.SendWR
	}{
		{"WRITE of 8", a, b, nil, verbs.SendWR{Opcode: ib.WRRDMAWrite, SGList: local, RemoteAddr: remote, RKey: b.mr.RKey()}},
		{"WRITE of 64 KiB", a, b, nil, verbs.SendWR{Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{a.mr.SGE(0, 64<<10)}, RemoteAddr: remote, RKey: b.mr.RKey()}},
		{"READ of 64 KiB", a, b, nil, verbs.SendWR{Opcode: ib.WRRDMARead, SGList: []ib.SGE{a.mr.SGE(0, 64<<10)}, RemoteAddr: remote, RKey: b.mr.RKey()}},
		{"atomic", a, b, nil, verbs.SendWR{Opcode: ib.WRAtomicFetchAndAdd, SGList: local, RemoteAddr: remote, RKey: b.mr.RKey()}},
		{"SEND inline", a, b, recvB, verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendInline, Inline: make([]byte, 16)}},
		{"SEND of 64 KiB", a, b, recvB, verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{a.mr.SGE(0, 64<<10)}}},
		{"datagram", u, v, recvV, verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{u.mr.SGE(0, 64)}, AH: u.handle(0, gid), RemoteQPN: v.qp.QPN(), RemoteQKey: testQKey}},
	} {
		c.wr.Flags |= ib.SendSignaled
		list := []verbs.SendWR{c.wr}
		wc := make([]ib.WC, 4)
		once := func() {
			want := 1
			if c.recv != nil {
				c.to.qp.PostRecv(c.recv...)
			}
			c.from.qp.PostSend(list...)
			for done := 0; done < want; {
				n, _ := c.from.cq.Poll(wc)
				done += n
			}
			for done := 0; c.recv != nil && done < want; {
				n, _ := c.to.cq.Poll(wc)
				done += n
			}
		}
		for range 100 { // pools and queues reach their sizes
			once()
		}
		// Another process that joins or leaves the port meanwhile is looked after
		// in the background, with allocations: try again.
		n := testing.AllocsPerRun(200, once)
		for try := 0; n != 0 && try < 10; try++ {
			n = testing.AllocsPerRun(200, once)
		}
		if n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

// TestIdleQueuePairs makes 10,000 queue pairs of 16 sends and 16 receives, connects them, uses each
// once and measures the cost of one.
func TestIdleQueuePairs(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("10,000 queue pairs take too long, and cost more: run without -race and -short")
	}
	const count, limit = 10_000, 16 << 10
	e := newEnd(t, ib.QPTypeRC, 64)
	ends := make([]*end, count)
	heap := func() uint64 {
		runtime.GC()
		runtime.GC() // memory that finalizers and pools let go
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	before := heap()
	cap := ib.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1}
	for i := range ends {
		s := *e
		var err error
		s.qp, err = e.pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: e.cq, RecvCQ: e.cq, Cap: cap})
		check(t, err)
		ends[i] = &s
	}
	for i := 0; i < count; i += 2 {
		connect(t, ends[i], ends[i+1], ib.MTU1024)
	}
	for i, x := range ends {
		peer := ends[i^1]
		_, err := peer.qp.PostRecv(verbs.RecvWR{SGList: []ib.SGE{e.mr.SGE(0, 8)}})
		check(t, err)
		_, err = x.qp.PostSend(
			verbs.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{e.mr.SGE(0, 8)}},
			verbs.SendWR{Opcode: ib.WRRDMARead, Flags: ib.SendSignaled, SGList: []ib.SGE{e.mr.SGE(0, 8)}, RemoteAddr: e.mr.Addr(), RKey: e.mr.RKey()})
		check(t, err)
		e.poll(2)
	}
	each := int64(heap()-before) / count
	t.Logf("%d bytes for each queue pair", each)
	if each > limit {
		t.Errorf("%d bytes for each queue pair, more than %d", each, limit)
	}
	runtime.KeepAlive(ends)
}
