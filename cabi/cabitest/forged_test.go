// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"fmt"
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/wire/cm"
)

// forgedREQ returns the n-th request of an rsocket for a port in the name of 192.0.2.3, which has
// not sent it. It asks for the longest time-outs.
func forgedREQ(port uint16, n uint32) []byte {
	from, to := netip.MustParseAddr("192.0.2.3"), netip.MustParseAddr("192.0.2.1")
	req := cm.REQ{
		LocalCommID: 1000 + n, ServiceID: cm.NewServiceID(cm.PortSpaceTCP, port), LocalCAGUID: 7, LocalQPN: 1000 + ib.QPN(n), ResponderResources: 1,
		InitiatorDepth: 1, RemoteResponseTimeout: 31, FlowControl: true, LocalResponseTimeout: 31, RetryCount: 7, PKey: ib.DefaultPKey,
		PathMTU: ib.MTU1024, RNRRetryCount: 7, MaxCMRetries: 15,
		Primary: cm.Path{LocalGID: ib.GIDFromAddr(from), RemoteGID: ib.GIDFromAddr(to), HopLimit: 64, ACKTimeout: 31},
	}
	private := cm.IPHeader{Port: 4242, Src: from, Dst: to}.Append(nil)
	private = append(private, 1, 0, 0, 8) // an rsocket's version, flags and credits
	private = append(private, make([]byte, 32)...)
	private[cm.IPHeaderSize+8+8+4+3] = 2 // entries of its table
	copy(req.PrivateData[:], private)
	return req.Append(cm.NewHeader(cm.AttrREQ, uint64(n)).Append(nil))
}

// TestForgedRequestsCloseNoListener: forged requests neither stop the listener of an rsocket with a
// backlog of three, nor cost more than a bound.
func TestForgedRequestsCloseNoListener(t *testing.T) {
	if _, here := newNetwork(t); !here {
		return
	}
	p, end := startTalking(t, compile(t, "forged_rsocket"), "192.0.2.1")
	var port uint16
	if _, err := fmt.Sscan(p.line(), &port); err != nil {
		t.Fatal(err)
	}
	s := newStranger(t)
	for n := range uint32(500) {
		s.send(toQP1(forgedREQ(port, n)))
		if n%20 == 0 {
			s.settle()
		}
	}
	s.settle()
	end.Close()
	var cost int
	if _, err := fmt.Sscan(p.line(), &cost); err != nil {
		t.Fatal(err)
	}
	t.Logf("500 forged requests cost %d descriptors", cost)
	if cost > 20 || cost < 0 {
		t.Errorf("500 forged requests cost %d descriptors", cost)
	}
	p.rest()
}
