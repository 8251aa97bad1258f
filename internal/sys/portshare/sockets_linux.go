// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/udp"
)

// arrivalPatience bounds the wait for groups that a member or a process just ended has.
const arrivalPatience = 100 * time.Millisecond

// errOver says that this keeper cannot answer any more.
var errOver = errors.New("share: the keeper ends")

// socketOf returns the socket of a slot at an address, which the caller must not close. The
// group is made or extended if need be.
func (k *keeper) socketOf(slot int, addr netip.Addr) (*udp.Socket, error) {
	start := time.Now()
	for p := (pause{}); ; p.wait() {
		awaited := k.awaited() // asked first: who holds the port may be gone after
		s, err := k.makeSocket(slot, addr)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return s, err
		}
		// A group may be ours and not known here yet: a member that has not
		// connected again has it, or the kernel is about to close the last of it.
		grace := arrivalPatience
		if awaited {
			grace = reapPatience
		}
		if time.Since(start) > grace {
			return nil, err
		}
	}
}

func (k *keeper) makeSocket(slot int, addr netip.Addr) (*udp.Socket, error) {
	k.create <- struct{}{}
	defer func() { <-k.create }()
	k.mu.Lock()
	g, over := k.groups[addr.WithZone("")], k.over
	k.mu.Unlock()
	if over {
		return nil, errOver
	}
	if g == nil {
		var err error
		if g, err = newGroup(addr, &k.duty); err != nil {
			return nil, err
		}
		if err := k.vault.put(addr, 0, g.sockets); err != nil {
			g.close()
			return nil, &PortError{Addr: addr, Err: err}
		}
		k.addGroup(g)
	}
	if i := indexOf(slot); i >= len(g.sockets) {
		n := spanOf(slot) + firstIndex
		if err := g.extend(n, func(first int, s []*udp.Socket) error { return k.vault.put(addr, first, s) }); err != nil {
			return nil, err
		}
	}
	return g.sockets[indexOf(slot)], nil
}

// addGroup has the datagrams of a group's first socket passed on.
func (k *keeper) addGroup(g *group) {
	s := g.mads
	k.mu.Lock()
	defer k.mu.Unlock()
	k.groups[g.addr.WithZone("")] = g
	k.polled[uint64(s.FD())] = s
	k.poller.Add(s, uint64(s.FD()))
}

// awaited reports whether there are members that have not connected yet.
func (k *keeper) awaited() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for slot := range k.reaping {
		if k.peers[slot] == nil && k.lock.owned(slot) {
			return true
		}
	}
	return false
}

// inherit takes what it does not know from the vault of a keeper before this one.
func (k *keeper) inherit(end int) {
	var is unix.Stat_t
	if unix.Fstat(end, &is) != nil {
		return
	}
	k.create <- struct{}{}
	defer func() { <-k.create }()
	if k.known[is.Ino] {
		return
	}
	err := peekVault(end, func(addr netip.Addr, first int, fds []int) {
		var all []*udp.Socket
		for _, fd := range fds {
			if s, err := udp.Adopt(fd); err == nil {
				all = append(all, s)
			}
		}
		g := k.groups[addr.WithZone("")]
		switch {
		case len(all) < len(fds), g == nil && first != 0, g != nil && first != len(g.sockets),
			k.vault.put(addr, first, all) != nil:
			closeSockets(all) // most likely known already
		case g == nil:
			k.addGroup(&group{addr: addr, mads: all[keeperIndex], sockets: all})
		default:
			g.sockets = append(g.sockets, all...)
		}
	})
	k.known[is.Ino] = err == nil
	for _, g := range k.groups { // the one before may have been killed before it did
		g.mads.Steer(steering(len(g.sockets)))
	}
}

// forget gives up all groups if nobody uses them. The caller is who reads their first
// sockets.
func (k *keeper) forget() {
	k.create <- struct{}{}
	defer func() { <-k.create }()
	next, err := newVault()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unused = false
	if err != nil {
		return // they go with the keeper
	}
	if !k.idleLocked() || k.over {
		next.close()
		return
	}
	for _, g := range k.groups {
		k.poller.Remove(g.mads)
		g.close()
	}
	clear(k.groups)
	clear(k.polled)
	k.vault.close()
	k.vault = next
}
