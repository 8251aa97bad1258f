// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"verbena/internal/core"
	"verbena/internal/monotime"
	"verbena/verbs"
)

// peerLookup resolves the address of an identifier's peer over NTB. It completes when a link
// reports that address.
type peerLookup struct {
	id    *ID
	from  state // of the identifier before
	peer  netip.AddrPort
	until monotime.Time
}

const (
	lookupTimeout  = 5 * monotime.Second // where the caller's context has no deadline
	lookupInterval = 5 * monotime.Millisecond
)

// viaNTB reports whether the peer's address is reached over an NTB link, and makes the ID one for
// NTB then. The caller holds mu.
func (id *ID) viaNTB(dst netip.Addr) bool {
	if id.kindPinned || id.state != stIdle {
		return id.kind == NTB
	}
	if slices.Equal(id.allowed.Kinds(), []Kind{NTB}) || id.mayBe(NTB) && id.linkNames(dst) {
		return id.settleKind(NTB) == nil
	}
	return false
}

// linkNames reports whether the configuration of a link that the ID may use says that the link
// leads to dst.
func (id *ID) linkNames(dst netip.Addr) bool {
	infos, err := devicesOf(NTB)
	return err == nil && slices.ContainsFunc(infos, func(info verbs.DeviceInfo) bool {
		return id.mayUse(&info) && info.NamesPort(dst) && id.mgr.leadsTo(info, id.kind, dst)
	})
}

// leadsTo reports whether a link leads to an address that its configuration names: that of the
// other end, or in a shared-memory hub our own end's if no device of the kind has it.
func (m *manager) leadsTo(info verbs.DeviceInfo, kind Kind, dst netip.Addr) bool {
	if now, err := m.opened(info); err == nil {
		info = now
	}
	if a, ok := info.PeerPort(); ok && a == dst {
		return true
	}
	if !info.Shared() {
		return false
	}
	_, err := m.locate(kind, dst)
	return errors.Is(err, syscall.ENODEV)
}

// startLookup begins a lookup, which may complete at once. The caller holds id.mu.
func (n *ntbManager) startLookup(ctx context.Context, id *ID, dst netip.AddrPort) {
	s := &peerLookup{id: id, from: id.state,
		peer: netip.AddrPortFrom(dst.Addr().Unmap().WithZone(""),
			dst.Port()), until: monotime.Now().Add(lookupTimeout)}
	if t, ok := ctx.Deadline(); ok {
		s.until = monotime.Now().Add(time.Until(t))
	}
	id.state = stResolving
	if n.tryLocked(s, monotime.Now()) {
		return
	}
	n.m.mu.Lock()
	n.lookups = append(n.lookups, s)
	n.m.mu.Unlock()
	n.m.kick()
}

// pollLookups completes the lookups that can be, on the manager's goroutine.
func (n *ntbManager) pollLookups(now monotime.Time) (next monotime.Time, found bool) {
	n.m.mu.Lock()
	list := n.lookups
	n.lookups = nil
	n.m.mu.Unlock()
	var rest []*peerLookup
	for _, s := range list {
		s.id.mu.Lock()
		if s.id.state == stResolving && !n.tryLocked(s, now) {
			rest = append(rest, s)
		}
		s.id.mu.Unlock()
	}
	n.m.mu.Lock()
	n.lookups = append(n.lookups, rest...)
	next = monotime.Never
	if len(n.lookups) > 0 {
		next = now.Add(lookupInterval)
	}
	n.m.mu.Unlock()
	return next, len(rest) < len(list)
}

// tryLocked completes a lookup if the peer is there or the time is over. The caller holds id.mu.
func (n *ntbManager) tryLocked(s *peerLookup, now monotime.Time) (over bool) {
	id := s.id
	at, err := n.lookupPort(s)
	if err == nil && at.verbs == nil {
		if now.Before(s.until) {
			return false
		}
		err = fail(syscall.EHOSTUNREACH, "dst", "%v is at the other end of no link", s.peer.Addr())
	}
	id.state = s.from
	if err == nil {
		err = id.bindAndSetPeer(at, s.peer)
	}
	id.resolvedTo(err)
	return true
}

// lookupPort returns the local port whose link leads to the peer, the zero localAddr while none
// does. In a shared-memory hub a port leads to itself, too, unless the configuration has the peer
// at the other end of a link.
func (n *ntbManager) lookupPort(s *peerLookup) (localAddr, error) {
	infos, err := devicesOf(NTB)
	if err != nil {
		return localAddr{}, err
	}
	if len(infos) == 0 {
		return localAddr{}, fail(syscall.ENODEV, "kind",
			"there is no device of kind %s: name links in VERBENA_NTB", NTB)
	}
	var refused error
	var itself netip.Addr
	elsewhere := false
	for _, info := range infos {
		if !s.id.mayUse(&info) {
			continue
		}
		c, err := n.m.open(info.Name)
		if err != nil {
			refused = err
			continue
		}
		p, err := ntbPathTo(c, s.id.local.Addr(), s.peer.Addr())
		if err != nil {
			return localAddr{}, err
		}
		elsewhere = elsewhere || p.named
		switch {
		case !p.reached:
		case p.itself:
			itself = p.addr
		default:
			return n.m.locate(NTB, p.addr)
		}
	}
	if itself.IsValid() && !elsewhere {
		return n.m.locate(NTB, itself)
	}
	if len(infos) > 1 {
		refused = nil // another link may come up
	}
	return localAddr{}, refused
}

// ntbPath is the port of a link, and the state of an address dst as seen from there.
type ntbPath struct {
	addr    netip.Addr // to reach dst from; not valid if the port has none
	named   bool       // the configuration has dst at the other end
	reached bool       // the link has dst as a peer's
	itself  bool       // dst is the port's own
}

// ntbPathTo returns the state of dst seen from the port of a device. local is that of the ID.
func ntbPathTo(c *verbs.Context, local, dst netip.Addr) (p ntbPath, err error) {
	if p.addr, err = ownAddr(c, local, dst); err != nil || !p.addr.IsValid() {
		return p, err
	}
	info := c.Info()
	peer, ok := info.PeerPort()
	p.named = ok && peer == dst
	p.reached = slices.Contains((*core.Context)(c).NTB().PeerAddrs(), dst)
	own, err := info.Addrs()
	p.itself = err == nil && slices.Contains(own, dst)
	return p, nil
}

// ownAddr returns the address of a device's port to reach dst from: local, if the ID is bound to an
// address; else one of the same family, link-local for a link-local dst. It is not valid if the
// port has none.
//
// Errors: EHOSTUNREACH if dst is this port itself, and the link leads elsewhere.
func ownAddr(c *verbs.Context, local, dst netip.Addr) (netip.Addr, error) {
	info := c.Info()
	own, err := info.Addrs()
	if err != nil {
		return netip.Addr{}, err
	}
	if local.IsValid() && !local.IsUnspecified() {
		if !slices.Contains(own, local) {
			return netip.Addr{}, nil
		}
		if slices.Contains(own, dst) && !info.Shared() {
			return netip.Addr{}, fail(syscall.EHOSTUNREACH, "dst",
				"%v is this end of the link: connections go to the other", dst)
		}
		return local, nil
	}
	var found netip.Addr
	for _, a := range own {
		if a.Is4() != dst.Is4() {
			continue
		}
		if found = a; a.IsLinkLocalUnicast() == dst.IsLinkLocalUnicast() {
			break
		}
	}
	return found, nil
}
