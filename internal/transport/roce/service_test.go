// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"net/netip"
	"reflect"
	"testing"

	"verbena/internal/cm/ibcm"
	"verbena/internal/roce"
	"verbena/internal/sys/portshare"
	"verbena/internal/wire/cm"
	wire "verbena/internal/wire/roce"
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
				if got := keysContain(serviceKeys(7, dst), serviceKey(7, a)); got != takes(a, dst) {
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

func keysContain(keys portshare.Keys, key string) bool {
	for i := range keys.Len() {
		if string(keys.At(i)) == key {
			return true
		}
	}
	return false
}

// A REJ of a peer that never learnt our communication id names no process: it
// goes to all of them, rather than to none.
func TestRouteOfARejectThatNamesNobody(t *testing.T) {
	src, dst := netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("10.0.0.1")
	for remote, want := range map[uint32]portshare.Route{
		0:                         {To: portshare.ToAll},
		7 << (32 - ibcm.SlotBits): {To: portshare.ToSlot, Slot: 7},
	} {
		rej := cm.REJ{LocalCommID: 5, RemoteCommID: remote, Reason: cm.RejTimeout}
		mad := rej.Append(cm.NewHeader(cm.AttrREJ, 1).Append(nil))
		pseudo := wire.NewPseudo(src, dst, 49152, roce.UDPPort)
		if got := route(appendMAD(nil, &pseudo, mad), dst); !reflect.DeepEqual(got, want) {
			t.Errorf("a REJ for id %#x goes to %+v, want %+v", remote, got, want)
		}
	}
}
