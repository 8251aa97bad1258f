// SPDX-License-Identifier: BSD-2-Clause

package udp

import (
	"net/netip"
	"testing"
)

func TestSourceOfTheWayToOurselves(t *testing.T) {
	for _, a := range []string{"127.0.0.1", "127.9.8.7", "::1"} {
		to := netip.MustParseAddr(a)
		want := to
		if to.Is4() {
			want = netip.MustParseAddr("127.0.0.1")
		}
		if got, err := SourceFor(netip.AddrPortFrom(to, 4791)); got != want {
			t.Errorf("to %v from %v, not %v: %v", to, got, want, err)
		}
	}
	if got, err := SourceFor(netip.MustParseAddrPort("[fe80::1%no-such-interface]:4791")); err == nil {
		t.Errorf("a source for an interface that is not there: %v", got)
	}
}
