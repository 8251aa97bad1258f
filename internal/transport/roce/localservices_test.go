// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"slices"
	"testing"

	"verbena/ib"
	"verbena/internal/queue"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/roce/uc"
	"verbena/internal/testkit/rig"
)

// linked connects the results of two makes on two nodes until there is a ring each way, as
// ringCouple does.
func linked(t *testing.T, two func(a, b *node) (x, y *endpoint)) (a, b *endpoint) {
	t.Helper()
	nodes := meet(t, how{}, how{})
	ringCouple(t, nodes[0], nodes[1], 8) // the two processes have met
	a, b = two(nodes[0], nodes[1])
	connect(a, b)
	connect(b, a)
	if connOf(a).ring == nil || connOf(b).ring == nil {
		t.Fatal("there are no rings")
	}
	return a, b
}

// onlyRings fails if a packet went through a socket or was lost.
func onlyRings(t *testing.T, ends ...*endpoint) {
	t.Helper()
	for _, e := range ends {
		n := e.Node
		if sent, local := n.Counter("sent_pkts"), n.Counter("local_sent_pkts"); sent != local {
			t.Errorf("of %d packets %d went through a ring", sent, local)
		}
		if lost, refused := n.Counter("local_lost"), n.Counter("local_refused"); lost != 0 || refused != 0 {
			t.Errorf("%d packets lost, %d refused", lost, refused)
		}
	}
}

func unreliable(_ *endpoint, c roce.Config) roce.Machine { return uc.New(c) }

// TestLocalUC sends and writes messages of sizes around those of packets and
// bursts.
func TestLocalUC(t *testing.T) {
	const longest = 300000
	a, b := linked(t, func(m, n *node) (x, y *endpoint) { return as(m, longest, unreliable), as(n, longest, unreliable) })
	seed := uint64(0)
	for _, polling := range []bool{true, false} {
		for _, n := range []int{8, 1024, 1032, 65536, longest} {
			for _, op := range []ib.WROpcode{ib.WRSend, ib.WRRDMAWriteWithImm} {
				seed++
				a.Buf, b.Buf = a.Buf[:n], b.Buf[:n]
				fill(a, seed)
				fill(b, 0)
				b.Recv()
				a.Post(b, op, n)
				succeed(a, b, polling)
				succeed(b, a, polling)
				same(t, a, b)
			}
		}
	}
	onlyRings(t, a, b)
}

// TestLocalUCIsHeldBack has a reader that is held up while far more is sent than
// the ring holds: UC has nobody to send it again, and nothing is lost.
func TestLocalUCIsHeldBack(t *testing.T) {
	a, b := linked(t, func(m, n *node) (x, y *endpoint) { return as(m, 256<<10, unreliable), as(n, 256<<10, unreliable) })
	rig.Until(t, "the ring is read", func() bool { return ringsOf(b.Node).Reading() > 0 })
	fill(a, 1)
	b.Recv()
	release := ringsOf(b.Node).Hold()
	for range 31 {
		a.Post(b, ib.WRRDMAWrite, len(a.Buf))
	}
	a.Post(b, ib.WRRDMAWriteWithImm, len(a.Buf))
	release()
	for range 32 {
		succeed(a, b, false)
	}
	if b.Node.Counter("local_lost")+a.Node.Counter("local_lost") == 0 { // else this machine stood still for 100 ms
		succeed(b, a, false)
		same(t, a, b)
	}
}

// TestLocalSharedReceives has two queue pairs, each of a process of its own, take
// receives from one queue.
func TestLocalSharedReceives(t *testing.T) {
	var srq *queue.SRQ
	nodes := meet(t, how{}, how{}, how{})
	var senders, takers []*endpoint
	for _, n := range nodes[1:] {
		ringCouple(t, nodes[0], n, 8)
		if srq == nil {
			srq = queue.NewSRQ(8, 1, nil)
		}
		taker := as(nodes[0], 4096, func(_ *endpoint, c roce.Config) roce.Machine {
			c.RQ, c.SRQ, c.SRQPD = srq, true, c.PD
			return rc.New(c)
		})
		sender := newEndpoint(n, 4096)
		t.Cleanup(sender.Close)
		connect(sender, taker)
		connect(taker, sender)
		senders, takers = append(senders, sender), append(takers, taker)
	}
	for round := range uint64(6) {
		i := int(round % 2)
		from, to := senders[i], takers[i]
		fill(from, round+1)
		fill(to, 0)
		if err := srq.Post(round, []ib.SGE{{Length: 4096, LKey: to.Region.LKey()}}); err != nil {
			t.Fatal(err)
		}
		from.Post(to, ib.WRSend, 4096)
		succeed(from, to, true)
		succeed(to, from, true)
		same(t, from, to)
	}
	onlyRings(t, append(slices.Clone(senders), takers[0])...)
}

// TestLocalXRC has an initiator and a target in two processes: requests go one way by a ring,
// answers the other.
func TestLocalXRC(t *testing.T) {
	const number = 7
	srq := queue.NewSRQ(8, 1, nil)
	a, b := linked(t, func(m, n *node) (x, y *endpoint) {
		x = as(m, 64<<10, func(_ *endpoint, c roce.Config) roce.Machine { return rc.NewXRCSend(c) })
		y = as(n, 64<<10, func(e *endpoint, c roce.Config) roce.Machine {
			box := &rc.Inbox{PD: 1, Mem: n.Keys, RQ: srq, CQ: e.CQ}
			return rc.NewXRCRecv(c, func(s ib.SRQN) *rc.Inbox {
				if s == number {
					return box
				}
				return nil
			})
		})
		return x, y
	})
	post := func(op ib.WROpcode, n int, s ib.SRQN) {
		a.Lock()
		w, _ := a.SQ.Reserve()
		w.Opcode, w.Flags, w.Length, w.RKey = op, ib.SendSignaled, uint32(n), b.Region.RKey()
		w.SGE = append(w.SGE, ib.SGE{Length: uint32(n), LKey: a.Region.LKey()})
		w.SetRemoteSRQ(s)
		a.SQ.Commit()
		a.SubmitUnlock(1)
	}
	for i, op := range []ib.WROpcode{ib.WRSend, ib.WRRDMAWrite, ib.WRRDMARead} {
		fill(a, uint64(i+1))
		fill(b, uint64(i+10))
		if err := srq.Post(1, []ib.SGE{{Length: 64 << 10, LKey: b.Region.LKey()}}); err != nil {
			t.Fatal(err)
		}
		post(op, len(a.Buf), number)
		succeed(a, b, true)
		if op == ib.WRSend {
			succeed(b, a, true)
		}
		same(t, a, b)
	}
	onlyRings(t, a, b)
	post(ib.WRRDMAWrite, 8, number+1)
	if wc := a.Await(); wc.Status != ib.WCRemAccessErr {
		t.Errorf("a queue that the domain has not gives %v", wc.Status)
	}
}
