// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/wire/cm"
	wire "verbena/internal/wire/roce"
)

// A forged request is well-formed: otherwise the flood would only measure a checksum.
func TestForgedRequestsAreRequests(t *testing.T) {
	from, to := netip.MustParseAddrPort("127.0.0.2:7"), netip.MustParseAddrPort("127.0.0.1:4791")
	pseudo := wire.NewPseudo(from.Addr(), to.Addr(), from.Port(), to.Port())
	ids := map[uint32]bool{}
	for _, b := range forgedREQs(from, to) {
		var p wire.Packet
		if v := p.Parse(b); v != wire.WellFormed {
			t.Fatalf("a packet is %v", v)
		}
		h, rest, ok := cm.ParseHeader(p.Payload)
		if !ok || h.Attribute != cm.AttrREQ {
			t.Fatalf("%+v is no request", h)
		}
		req, _, ok := cm.ParseREQ(rest)
		if !ok {
			t.Fatal("a request does not parse")
		}
		ids[req.LocalCommID] = true
		if !pseudo.VerifyWithID(b, 0) {
			t.Fatal("an ICRC does not pass")
		}
	}
	if len(ids) < 1000 {
		t.Errorf("%d different requests", len(ids))
	}
}

// Garbage has packets that only a look at the queue pair or at the MAD can refuse.
func TestGarbageIsNoRequest(t *testing.T) {
	from, to := netip.MustParseAddrPort("127.0.0.2:7"), netip.MustParseAddrPort("127.0.0.1:4791")
	pseudo := wire.NewPseudo(from.Addr(), to.Addr(), from.Port(), to.Port())
	var sealed, mads, broken int
	for _, b := range garbage(from, to) {
		var p wire.Packet
		if p.Parse(b) != wire.WellFormed || !pseudo.VerifyWithID(b, 0) {
			broken++
			continue
		}
		sealed++
		if p.DestQP != ib.QP1 {
			continue
		}
		mads++
		const mad = 256 // bytes
		if len(p.Payload) == mad {
			t.Fatalf("% x has the length of a MAD", p.Payload)
		}
	}
	if all := broken + sealed; mads != all/4 || sealed != all/2 {
		t.Errorf("%d datagrams: %d with an ICRC that passes, of them %d for QP 1", all, sealed, mads)
	}
}
