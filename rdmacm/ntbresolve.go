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

// A search is an identifier whose peer is looked for: at the end of which link
// it is shows when the link is up.
type search struct {
	id    *ID
	from  state // of the identifier before
	peer  netip.AddrPort
	until monotime.Time
}

const (
	searchLimit = 5 * monotime.Second // without a deadline of the caller's
	searchPause = 5 * monotime.Millisecond
)

// byLink reports whether an address is to be looked for at the end of a link: the
// ID is for links, or may be, and the configuration says that it is there; or at our
// own end of a meeting place, and at no other device.
// The caller holds mu.
func (id *ID) byLink(dst netip.Addr) bool {
	switch {
	case id.kind == NTB && (id.said || id.state != stIdle):
		return true
	case id.said || id.state != stIdle || len(id.among) > 0 && !slices.Contains(id.among.Kinds(), NTB):
		return false
	case slices.Equal(id.among.Kinds(), []Kind{NTB}):
		return id.settleKind(NTB) == nil
	}
	infos, err := devicesOf(NTB)
	if err != nil {
		return false
	}
	for _, info := range infos {
		if len(id.among) > 0 && !id.among.Has(&info) {
			continue
		}
		if !info.NamesPort(dst) {
			continue
		}
		if now, err := id.mgr.opened(info); err == nil {
			info = now
		}
		if a, ok := info.PeerPort(); ok && a == dst {
			return id.settleKind(NTB) == nil
		}
		if _, err := id.mgr.locate(id.kind, dst); info.Shared() && errors.Is(err, syscall.ENODEV) { // our own side's, and nothing else's
			return id.settleKind(NTB) == nil
		}
	}
	return false
}

// search looks for a peer, now and until it is there. The caller holds id.mu.
func (n *ntbManager) search(ctx context.Context, id *ID, dst netip.AddrPort) {
	s := &search{id: id, from: id.state, peer: netip.AddrPortFrom(dst.Addr().Unmap().WithZone(""), dst.Port()), until: monotime.Now().Add(searchLimit)}
	if t, ok := ctx.Deadline(); ok {
		s.until = monotime.Now().Add(time.Until(t))
	}
	id.state = stResolving
	if n.tryLocked(s, monotime.Now()) {
		return
	}
	n.m.mu.Lock()
	n.looking = append(n.looking, s)
	n.m.mu.Unlock()
	n.m.kick()
}

// look goes on with searches, on the manager's goroutine.
func (n *ntbManager) look(now monotime.Time) (next monotime.Time, found bool) {
	n.m.mu.Lock()
	list := n.looking
	n.looking = nil
	n.m.mu.Unlock()
	var rest []*search
	for _, s := range list {
		s.id.mu.Lock()
		if s.id.state == stResolving && !n.tryLocked(s, now) {
			rest = append(rest, s)
		}
		s.id.mu.Unlock()
	}
	n.m.mu.Lock()
	n.looking = append(n.looking, rest...)
	next = monotime.Never
	if len(n.looking) > 0 {
		next = now.Add(searchPause)
	}
	n.m.mu.Unlock()
	return next, len(rest) < len(list)
}

// tryLocked ends a search if the peer is there, or if it has not come in time.
// The caller holds id.mu.
func (n *ntbManager) tryLocked(s *search, now monotime.Time) (over bool) {
	id := s.id
	at, err := n.whereIs(s)
	if err == nil && at.verbs == nil {
		if now.Before(s.until) {
			return false
		}
		err = fail(syscall.EHOSTUNREACH, "dst", "%v is at the other end of no link", s.peer.Addr())
	}
	id.state = s.from
	if err == nil {
		err = id.goOutFrom(at, s.peer)
	}
	id.resolvedTo(err)
	return true
}

// whereIs returns the local port whose link leads to the peer, none while there
// is none. In a meeting place a port leads to itself, too, unless another one is
// to lead there.
func (n *ntbManager) whereIs(s *search) (place, error) {
	infos, err := devicesOf(NTB)
	if err != nil {
		return place{}, err
	}
	local, dst := s.id.local.Addr(), s.peer.Addr()
	var refused error
	var itself netip.Addr
	elsewhere := false
	for _, info := range infos {
		if len(s.id.among) > 0 && !s.id.among.Has(&info) {
			continue
		}
		c, err := n.m.open(info.Name)
		if err != nil {
			refused = err
			continue
		}
		own, err := ownAddr(c, local, dst)
		if err != nil {
			return place{}, err
		}
		if !own.IsValid() {
			continue
		}
		info = c.Info()
		if a, ok := info.PeerPort(); ok && a == dst {
			elsewhere = true
		}
		if !slices.Contains((*core.Context)(c).NTB().PeerAddrs(), dst) {
			continue
		}
		if addrs, err := info.Addrs(); err == nil && slices.Contains(addrs, dst) {
			itself = own
			continue
		}
		return n.m.locate(NTB, own)
	}
	if itself.IsValid() && !elsewhere {
		return n.m.locate(NTB, itself)
	}
	if len(infos) == 0 {
		return place{}, fail(syscall.ENODEV, "kind", "there is no device of kind %s: name links in VERBENA_NTB", NTB)
	}
	if refused != nil && len(infos) == 1 {
		return place{}, refused
	}
	return place{}, nil
}

// ownAddr returns the address of a device's port to reach dst from: local, if the
// ID is bound to an address; else one of the same sort. It is not valid if the
// port has none, and an error if dst is this port itself.
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
			return netip.Addr{}, fail(syscall.EHOSTUNREACH, "dst", "%v is this end of the link: connections go to the other", dst)
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
