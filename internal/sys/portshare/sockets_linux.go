// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/udp"
)

// arrivalPatience bounds the wait for groups that a member or a process just ended has.
const arrivalPatience = 100 * time.Millisecond

// errOver says that this keeper cannot answer any more.
var errOver = errors.New("portshare: the keeper ends")

// noSlot asks for an address's group alone, whose first socket has the management datagrams.
const noSlot = -1

// socketOf returns the socket of a slot at an address, which the caller must not close; of
// noSlot it is the keeper's. The group is made or extended if need be.
func (k *keeper) socketOf(slot int, addr netip.Addr) (*udp.Socket, error) {
	start := time.Now()
	for p := (pause{}); ; p.wait() {
		awaited := k.awaited() // asked first: the process that holds the port may be gone after
		s, err := k.makeSocket(slot, addr)
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			return nil, &PortError{Addr: addr, Err: k.exhausted()}
		}
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
		if g, err = newGroup(addr, &k.rules); err != nil {
			return nil, err
		}
		if err := k.vault.put(vaultEntry{Addr: addr, Index: keeperIndex}, g.mads); err != nil {
			g.close()
			return nil, &PortError{Addr: addr, Err: err}
		}
		k.addGroup(g)
	}
	k.steer(g)
	if slot == noSlot {
		return g.mads, nil
	}
	if g.of[slot] == nil {
		c := vaultEntry{Addr: addr, Index: len(g.sockets), Slot: slot}
		err := g.extend(slot, func(s *udp.Socket) error { return k.vault.put(c, s) })
		if err != nil {
			return nil, err
		}
	}
	return g.of[slot], nil
}

// partOf returns the socket of a part of a slot, at an address where the slot has its own. With
// steered, datagrams go there from now on.
func (k *keeper) partOf(slot, part int, addr netip.Addr, steered bool) (*udp.Socket, error) {
	k.create <- struct{}{}
	defer func() { <-k.create }()
	k.mu.Lock()
	g, over := k.groups[addr.WithZone("")], k.over
	k.mu.Unlock()
	share := shareOf(slot, part)
	switch {
	case over:
		return nil, errOver
	case part < 0 || part >= Parts || g == nil || g.of[slot] == nil:
		return nil, &PortError{Addr: addr, Err: syscall.EINVAL}
	case steered:
		if err := g.steerPart(share); err != nil {
			return nil, &PortError{Addr: addr, Err: err}
		}
		return nil, nil
	}
	if _, ok := g.parts[share]; !ok && len(g.parts) == maxParts {
		return nil, &PortError{Addr: addr, Err: syscall.ENOSPC}
	}
	c := vaultEntry{Addr: addr, Index: len(g.sockets), Slot: slot, Part: &part}
	return g.openPart(share, func(s *udp.Socket) error { return k.vault.put(c, s) })
}

// steerParts steers to the parts that a member reads which had another keeper. Until that works the
// slot's other socket has their datagrams.
func (k *keeper) steerParts(slot int, parts []memberPart) {
	for _, p := range parts {
		_, _ = k.partOf(slot, p.Part, p.Addr, true)
	}
}

// exhausted is the error of a keeper without a descriptor.
func (k *keeper) exhausted() error {
	var limit unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // it does not fail
	k.mu.Lock()
	defer k.mu.Unlock()
	return fmt.Errorf("portshare: process %d, which keeps the port for %d processes at %d "+
		"addresses, has all its %d descriptors in use: raise the hard limit of the process that "+
		"starts first (ulimit -Hn, LimitNOFILE=): %w",
		os.Getpid(), len(k.peers), len(k.groups), limit.Cur, syscall.EMFILE)
}

// steer has the program of each interface steer datagrams to a group's address where it is an
// address of that interface now. The caller holds k.create.
func (k *keeper) steer(g *group) {
	for _, p := range k.frames {
		p.steer(g.addr.WithZone(""))
	}
}

// addGroup has the datagrams of a group's first socket passed on. The caller holds k.create.
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

// inherit takes new sockets from the vault of a keeper before this one.
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
	err := k.vault.adopt(end, k.known, func(c vaultEntry, fd int) {
		s, err := udp.Adopt(fd)
		if err != nil {
			return
		}
		g := k.groups[c.Addr.WithZone("")]
		first := g == nil && c.Index == keeperIndex
		next := g != nil && c.Index == len(g.sockets) && c.Slot >= 0 && c.Slot < Slots
		part := next && c.Part != nil && *c.Part >= 0 && *c.Part < Parts &&
			g.parts[shareOf(c.Slot, *c.Part)] == 0
		next = next && c.Part == nil && g.of[c.Slot] == nil
		switch {
		case part:
			g.addPart(shareOf(c.Slot, *c.Part), s)
		case !first && !next:
			s.Close() // most likely known already
		case first:
			g = newGroupOf(c.Addr, s)
			k.addGroup(g)
			k.steer(g)
		default:
			g.add(c.Slot, s)
		}
	})
	k.known[is.Ino] = err == nil
	for _, g := range k.groups { // the one before may have been killed before it did
		g.steer()
	}
}

// forget gives up all groups if nobody uses them. The caller is the goroutine that reads their
// first sockets.
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
		for _, p := range k.frames {
			p.steering.Remove(g.addr.WithZone(""))
		}
		k.lost.Add(g.mads.Counters().KernelDropped) // of the sum that droppedLocked makes
		g.close()
	}
	clear(k.groups)
	clear(k.polled)
	k.vault.close()
	k.vault = next
}
