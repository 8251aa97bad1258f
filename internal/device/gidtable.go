// SPDX-License-Identifier: BSD-2-Clause

package device

import (
	"net/netip"
	"slices"
	"sync"

	"verbena/ib"
)

// A gidTable holds the addresses of an interface by their index in its GID table; the
// zero Addr is a free entry. An address keeps its index for as long as
// it lives, since address vectors and applications name it by that.
type gidTable []netip.Addr

// update brings the table up to the addresses that there are. Those that stay stay where they are,
// and the entries of those that are gone are free. New ones take the lowest free entries, in their
// order. Those that find no room are left out.
func (t gidTable) update(addrs []netip.Addr) gidTable {
	for i, a := range t {
		if !slices.Contains(addrs, a) {
			t[i] = netip.Addr{}
		}
	}
	free := 0
	for _, a := range addrs {
		if slices.Contains(t, a) {
			continue // it stays, or is listed with two prefixes
		}
		for free < len(t) && t[free].IsValid() {
			free++
		}
		switch {
		case free < len(t):
			t[free] = a
		case free < gidTableLen:
			t = append(t, a)
		}
	}
	for len(t) > 0 && !t[len(t)-1].IsValid() {
		t = t[:len(t)-1]
	}
	return t
}

// tables are the GID tables that this process has looked at: another process
// may have others, of addresses that came and went while it ran.
var tables = struct {
	mu sync.Mutex
	of map[string]gidTable                       // guarded by mu: by interface
	by func(netdev string) ([]netip.Addr, error) // guarded by mu: see ShareGIDTables
}{of: map[string]gidTable{}}

// ShareGIDTables makes this process's GID tables those that table returns: the C
// ABI has one before there is an engine, and both must count alike. It returns
// the addresses at their indices, the zero Addr where there is none. One goroutine at a time calls
// it.
func ShareGIDTables(table func(netdev string) ([]netip.Addr, error)) {
	tables.mu.Lock()
	defer tables.mu.Unlock()
	tables.by = table
}

// forgetTables drops those of interfaces that are not listed: these have no
// address, so nothing in them is worth keeping.
func forgetTables(listed []Info) {
	tables.mu.Lock()
	defer tables.mu.Unlock()
	for name := range tables.of {
		if !slices.ContainsFunc(listed, func(d Info) bool { return d.NetDev == name }) {
			delete(tables.of, name)
		}
	}
}

// AddrTable returns the unicast addresses of a device at their indices in its
// GID table, and the zero Addr where an entry is free. Link-local ones carry the
// interface as zone.
func (d *Info) AddrTable() ([]netip.Addr, error) {
	if d.Kind == KindNTB {
		return d.ntbAddrs(), nil
	}
	tables.mu.Lock()
	defer tables.mu.Unlock()
	if tables.by != nil {
		list, err := tables.by(d.NetDev)
		for i, a := range list {
			list[i] = d.zoned(a)
		}
		return list, err
	}
	// Read under the lock: a look must not undo the result of a later one.
	addrs, err := d.systemAddrs()
	if err != nil {
		return nil, err
	}
	t := tables.of[d.NetDev].update(addrs)
	tables.of[d.NetDev] = t
	return slices.Clone(t), nil
}

// Addrs returns the unicast addresses of a device in the order of its GID table.
func (d *Info) Addrs() ([]netip.Addr, error) {
	t, err := d.AddrTable()
	return slices.DeleteFunc(t, func(a netip.Addr) bool { return !a.IsValid() }), err
}

// GIDType is the type of the entries of the device's GID table.
func (d *Info) GIDType() ib.GIDType {
	if d.Kind == KindRoCE {
		return ib.GIDTypeRoCEv2
	}
	return ib.GIDTypeIB
}

// GIDs returns the entries of the device's GID table that are in use.
func (d *Info) GIDs() ([]ib.GIDEntry, error) {
	if d.Kind.IsIWARP() {
		return []ib.GIDEntry{{GID: d.macGID(), Type: d.GIDType(), NetDev: d.NetDev}}, nil
	}
	t, err := d.AddrTable()
	if err != nil {
		return nil, err
	}
	var out []ib.GIDEntry
	for i, a := range t {
		if a.IsValid() {
			out = append(out, ib.GIDEntry{Index: i, GID: ib.GIDFromAddr(a.WithZone("")),
				Type: d.GIDType(), NetDev: d.NetDev})
		}
	}
	return out, nil
}
