// SPDX-License-Identifier: BSD-2-Clause

package ud

import (
	"net/netip"

	"verbena/ib"
	"verbena/internal/queue"
	"verbena/internal/roce"
)

// pathCache keeps the destinations used last, so that a packet costs no
// allocation and packets to one destination share a burst.
type pathCache struct {
	entries [cachedPaths]pathEntry
	next    int // the one to replace
}

// cachedPaths is small because it is searched from end to end: a server that
// answers more peers than this in turn makes a path a message, some 200 ns.
const cachedPaths = 8

type pathEntry struct {
	key  pathKey
	path *roce.Path
}

// pathKey is the address vector of a work request.
type pathKey struct {
	src       netip.AddrPort
	dst       netip.Addr
	sgid      uint8
	tclass    uint8
	hopLimit  uint8
	flowLabel uint32
}

// pathTo returns the path that w asks for, nil where the GID index has no
// address or one of the other family.
func (q *QP) pathTo(w *queue.SendWQE) *roce.Path {
	k := pathKey{q.cfg.Source(w.SGIDIndex), w.Dst, w.SGIDIndex, w.TrafficClass, w.HopLimit,
		w.FlowLabel}
	c := &q.paths
	for i := range c.entries {
		if e := &c.entries[i]; e.path != nil && e.key == k {
			return e.path
		}
	}
	if !k.src.IsValid() || !k.dst.IsValid() || k.src.Addr().Is4() != k.dst.Is4() {
		return nil
	}
	p := roce.NewPath(k.src.Addr(), k.src.Port(), &ib.GRH{
		DGID: ib.GIDFromAddr(k.dst), FlowLabel: k.flowLabel, SGIDIndex: k.sgid,
		HopLimit: k.hopLimit, TrafficClass: k.tclass,
	})
	c.entries[c.next] = pathEntry{k, p}
	c.next = (c.next + 1) % cachedPaths
	return p
}
