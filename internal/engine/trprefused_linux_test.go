// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/iwarp/trp"
	"verbena/internal/monotime"
)

// vanish closes the port under a queue pair, as the end of a process does: without
// a word.
func (e *trpEnd) vanish() {
	p := e.way.(*trpConn).port
	p.give(nil)
	p.Close()
}

// A request to a port that nobody has is not repeated for 15 s in vain: the network
// says so.
func TestTRPNobodyListens(t *testing.T) {
	for _, lo := range []netip.Addr{loopback4, loopback6} {
		n := trpNode(t, defaultBackoff, Options{})
		l, _ := n.listen(lo, 0)
		at := l.Addr()
		l.Close()
		begin := monotime.Now()
		e := n.trpEndpoint(64)
		e.dial(lo, at, "hello")
		e.wantLink(trp.EventUnreachable, trp.Refused)
		e.wantLink(trp.EventClosed, 0)
		if took := monotime.Now().Sub(begin); took > 10*monotime.Second {
			t.Errorf("%v: found out after %v", lo, took)
		}
	}
}

// A peer whose process is killed is found out by what the network says of what is
// sent to it, long before the time-outs.
func TestTRPPeerVanishes(t *testing.T) {
	for _, lo := range []netip.Addr{loopback4, loopback6} {
		a, b := trpPair(t, defaultBackoff, 4096, lo, "")
		a.recv()
		begin := monotime.Now()
		b.vanish()
		a.send(4096)
		if wc := a.await(); wc.Status != ib.WCRetryExcErr || wc.Opcode != ib.WCSend {
			t.Errorf("%v: %v %v", lo, wc.Opcode, wc.Status)
		}
		if wc := a.await(); wc.Status != ib.WCWRFlushErr {
			t.Errorf("%v: %v %v", lo, wc.Opcode, wc.Status)
		}
		a.wantLink(trp.EventDisconnected, trp.Refused)
		if took := monotime.Now().Sub(begin); took > monotime.Second {
			t.Errorf("%v: found out after %v", lo, took)
		}
		if n := a.node.counter("trp_peer_refused"); n < 2 {
			t.Errorf("%v: %d refusals", lo, n)
		}
	}
}
