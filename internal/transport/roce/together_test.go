// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"math/rand/v2"
	"testing"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/sys/portshare"
	"verbena/internal/testkit/rig"
	"verbena/internal/testkit/xdpwire"
)

// couples connects queue pairs of two nodes.
func couples(t *testing.T, n, bytes int) (a, b []*endpoint) {
	t.Helper()
	x, y := newNode(t, forEver), newNode(t, forEver)
	for range n {
		e, peer := couple(t, x, y, bytes)
		a, b = append(a, e), append(b, peer)
	}
	return a, b
}

// post posts a SEND of n bytes that nobody sends yet.
func post(e *endpoint, n int) {
	e.Lock()
	w, _ := e.SQ.Reserve()
	w.Opcode, w.Flags, w.Length = ib.WRSend, ib.SendSignaled, uint32(n)
	w.SGE = append(w.SGE[:0], ib.SGE{Length: uint32(n), LKey: e.Region.LKey()})
	e.SQ.Commit()
	e.Machine().Doorbell(monotime.Now())
	e.Unlock()
}

// sent returns the sends of a node's only socket, and the datagrams that they had.
func sent(n *node) (messages, datagrams uint64) {
	tr := Of(n.Eng)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for u := range tr.sources {
		c := u.Counters()
		messages, datagrams = messages+c.SentMessages, datagrams+c.SentDatagrams
	}
	return messages, datagrams
}

// pumpAll sends the output of the queue pairs.
func pumpAll(list []*endpoint) {
	send := engine.Joint{Now: monotime.Now()}
	for _, e := range list {
		e.Lock()
		send.PumpUnlock(e.Conn)
	}
	send.Finish()
}

// The messages of several queue pairs leave as one packet of the system.
func TestQueuePairsSendTogether(t *testing.T) {
	xdpwire.Skip(t, "it counts the sends of sockets")
	const pairs = 20
	a, b := couples(t, pairs, 64)
	for i := range a {
		b[i].Recv()
		post(a[i], 64)
	}
	messages, datagrams := sent(a[0].Node)
	pumpAll(a)
	m, d := sent(a[0].Node)
	if m-messages != 1 || d-datagrams != pairs {
		t.Errorf("%d sends of %d datagrams, want 1 of %d", m-messages, d-datagrams, pairs)
	}
	for i := range a {
		b[i].Want(ib.WCRecv, ib.WCSuccess)
		a[i].Want(ib.WCSend, ib.WCSuccess)
	}
	if n := b[0].Node.Counter("bad_icrc"); n != 0 {
		t.Errorf("%d datagrams had a wrong ICRC", n)
	}
}

// The kernel steers a burst by its first datagram. So the messages to several processes of a host
// leave apart: a burst for each process.
func TestBurstHasOneProcess(t *testing.T) {
	const processes, pairs = 3, 5 // of each
	from, addr := newNode(t, forEver), rig.NewAddr()
	dir := meet(t, how{})[0].Dir
	var nodes []*node
	for range processes {
		nodes = append(nodes, startNodeAt(t, forEver, how{Dir: dir}, addr))
	}
	var a, b []*endpoint
	for range pairs {
		for _, n := range nodes {
			e, peer := couple(t, from, n, 64)
			a, b = append(a, e), append(b, peer)
		}
	}
	for i := range a {
		b[i].Recv()
		post(a[i], 64)
	}
	messages, datagrams := sent(from)
	pumpAll(a)
	m, d := sent(from)
	m, d = m-messages, d-datagrams
	if m < processes || d-m < processes*(pairs-1) { // more of both where the machine was slow
		t.Errorf("%d sends of %d datagrams, want %d of %d", m, d, processes, processes*pairs)
	}
	for i := range a {
		b[i].Want(ib.WCRecv, ib.WCSuccess)
		a[i].Want(ib.WCSend, ib.WCSuccess)
	}
	for _, n := range nodes {
		if k := n.Counter("unknown_qp"); k != 0 {
			t.Errorf("%d datagrams came to another process", k)
		}
	}
}

// Packets to several processes of a host have several source ports, so that no device on the way
// joins them. So have packets to several parts of a process.
func TestFlowHasOnePart(t *testing.T) {
	n := newNode(t, forEver)
	seen := map[uint32]bool{}
	for range engine.MaxLanes {
		e := asOf(n, n.Eng.NewLane(), 64,
			func(_ *endpoint, c roce.Config) roce.Machine { return rc.New(c) })
		t.Cleanup(e.Close)
		for share := range portshare.Share(portshare.Slots * portshare.Parts) {
			seen[connOf(e).flow(n.Addr, n.Addr, share)] = true
		}
	}
	if len(seen) != engine.MaxLanes*portshare.Slots*portshare.Parts {
		t.Errorf("%d flows of %d lanes to %d parts of %d processes", len(seen), engine.MaxLanes,
			portshare.Parts, portshare.Slots)
	}
}

// Packets of one queue pair stay in order, whatever the others have to send, and nothing is sent
// twice.
func TestQueuePairsSendTogetherInOrder(t *testing.T) {
	const (
		pairs = 12
		most  = 20_000
	)
	a, b := couples(t, pairs, most)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		var want [pairs][]int
		for i := range a {
			for range rng.IntN(4) {
				n := []int{64, 64, 64, 1024, 1500, most}[rng.IntN(6)]
				want[i] = append(want[i], n)
				b[i].Recv()
				post(a[i], n)
			}
		}
		pumpAll(a)
		for i := range a {
			for _, n := range want[i] {
				if wc := b[i].Want(ib.WCRecv, ib.WCSuccess); wc.ByteLen != uint32(n) {
					t.Fatalf("a message of %d bytes, want %d", wc.ByteLen, n)
				}
				a[i].Want(ib.WCSend, ib.WCSuccess)
			}
		}
	}
	for _, name := range []string{"bad_icrc", "out_of_seq_request"} {
		if n := b[0].Node.Counter(name); n != 0 {
			t.Errorf("%s is %d", name, n)
		}
	}
}

// A thread that has read the messages of several queue pairs sends its acknowledgements and its
// answers as one packet of the system each.
func TestAnswersOfQueuePairsLeaveTogether(t *testing.T) {
	const pairs = 10
	a, b := couples(t, pairs, 64)
	together := false
	rig.Until(t, "the answers leave together", func() bool { // slow ones do not
		lull(b[0].Node)
		for i := range a {
			a[i].Recv()
			b[i].Recv()
			post(a[i], 64)
		}
		messages, _ := sent(b[0].Node)
		pumpAll(a)
		came := 0
		for came < pairs {
			b[0].Node.Eng.Collect(false)
			came = 0
			for i := range b {
				came += b[i].CQ.Len()
			}
		}
		var wc [4]ib.WC
		for i := range b {
			b[i].CQ.Poll(wc[:])
			b[i].Send(64)
		}
		b[0].Node.Eng.Settle()
		m, _ := sent(b[0].Node)
		together = m-messages <= 2
		for i := range a {
			a[i].Want(ib.WCSend, ib.WCSuccess)
			a[i].Want(ib.WCRecv, ib.WCSuccess)
			b[i].Want(ib.WCSend, ib.WCSuccess)
		}
		return together
	})
}
