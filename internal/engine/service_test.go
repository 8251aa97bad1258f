package engine

import (
	"net/netip"
	"slices"
	"testing"
)

// A request finds the listener of its address, and two listeners overlap just
// if there is a request that both would get.
func TestServiceKeys(t *testing.T) {
	scopes := []netip.Addr{
		{}, netip.IPv4Unspecified(), netip.IPv6Unspecified(), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"),
		netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fe80::1%lo"),
	}
	requests := []netip.Addr{
		netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3"), netip.MustParseAddr("fd00::1"),
		netip.MustParseAddr("fe80::1"), netip.MustParseAddr("fe80::2"),
	}
	takes := func(scope, dst netip.Addr) bool {
		switch {
		case !scope.IsValid():
			return true
		case scope.IsUnspecified():
			return scope.Is4() == dst.Is4()
		}
		return scope.WithZone("") == dst
	}
	for _, a := range scopes {
		for _, b := range scopes {
			both := false
			for _, dst := range requests {
				if got := slices.Contains(serviceKeys(7, dst), serviceKey(7, a)); got != takes(a, dst) {
					t.Errorf("a request to %v for a listener of %v: %t", dst, a, got)
				}
				both = both || takes(a, dst) && takes(b, dst)
			}
			if got := keysOverlap(serviceKey(7, a), serviceKey(7, b)); got != both {
				t.Errorf("%v and %v overlap: %t, want %t", a, b, got, both)
			}
			if keysOverlap(serviceKey(7, a), serviceKey(8, b)) {
				t.Errorf("%v and %v of different services overlap", a, b)
			}
		}
	}
}
