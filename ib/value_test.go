// SPDX-License-Identifier: BSD-2-Clause

package ib

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestMTU(t *testing.T) {
	for m, bytes := range map[MTU]int{0: 0, MTU256: 256, MTU512: 512, MTU1024: 1024, MTU2048: 2048, MTU4096: 4096, 6: 0} {
		if m.Bytes() != bytes || m.Valid() != (bytes != 0) {
			t.Errorf("code %d: %d bytes, valid %v", uint8(m), m.Bytes(), m.Valid())
		}
	}
	for bytes, want := range map[int]MTU{0: 0, 255: 0, 256: MTU256, 1023: MTU512, 1416: MTU1024, 65000: MTU4096} {
		if got := MTUFor(bytes); got != want {
			t.Errorf("%d bytes: path MTU %v, want %v", bytes, got, want)
		}
	}
}

// Partitions may talk if they are the same and not both members are limited.
func TestPKeyMatches(t *testing.T) {
	for _, c := range []struct {
		a, b PKey
		ok   bool
	}{
		{0xffff, 0xffff, true}, {0xffff, 0x7fff, true}, {0x7fff, 0xffff, true}, {0x7fff, 0x7fff, false},
		{0x8001, 0x8002, false}, {0x8000, 0x8000, false}, {0, 0x8000, false},
	} {
		if c.a.Matches(c.b) != c.ok || c.b.Matches(c.a) != c.ok {
			t.Errorf("%#x and %#x: want %v", c.a, c.b, c.ok)
		}
	}
}

func TestGID(t *testing.T) {
	v4, v6 := GIDFromAddr(netip.MustParseAddr("10.77.0.1")), GIDFromAddr(netip.MustParseAddr("ff02::1"))
	if s := v4.String(); s != "0000:0000:0000:0000:0000:ffff:0a4d:0001" {
		t.Error(s)
	}
	if v4.Addr() != netip.MustParseAddr("10.77.0.1") || v4.IsMulticast() || v4.IsZero() {
		t.Errorf("%v is not the GID of its address", v4)
	}
	if !v6.IsMulticast() || !(GID{}).IsZero() {
		t.Errorf("%v, %v", v6, GID{})
	}
}

// A region that peers may write must be writable by its owner.
func TestAccessValid(t *testing.T) {
	for a, ok := range map[Access]bool{
		0: true, AccessRemoteRead: true, AccessRemoteWrite: false, AccessRemoteAtomic: false,
		AccessLocalWrite | AccessRemoteWrite | AccessRemoteAtomic: true, 1 << 15: false, AccessRelaxedOrdering: true,
	} {
		if a.Valid() != ok {
			t.Errorf("%v: valid %v", a, a.Valid())
		}
	}
}

// Every value of an enumeration has words of its own, and one beyond has none.
func TestNames(t *testing.T) {
	for kind, c := range map[string]struct {
		n    int
		name func(int) string
	}{
		"WCStatus":  {int(WCTMRndvIncomplete) + 1, func(i int) string { return WCStatus(i).String() }},
		"QPState":   {int(QPErr) + 1, func(i int) string { return QPState(i).String() }},
		"EventType": {int(EventWQFatal) + 1, func(i int) string { return EventType(i).String() }},
		"VendorErr": {int(VendorSilent) + 1, func(i int) string { return VendorErr(i).String() }},
		"PortState": {int(PortActiveDefer) + 1, func(i int) string { return PortState(i).String() }},
	} {
		seen := map[string]bool{}
		for i := range c.n {
			name := c.name(i)
			if name == "" || strings.HasPrefix(name, "unknown") || seen[name] {
				t.Errorf("%s %d is %q", kind, i, name)
			}
			seen[name] = true
		}
		if seen[c.name(c.n)] {
			t.Errorf("%s %d, which there is not, is %q", kind, c.n, c.name(c.n))
		}
	}
}

func TestWCErr(t *testing.T) {
	if (&WC{}).Err() != nil {
		t.Error("success is an error")
	}
	err := (&WC{WRID: 7, QPN: 0x11, Status: WCRemAccessErr, VendorErr: VendorNAKAccess}).Err()
	var e *WCError
	if !errors.As(err, &e) || e.Status != WCRemAccessErr || err.Error() != "work request 7 of QP 0x000011: remote access error (NAK remote access error)" {
		t.Error(err)
	}
}
