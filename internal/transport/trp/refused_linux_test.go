// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/engine/policy"
	"verbena/internal/iwarp/trp"
	"verbena/internal/monotime"
	"verbena/internal/testkit/xdpwire"
)

// vanish closes the port under a queue pair, as the end of a process does: without
// a word.
func (e *trpEnd) vanish() {
	p := connOf(e).port
	p.give(nil)
	p.Close()
}

// A request to a port that nobody has is not repeated for 15 s in vain: the network
// says so.
func TestTRPNobodyListens(t *testing.T) {
	for _, lo := range []netip.Addr{loopback4, loopback6} {
		n := trpNode(t, policy.Nap, engine.Options{})
		l, _ := listen(n, lo, 0)
		at := l.Addr()
		l.Close()
		begin := monotime.Now()
		e := trpEndpoint(n, 64)
		e.dial(lo, at, "hello")
		e.wantLink(trp.EventUnreachable, trp.Refused)
		e.wantLink(trp.EventClosed, 0)
		if took := monotime.Now().Sub(begin); took > 10*monotime.Second {
			t.Errorf("%v: found out after %v", lo, took)
		}
	}
}

// The network's errors for sent datagrams reveal that a peer's process was killed, long before the
// time-outs.
func TestTRPPeerVanishes(t *testing.T) {
	xdpwire.Skip(t, "both ends are in one namespace, whose kernel answers no packet from an address of its own: TestTRPRefusedByFrames has two")
	for _, lo := range []netip.Addr{loopback4, loopback6} {
		a, b := trpPair(t, policy.Nap, 4096, lo, "")
		a.Recv()
		begin := monotime.Now()
		b.vanish()
		a.Send(4096)
		if wc := a.Await(); wc.Status != ib.WCRetryExcErr || wc.Opcode != ib.WCSend {
			t.Errorf("%v: %v %v", lo, wc.Opcode, wc.Status)
		}
		if wc := a.Await(); wc.Status != ib.WCWRFlushErr {
			t.Errorf("%v: %v %v", lo, wc.Opcode, wc.Status)
		}
		a.wantLink(trp.EventDisconnected, trp.Refused)
		if took := monotime.Now().Sub(begin); took > 10*monotime.Second {
			t.Errorf("%v: found out after %v", lo, took)
		}
		if n := a.Node.Counter("trp_peer_refused"); n < 2 {
			t.Errorf("%v: %d refusals", lo, n)
		}
	}
}
