// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"net/netip"
	"strconv"
	"strings"

	"verbena/internal/sys/portshare"
)

// The key that routes requests for a service id is the id and the scope of the listener: an
// address, all of a family, or all.
//
//	1060bb8/10.0.0.1    1060bb8/4    1060bb8/6    1060bb8/*
const (
	scopeAll = "*"
	scope4   = "4"
	scope6   = "6"
)

// serviceKey is the key of a listener.
func serviceKey(id uint64, scope netip.Addr) string {
	return string(appendServiceKey(nil, id, scope))
}

func appendServiceKey(b []byte, id uint64, scope netip.Addr) []byte {
	switch {
	case !scope.IsValid():
		return appendServiceScope(b, id, scopeAll)
	case scope.IsUnspecified():
		return appendServiceScope(b, id, familyOf(scope))
	}
	return scope.WithZone("").Unmap().AppendTo(appendServiceScope(b, id, ""))
}

func appendServiceScope(b []byte, id uint64, scope string) []byte {
	return append(append(strconv.AppendUint(b, id, 16), '/'), scope...)
}

// serviceKeys are the keys that a request to a local address may be for.
func serviceKeys(id uint64, dst netip.Addr) (k portshare.Keys) {
	var b [portshare.MaxKeyBytes]byte
	k.Add(appendServiceKey(b[:0], id, dst))
	k.Add(appendServiceScope(b[:0], id, familyOf(dst)))
	k.Add(appendServiceScope(b[:0], id, scopeAll))
	return k
}

func familyOf(a netip.Addr) string {
	if a.Unmap().Is4() {
		return scope4
	}
	return scope6
}

// keysOverlap reports whether there are requests that two listeners' keys are
// both for.
func keysOverlap(a, b string) bool {
	idA, scopeA, _ := strings.Cut(a, "/")
	idB, scopeB, _ := strings.Cut(b, "/")
	return idA == idB && (covers(scopeA, scopeB) || covers(scopeB, scopeA))
}

// covers reports whether every address of scope b is one of a.
func covers(a, b string) bool {
	if a == b || a == scopeAll {
		return true
	}
	addr, err := netip.ParseAddr(b)
	return err == nil && a == familyOf(addr)
}
