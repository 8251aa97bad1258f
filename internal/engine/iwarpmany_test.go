// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"bytes"
	"runtime"
	"sync"
	"testing"

	"verbena/ib"
	"verbena/internal/iwarp/mpa"
	"verbena/internal/queue"
)

// TestIWARPManyConnections has more connections than are asked one by one, all at
// work, while a thread polls at each end and others wait.
func TestIWARPManyConnections(t *testing.T) {
	const conns, rounds, size = 3 * maxDirect, 20, 200_000
	n, m := newNode(t, defaultBackoff).iwarp(), newNode(t, defaultBackoff).iwarp()
	var pairs [conns][2]*endpoint
	for i := range pairs {
		a, b := n.iwarpEndpoint(size), m.iwarpEndpoint(size)
		a.join(b, iwarpOptions{crc: i%2 == 0, rtr: mpa.RTRs(mpa.RTRRead)})
		a.pattern(size, byte(i))
		pairs[i] = [2]*endpoint{a, b}
	}
	if len(*n.eng.tcp.direct.Load()) != 0 || len(n.eng.tcp.conns) != conns {
		t.Fatalf("%d connections, %d are asked directly", len(n.eng.tcp.conns), len(*n.eng.tcp.direct.Load()))
	}
	stop := make(chan struct{})
	var pollers, work sync.WaitGroup
	for _, e := range []*Engine{n.eng, m.eng} {
		pollers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					e.Poll()
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
				b.recv()
				a.request(queue.SendWQE{Opcode: ib.WRRDMAWrite, Length: size, RKey: b.region.RKey()})
				a.request(queue.SendWQE{Opcode: ib.WRSend, Length: 100})
				a.want(ib.WCRDMAWrite, ib.WCSuccess)
				a.want(ib.WCSend, ib.WCSuccess)
				b.want(ib.WCRecv, ib.WCSuccess)
				b.request(queue.SendWQE{Opcode: ib.WRRDMARead, Length: size, RKey: a.region.RKey()})
				b.want(ib.WCRDMARead, ib.WCSuccess)
			}
		})
	}
	work.Wait()
	close(stop)
	pollers.Wait()
	for i, p := range pairs {
		p[0].Close()
		p[1].Close()
		if !bytes.Equal(p[0].buf, p[1].buf) {
			t.Errorf("connection %d: memory differs", i)
		}
	}
	if len(n.eng.tcp.members)+len(m.eng.tcp.members) != 0 {
		t.Error("a socket is watched still")
	}
}
