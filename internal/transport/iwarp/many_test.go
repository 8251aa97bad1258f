// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import (
	"bytes"
	"net"
	"runtime"
	"sync"
	"testing"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/engine/policy"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/queue"
)

// TestIWARPManyConnections has more connections than are asked one by one, all at
// work, while a thread polls at each end and others wait.
func TestIWARPManyConnections(t *testing.T) {
	const rounds, size = 20, 200_000
	conns := 3 * policy.DirectStreams
	n, m := newNode(t, policy.Nap), newNode(t, policy.Nap)
	pairs := make([][2]*endpoint, conns)
	for i := range pairs {
		a, b := iwarpEndpoint(n, size), iwarpEndpoint(m, size)
		join(a, b, iwarpOptions{crc: i%2 == 0, rtr: mpa.RTRs(mpa.RTRRead)})
		a.Pattern(size, byte(i))
		pairs[i] = [2]*endpoint{a, b}
	}
	if len(*Of(n.Eng).in.direct.Load()) != 0 || len(Of(n.Eng).in.conns) != conns {
		t.Fatalf("%d connections, %d are asked directly", len(Of(n.Eng).in.conns), len(*Of(n.Eng).in.direct.Load()))
	}
	stop := make(chan struct{})
	var pollers, work sync.WaitGroup
	for _, e := range []*engine.Engine{n.Eng, m.Eng} {
		pollers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					e.FirstLane().Poll()
					if i%64 == 0 { // and now and then not
						runtime.Gosched()
					}
				}
			}
		})
	}
	for _, p := range pairs {
		work.Go(func() {
			a, b := p[0], p[1]
			for range rounds {
				b.Recv()
				a.Request(queue.SendWQE{Opcode: ib.WRRDMAWrite, Length: size, RKey: b.Region.RKey()})
				a.Request(queue.SendWQE{Opcode: ib.WRSend, Length: 100})
				a.Want(ib.WCRDMAWrite, ib.WCSuccess)
				a.Want(ib.WCSend, ib.WCSuccess)
				b.Want(ib.WCRecv, ib.WCSuccess)
				b.Request(queue.SendWQE{Opcode: ib.WRRDMARead, Length: size, RKey: a.Region.RKey()})
				b.Want(ib.WCRDMARead, ib.WCSuccess)
			}
		})
	}
	work.Wait()
	close(stop)
	pollers.Wait()
	for i, p := range pairs {
		p[0].Close()
		p[1].Close()
		if !bytes.Equal(p[0].Buf, p[1].Buf) {
			t.Errorf("connection %d: memory differs", i)
		}
	}
	if len(Of(n.Eng).in.members)+len(Of(m.Eng).in.members) != 0 {
		t.Error("a socket is watched still")
	}
}

// A stream that always has something does not keep others from being read: after some polls the set
// is asked for them.
func TestBusyStreamLeavesOthersTheirTurn(t *testing.T) {
	a, b := iwarpPair(t, policy.Nap, 64, iwarpOptions{rtr: mpa.RTRs(mpa.RTRRead)})
	of, accepted := Of(b.Node.Eng), false
	send := func() {
		b.Recv()
		a.Request(queue.SendWQE{Opcode: ib.WRSend, Length: 8})
		a.Want(ib.WCSend, ib.WCSuccess)
	}
	send()
	b.Want(ib.WCRecv, ib.WCSuccess)
	of.eng.Probe().StopBackground()
	l, err := of.Listen(loopbacks[false], 4, func(*Stream) StreamEvents {
		accepted = true
		return nil
	})
	if err == nil {
		err = l.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	polls := 0
	for most := fullPolls * int(policy.StreamSetPolls); !accepted && polls < most; polls++ {
		send()
		of.in.TryPoll(true)
	}
	if !accepted {
		t.Errorf("no connection was accepted in %d polls", polls)
	}
}
