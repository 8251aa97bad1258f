// SPDX-License-Identifier: BSD-2-Clause

package verbs_test

import (
	"net/netip"
	"syscall"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/core"
	"verbena/internal/iwarp/trp"
	transporttrp "verbena/internal/transport/trp"
	wire "verbena/internal/wire/trp"
	"verbena/verbs"
)

const trpLoopback = "trp_lo"

// trpEnds returns two queue pairs of TRP in RTS.
func trpEnds(t *testing.T, size int) (a, b *end) {
	t.Helper()
	a, b = initEnd(t, trpLoopback, size), initEnd(t, trpLoopback, size)
	associate(t, a, b)
	return a, b
}

// associate connects two queue pairs in INIT, as the connection manager does.
func associate(t *testing.T, a, b *end) {
	t.Helper()
	eng := (*core.Context)(a.ctx).Engine()
	at := netip.MustParseAddrPort("127.0.0.1:0")
	p, err := transporttrp.Of(eng).Bind(at)
	check(t, err)
	requests := make(chan *transporttrp.Request, 1)
	l, err := p.Listen(1, func(r *transporttrp.Request) { requests <- r }, nil)
	check(t, err)
	defer l.Close()
	up := make(chan trp.Event, 4)
	onLink := func(ev trp.Event) {
		if ev.Kind == trp.EventEstablished {
			up <- ev
		}
	}
	s := wire.Setup{IRD: 8, ORD: 8}
	from, err := transporttrp.Of(eng).Bind(at)
	check(t, err)
	client, err := (*core.QP)(a.qp).TRPConn()
	check(t, err)
	check(t, client.Dial(from, l.Addr(), s, onLink))
	server, err := (*core.QP)(b.qp).TRPConn()
	check(t, err)
	r := <-requests
	check(t, server.Accept(r, r.Local, s, onLink))
	for range 2 {
		select {
		case <-up:
		case <-time.After(20 * time.Second):
			t.Fatal("the association was not established")
		}
	}
}

func TestTRPSpeaksTheSameVerbs(t *testing.T) {
	a, b := trpEnds(t, 1<<20)
	speakSameVerbs(t, a, b, func() error {
		conn, err := (*core.QP)(a.qp).TRPConn()
		if err == nil {
			conn.Disconnect()
		}
		return err
	})
}

// TestTRPSharedReceives has a queue pair take its receives from a shared queue.
func TestTRPSharedReceives(t *testing.T) {
	a, b := initEnd(t, trpLoopback, 4096), newEndOn(t, trpLoopback, ib.QPTypeRC, 4096)
	srq, err := b.pd.CreateSRQ(ib.SRQAttr{MaxWR: 4, MaxSGE: 1})
	check(t, err)
	check(t, b.qp.Destroy())
	b.qp, err = b.pd.CreateQP(&verbs.QPInitAttr{Type: ib.QPTypeRC, SendCQ: b.cq, RecvCQ: b.cq, SRQ: srq, Cap: ib.QPCap{MaxSendWR: 4, MaxSendSGE: 1}})
	check(t, err)
	check(t, b.qp.Modify(&ib.QPAttr{State: ib.QPInit, AccessFlags: ib.AccessRemote}, ib.QPStateAttr|ib.QPAccessFlags))
	associate(t, a, b)
	_, err = srq.PostRecv(verbs.RecvWR{ID: 8, SGList: []ib.SGE{b.mr.SGE(0, 100)}})
	check(t, err)
	_, err = a.qp.PostSend(verbs.SendWR{ID: 1, Opcode: ib.WRSend, Flags: ib.SendSignaled, SGList: []ib.SGE{a.mr.SGE(0, 100)}})
	check(t, err)
	b.wantWC(8, ib.WCRecv)
	a.wantWC(1, ib.WCSend)
}

func TestTRPRefuses(t *testing.T) {
	wantRefusals(t, trpLoopback)
	_, err := (*core.QP)(newEnd(t, ib.QPTypeRC, 64).qp).TRPConn()
	wantError(t, err, syscall.EOPNOTSUPP, "QP")
}
