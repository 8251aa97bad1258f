// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"net"
	"net/netip"
	"os"
	"time"

	"verbena/internal/sys/udp"
)

// reapPatience bounds how long a datagram waits for a member whose connection has ended
// and that lives.
const reapPatience = 2 * time.Second

// reap waits until a slot has no owner or is connected again. If the owner is
// dead it sends its wills.
func (k *keeper) reap(slot int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reapLocked(slot)
}

func (k *keeper) reapLocked(slot int) {
	if k.reaping[slot] || k.over {
		return
	}
	k.reaping[slot] = true
	k.gone.Add(1)
	go func() {
		defer k.gone.Done()
		k.awaitDeath(slot)
		k.mu.Lock()
		delete(k.reaping, slot)
		k.mu.Unlock()
		k.changed()
	}()
}

// awaitDeath ends as soon as the slot is free, or connected, or the keeper's role ends: the
// kernel closes a dead process's files one after the other, and a stopped one's not at all.
func (k *keeper) awaitDeath(slot int) {
	for p := (pause{}); ; p.wait() {
		k.mu.Lock()
		over := k.over || k.peers[slot] != nil
		k.mu.Unlock()
		if over {
			return
		}
		if !k.lock.try(byteOf(slot)) {
			continue
		}
		os.Remove(k.paths.meeting(slot))
		os.Remove(k.paths.stats(slot))
		k.sendWills(takeWills(k.paths.willFile(slot)))
		k.create <- struct{}{}
		for _, g := range k.groups {
			g.disown(slot)
		}
		k.leaveSeats(slot)
		<-k.create
		k.lock.unlock(byteOf(slot))
		return
	}
}

// sendWills sends the wills of a dead member.
func (k *keeper) sendWills(wills []Will) {
	sockets := map[netip.Addr]*udp.Socket{}
	for _, w := range wills {
		s, known := sockets[w.Local]
		if !known {
			var ours bool
			if s, ours = k.willSocket(w.Local); ours {
				defer s.Close()
			}
			sockets[w.Local] = s
		}
		if s != nil {
			s.WriteBatch([]udp.Datagrams{{Dst: w.Dst, Iov: [][]byte{w.Datagram}}})
		}
	}
}

// willSocket returns a socket to send from an address: that of its group, or where there is
// none one of the caller's own. It is nil if the address is gone, or somebody else's by now.
func (k *keeper) willSocket(addr netip.Addr) (s *udp.Socket, ours bool) {
	start := time.Now()
	for p := (pause{}); ; p.wait() {
		awaited := k.awaited() // asked first: it brings the group
		k.mu.Lock()
		g := k.groups[addr]
		k.mu.Unlock()
		if g != nil {
			return g.mads, false
		}
		s, err := udp.Listen(withZone(addr), Port, udp.Options{SendOnly: true})
		if err == nil {
			return s, true
		}
		if !awaited || time.Since(start) > reapPatience {
			return nil, false
		}
	}
}

// withZone returns a local address as the system wants it: a will has no room for the zone
// of a link-local one.
func withZone(a netip.Addr) netip.Addr {
	if !a.Is6() || !a.IsLinkLocalUnicast() {
		return a
	}
	all, _ := net.Interfaces() // of none the address is taken as it is
	for _, i := range all {
		addrs, _ := i.Addrs() // likewise
		for _, on := range addrs {
			if n, ok := on.(*net.IPNet); ok && n.IP.Equal(a.AsSlice()) {
				return a.WithZone(i.Name)
			}
		}
	}
	return a
}
