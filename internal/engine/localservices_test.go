// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"slices"
	"testing"

	"verbena/ib"
	"verbena/internal/queue"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/roce/uc"
)

// as is endpoint with another machine.
func (n *node) as(bytes int, machine func(*endpoint, roce.Config) roce.Machine) *endpoint {
	n.t.Helper()
	e := n.parts(bytes)
	var err error
	e.Conn, err = n.eng.NewConn(n.account, func(qpn ib.QPN) roce.Machine {
		return machine(e, roce.Config{QPN: qpn, PD: 1, Mem: n.keys, SQ: e.sq, RQ: e.rq, SendCQ: e.cq, RecvCQ: e.cq})
	}, func(ib.EventType) {})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(e.Close)
	return e
}

// linked connects what two makes of two nodes until there is a ring each way,
// as ringCouple does.
func linked(t *testing.T, two func(a, b *node) (x, y *endpoint)) (a, b *endpoint) {
	t.Helper()
	nodes := meet(t, Options{}, Options{})
	ringCouple(t, nodes[0], nodes[1], 8) // the two processes have met
	a, b = two(nodes[0], nodes[1])
	a.connect(b)
	b.connect(a)
	if a.roce.ring == nil || b.roce.ring == nil {
		t.Fatal("there are no rings")
	}
	return a, b
}

// onlyRings fails if a packet went through a socket or was lost.
func onlyRings(t *testing.T, ends ...*endpoint) {
	t.Helper()
	for _, e := range ends {
		n := e.node
		if sent, local := n.counter("sent_pkts"), n.counter("local_sent_pkts"); sent != local {
			t.Errorf("of %d packets %d went through a ring", sent, local)
		}
		if lost, refused := n.counter("local_lost"), n.counter("local_refused"); lost != 0 || refused != 0 {
			t.Errorf("%d packets lost, %d refused", lost, refused)
		}
	}
}

func unreliable(_ *endpoint, c roce.Config) roce.Machine { return uc.New(c) }

// TestLocalUC sends and writes messages of sizes around those of packets and
// trains.
func TestLocalUC(t *testing.T) {
	const longest = 300000
	a, b := linked(t, func(m, n *node) (x, y *endpoint) { return m.as(longest, unreliable), n.as(longest, unreliable) })
	seed := uint64(0)
	for _, polling := range []bool{true, false} {
		for _, n := range []int{8, 1024, 1032, 65536, longest} {
			for _, op := range []ib.WROpcode{ib.WRSend, ib.WRRDMAWriteWithImm} {
				seed++
				a.buf, b.buf = a.buf[:n], b.buf[:n]
				a.fill(seed)
				b.fill(0)
				b.recv()
				a.post(b, op, n)
				a.succeed(b, polling)
				b.succeed(a, polling)
				same(t, a, b)
			}
		}
	}
	onlyRings(t, a, b)
}

// TestLocalUCIsHeldBack has a reader that is held up while far more is sent than
// the ring holds: UC has nobody to send it again, and nothing is lost.
func TestLocalUCIsHeldBack(t *testing.T) {
	a, b := linked(t, func(m, n *node) (x, y *endpoint) { return m.as(256<<10, unreliable), n.as(256<<10, unreliable) })
	until(t, "the ring is read", func() bool { return len(*b.node.eng.local.rings.Load()) > 0 })
	in := (*b.node.eng.local.rings.Load())[0]
	a.fill(1)
	b.recv()
	in.rxMu.Lock()
	for range 31 {
		a.post(b, ib.WRRDMAWrite, len(a.buf))
	}
	a.post(b, ib.WRRDMAWriteWithImm, len(a.buf))
	in.rxMu.Unlock()
	for range 32 {
		a.succeed(b, false)
	}
	if b.node.counter("local_lost")+a.node.counter("local_lost") == 0 { // else this machine stood still for 100 ms
		b.succeed(a, false)
		same(t, a, b)
	}
}

// TestLocalSharedReceives has two queue pairs, each of a process of its own, take
// receives from one queue.
func TestLocalSharedReceives(t *testing.T) {
	var srq *queue.SRQ
	nodes := meet(t, Options{}, Options{}, Options{})
	var senders, takers []*endpoint
	for _, n := range nodes[1:] {
		ringCouple(t, nodes[0], n, 8)
		if srq == nil {
			srq = queue.NewSRQ(8, 1, nil)
		}
		taker := nodes[0].as(4096, func(_ *endpoint, c roce.Config) roce.Machine {
			c.RQ, c.SRQ, c.SRQPD = srq, true, c.PD
			return rc.New(c)
		})
		sender := n.endpoint(4096)
		t.Cleanup(sender.Close)
		sender.connect(taker)
		taker.connect(sender)
		senders, takers = append(senders, sender), append(takers, taker)
	}
	for round := range uint64(6) {
		i := int(round % 2)
		from, to := senders[i], takers[i]
		from.fill(round + 1)
		to.fill(0)
		if err := srq.Post(round, []ib.SGE{{Length: 4096, LKey: to.region.LKey()}}); err != nil {
			t.Fatal(err)
		}
		from.post(to, ib.WRSend, 4096)
		from.succeed(to, true)
		to.succeed(from, true)
		same(t, from, to)
	}
	onlyRings(t, append(slices.Clone(senders), takers[0])...)
}

// TestLocalXRC has an initiator and a target in two processes: requests go one
// way by a ring, what answers them the other.
func TestLocalXRC(t *testing.T) {
	const number = 7
	srq := queue.NewSRQ(8, 1, nil)
	a, b := linked(t, func(m, n *node) (x, y *endpoint) {
		x = m.as(64<<10, func(_ *endpoint, c roce.Config) roce.Machine { return rc.NewXRCSend(c) })
		y = n.as(64<<10, func(e *endpoint, c roce.Config) roce.Machine {
			box := &rc.Inbox{PD: 1, Mem: n.keys, RQ: srq, CQ: e.cq}
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
		w, _ := a.sq.Reserve()
		w.Opcode, w.Flags, w.Length, w.RKey = op, ib.SendSignaled, uint32(n), b.region.RKey()
		w.SGE = append(w.SGE, ib.SGE{Length: uint32(n), LKey: a.region.LKey()})
		w.SetRemoteSRQ(s)
		a.sq.Commit()
		a.Ring()
	}
	for i, op := range []ib.WROpcode{ib.WRSend, ib.WRRDMAWrite, ib.WRRDMARead} {
		a.fill(uint64(i + 1))
		b.fill(uint64(i + 10))
		if err := srq.Post(1, []ib.SGE{{Length: 64 << 10, LKey: b.region.LKey()}}); err != nil {
			t.Fatal(err)
		}
		post(op, len(a.buf), number)
		a.succeed(b, true)
		if op == ib.WRSend {
			b.succeed(a, true)
		}
		same(t, a, b)
	}
	onlyRings(t, a, b)
	post(ib.WRRDMAWrite, 8, number+1)
	if wc := a.await(); wc.Status != ib.WCRemAccessErr {
		t.Errorf("a queue that the domain has not gives %v", wc.Status)
	}
}
