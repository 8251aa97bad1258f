// SPDX-License-Identifier: BSD-2-Clause

package ntb

import (
	"net/netip"
	"slices"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/ntb/backend"
	"verbena/internal/ntb/rdma"
	"verbena/internal/ntb/window"
	"verbena/internal/sys/portshare"
)

// openPlace joins a hub. Our slot there is that of our queue pair numbers, so that a number names
// its process.
func (l *Device) openPlace(c *Config) (err error) {
	session := c.WindowBytes - c.MemoryBytes
	l.place, err = backend.Join(backend.PlaceConfig{Endpoint: c.Endpoint, Slot: l.eng.Slot(),
		SessionBytes: session, MemoryBytes: c.MemoryBytes})
	if err != nil {
		return err
	}
	l.memory = appMemory{window: window.New(l.place.Memory()), from: session}
	l.home = l.newLink() // which is never opened
	l.home.node.ReserveMemory(c.WindowBytes, c.MemoryBytes)
	return nil
}

func slotOf(q ib.QPN) int { return portshare.SlotOf(q) }

// has reports whether an address is our port's.
func (l *Device) has(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.addrs, a.WithZone(""))
}

// linkTo returns the link to a member, which is opened if there is none. The caller
// holds mu.
func (l *Device) linkTo(now monotime.Time, m backend.Member) *peerLink {
	if x := l.living(m); x != nil {
		return x
	}
	x := l.addLink(m)
	l.place.Want(m)
	return x
}

// living returns the link to a member that is open or is being opened, nil if
// there is none. The caller holds mu.
func (l *Device) living(m backend.Member) *peerLink {
	for _, x := range l.all {
		if x.peer == m && !x.over && x.graceEnd == monotime.Never {
			return x
		}
	}
	return nil
}

func (l *Device) addLink(m backend.Member) *peerLink {
	x := l.newLink()
	x.peer = m
	x.node.SetAddrs(l.addrs)
	size := uint64(len(l.place.Memory()))
	x.node.ReserveMemory(l.memory.from+size, size)
	for _, e := range l.exposed {
		_ = x.node.Expose(e.region, rdma.Piece(e.at, e.region.Length())) // it was exposed before
	}
	l.all = append(l.all, x)
	return x
}

// meet takes the links of a hub as they are opened, by us or by others.
func (l *Device) meet() {
	defer l.opening.Done()
	for l.wanted() {
		m, s, err := l.place.Next(openTimeout)
		switch {
		case err == nil:
			l.met(m, s)
		case err == backend.ErrTimeout:
		case err == backend.ErrGone:
			return
		default:
			l.missed(m)
		}
	}
}

// met gives a link to the peerLink of that member.
func (l *Device) met(m backend.Member, s *backend.Session) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		s.Close()
		s.Free()
		return
	}
	now := monotime.Now()
	l.place.Settled(m)
	x := l.living(m)
	if x != nil && x.link != nil { // that process is dead: a new one has its slot
		x.lose(now, backend.ErrLost)
		x.turn(now)
		x = nil
	}
	if x == nil {
		x = l.addLink(m)
	}
	x.session = s
	x.attach(now, s)
	x.leaveUnlock(now)
	l.eng.WakeBackground()
}

// missed flushes output for a member that is not there.
func (l *Device) missed(m backend.Member) {
	l.mu.Lock()
	now := monotime.Now()
	if x := l.living(m); x != nil && x.link == nil && !l.closed {
		x.node.LinkDown(now)
		x.over = true
		x.note()
	}
	l.deliverUnlock()
}

// forget forgets a link that is lost for good.
func (l *Device) forget(x *peerLink) {
	i := slices.Index(l.all, x)
	if i < 0 {
		return
	}
	l.all = slices.Delete(slices.Clone(l.all), i, i+1) // somebody may be going through it
	l.past.add(x.node)
	l.eng.EndAlarm(&x.alarm)
	x.free()
}

// Owner returns which process of a side has claimed a service id.
func (l *Device) Owner(side int, id uint64) (backend.Member, bool) {
	return l.place.Owner(side, id)
}

// Claim makes requests for a service id, at this side's port, come here.
//
// Errors: backend.ErrInUse if another process has it, or this one; the system's.
func (l *Device) Claim(id uint64) error { return l.place.Claim(id) }

// Unclaim ends Claim.
func (l *Device) Unclaim(id uint64) { l.place.Unclaim(id) }

// PeerAddrs returns the addresses of the ports that queue pairs may connect to. For a link that is
// the peer's: none while the link is down and until the peer has announced them. In a hub they are
// those of all members.
func (l *Device) PeerAddrs() (list []netip.Addr) {
	if !l.Shared() {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.Clone(l.home.node.PeerAddrs())
	}
	for _, m := range l.place.Members() {
		for _, a := range m.Addrs {
			if !slices.Contains(list, a) {
				list = append(list, a)
			}
		}
	}
	return list
}

// Told reports whether the peer of a link that is up has announced an address.
func (l *Device) Told(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.all, func(x *peerLink) bool {
		return slices.Contains(x.node.PeerAddrs(), a)
	})
}
