// SPDX-License-Identifier: BSD-2-Clause

package ud_test

import (
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/mem"
	"verbena/internal/queue"
	"verbena/internal/roce"
	"verbena/internal/roce/ud"
	wire "verbena/internal/wire/roce"
)

// TestNoAllocations: nothing from posting to polling allocates, as long as the
// destinations fit the cache.
func TestNoAllocations(t *testing.T) {
	seed := uint32(1)
	table := mem.NewTable(func() uint32 { seed = seed*1664525 + 1013904223; return seed })
	mr, err := table.Register(1, make([]byte, 8192), 0x1000, ib.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	me := netip.MustParseAddr("192.0.2.1")
	from := netip.AddrPortFrom(me, 0xc000)
	sq, rq, cq := queue.NewSendQueue(16, 2, 0), queue.NewRecvQueue(16, 2), queue.NewCQ(64)
	q := ud.New(ud.Config{
		Config: roce.Config{QPN: 0x11, PD: 1, Mem: table, SQ: sq, RQ: rq, SendCQ: cq, RecvCQ: cq},
		MTU:    4096, Source: func(uint8) netip.AddrPort { return from },
	})
	for s := ib.QPInit; s <= ib.QPRTS; s++ {
		q.Modify(0, &ib.QPAttr{State: s, QKey: 7}, ib.QPStateAttr|ib.QPQKey, nil)
	}
	burst := roce.NewBurst()
	flat := make([]byte, 0, 8192)
	once := func(to netip.Addr, n uint32) {
		r, _ := rq.Reserve()
		r.SGE, r.Length = append(r.SGE, ib.SGE{Addr: 0x1000, Length: n + ud.GRHBytes, LKey: mr.LKey()}), n+ud.GRHBytes
		rq.Commit()
		w, _ := sq.Reserve()
		w.Opcode, w.Length, w.Flags, w.SGE = ib.WRSend, n, ib.SendSignaled, append(w.SGE, ib.SGE{Addr: 0x1000, Length: n, LKey: mr.LKey()})
		w.Dst, w.RemoteQPN, w.QKey = to, 0x11, 7
		sq.Commit()
		q.Doorbell(0)
		for q.PollOutput(0, burst) {
			burst.Seal()
			flat = flat[:0]
			for _, v := range burst.Iov() {
				flat = append(flat, v...)
			}
			var p wire.Packet
			p.Parse(flat)
			q.HandleInput(0, &p, &roce.Meta{Src: me, Dst: me})
			burst.Reset()
		}
		var wc [4]ib.WC
		if cq.Poll(wc[:]) != 2 {
			panic("completions missing")
		}
	}
	peers := []netip.Addr{me, netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")}
	i := 0
	if n := testing.AllocsPerRun(100, func() { i++; once(peers[i%3], 8); once(peers[i%2], 4096) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
