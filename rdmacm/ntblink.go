// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"verbena/ib"
	"verbena/internal/cm/ibcm"
	"verbena/internal/core"
	"verbena/internal/roce"
	"verbena/internal/transport/ntb"
	wire "verbena/internal/wire/ntb"
	"verbena/verbs"
)

// ntbLinks is the general services interface of NTB links: it carries MADs between the ports at a
// link's two ends. A peer's death shows by its link. In a shared-memory hub, whose port several
// processes have, each process claims the services that it listens for.
type ntbLinks struct {
	onChange func(l *ntbLink, c ntb.LinkChange) // immutable once links are there
	slot     int                                // immutable: of this process among those

	mu      sync.Mutex // locked before a hub's
	handler func(*roce.Meta, []byte)
	list    []*ntbLink // those that MADs are taken from
	claims  []claim    // the services that this process listens for

	bad atomic.Uint64 // malformed datagrams, or not between the two ports
}

// ntbLink is a link in use.
type ntbLink struct {
	*ntb.Device
	verbs *verbs.Context
	stop  func() // ends the notifications of the link's state
}

var _ gsi = (*ntbLinks)(nil)

// claim is a service id and the addresses of ours that it is claimed for.
type claim struct {
	id    uint64
	scope netip.Addr
}

// at reports whether it is one of a link's port.
func (s *claim) at(l *ntbLink) bool {
	return l.Shared() && (!s.scope.IsValid() || s.scope.IsUnspecified() || l.has(s.scope))
}

var errLink = errors.New("rdmacm: the link is down, or full")

// attach begins to take MADs from a device's link.
//
// Errors: EADDRINUSE if another process listens there for the same service.
func (s *ntbLinks) attach(c *verbs.Context) error {
	eng := (*core.Context)(c).NTB()
	s.mu.Lock()
	if slices.ContainsFunc(s.list, func(l *ntbLink) bool { return l.Device == eng }) {
		s.mu.Unlock()
		return nil
	}
	l := &ntbLink{Device: eng, verbs: c}
	claimed := map[uint64]bool{}
	for _, v := range s.claims {
		if !v.at(l) || claimed[v.id] {
			continue
		}
		if err := l.Claim(v.id); err != nil {
			for id := range claimed {
				l.Unclaim(id)
			}
			s.mu.Unlock()
			return claimError(err)
		}
		claimed[v.id] = true
	}
	s.list = append(s.list, l)
	s.mu.Unlock()
	l.stop = l.Watch(func(c ntb.LinkChange) { s.onChange(l, c) })
	l.OnMAD(func(p []byte) { s.take(l, p) })
	return nil
}

func claimError(err error) error {
	if errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("%w: %w", syscall.EADDRINUSE, err)
	}
	return err
}

// detachAll ends attach.
func (s *ntbLinks) detachAll() {
	s.mu.Lock()
	list := s.list
	s.list = nil
	s.mu.Unlock()
	for _, l := range list {
		l.OnMAD(nil)
		l.stop()
		for _, v := range s.claims {
			if v.at(l) {
				l.Unclaim(v.id)
			}
		}
	}
}

// addrs returns the addresses of our port.
func (l *ntbLink) addrs() []netip.Addr {
	info := l.verbs.Info()
	list, _ := info.Addrs() // those of a link are configured: it does not fail
	return list
}

// has reports whether an address is our port's.
func (l *ntbLink) has(a netip.Addr) bool { return slices.Contains(l.addrs(), a) }

// take takes a management datagram. The peer may write anything.
func (s *ntbLinks) take(l *ntbLink, p []byte) {
	m, _, ok := wire.ParseManagement(p)
	meta := roce.Meta{Src: m.Source.Addr(), Dst: m.Destination.Addr()}
	ok = ok && l.has(meta.Dst) && l.Told(meta.Src)
	if !ok {
		s.bad.Add(1)
		return
	}
	s.mu.Lock()
	h := s.handler
	s.mu.Unlock()
	if h != nil {
		h(&meta, m.MAD)
	}
}

// SendMAD sends a MAD over the link whose port has the source address. The link queues MADs for
// which its peer has no room now.
func (s *ntbLinks) SendMAD(src, dst netip.Addr, mad []byte) error {
	s.mu.Lock()
	list := s.list
	s.mu.Unlock()
	p := wire.Management{Source: ib.GIDFromAddr(src), Destination: ib.GIDFromAddr(dst),
		MAD: mad}.Append(make([]byte, 0, wire.ManagementBytes))
	for _, l := range list {
		if l.has(src) && l.Device.SendMAD(p) {
			return nil
		}
	}
	return errLink
}

func (s *ntbLinks) OnMAD(f func(*roce.Meta, []byte)) {
	s.mu.Lock()
	s.handler = f
	s.mu.Unlock()
}

func (*ntbLinks) OnCount([]string, func() []uint64)                    {}
func (*ntbLinks) OnLoss(func())                                        {}
func (*ntbLinks) Listen(netip.Addr) error                              { return nil }
func (*ntbLinks) Settle()                                              {}
func (*ntbLinks) SetWill(uint64, netip.Addr, netip.Addr, []byte) error { return nil }
func (*ntbLinks) ClearWill(uint64)                                     {}
func (s *ntbLinks) Slot() int                                          { return s.slot }

// ListenService claims a service id in the hubs whose ports are in the scope. There the id is one
// process's, in all scopes.
func (s *ntbLinks) ListenService(id uint64, scope netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := claim{id, scope}
	for i, l := range s.list {
		if !v.at(l) || s.claimed(l, id) {
			continue
		}
		if err := l.Claim(id); err != nil {
			for _, l := range s.list[:i] {
				s.unclaim(l, v)
			}
			return claimError(err)
		}
	}
	s.claims = append(s.claims, v)
	return nil
}

// UnlistenService ends ListenService.
func (s *ntbLinks) UnlistenService(id uint64, scope netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := claim{id, scope}
	if i := slices.Index(s.claims, v); i >= 0 {
		s.claims = slices.Delete(s.claims, i, i+1)
		for _, l := range s.list {
			s.unclaim(l, v)
		}
	}
}

// claimed reports whether one of the services is the reason that a link's port has
// an id.
func (s *ntbLinks) claimed(l *ntbLink, id uint64) bool {
	return slices.ContainsFunc(s.claims, func(v claim) bool { return v.id == id && v.at(l) })
}

func (s *ntbLinks) unclaim(l *ntbLink, v claim) {
	if v.at(l) && !s.claimed(l, v.id) {
		l.Unclaim(v.id)
	}
}

// lost reports whether a lost link carried a connection, or an attempt at one. In a hub the link
// must have led to the connection's process. While that process is unknown, it is the one that
// listened, unless another listens now.
func (l *ntbLink) lost(c ntb.LinkChange, x *ibcm.Lost) bool {
	switch {
	case !l.has(x.Path.Local):
		return false
	case !l.Shared():
		return true
	}
	side := 1 - l.Side()
	if l.has(x.Path.Remote) {
		side = l.Side()
	}
	if side != c.Peer.Side {
		return false
	}
	if x.Known {
		return int(x.Slot) == c.Peer.Slot
	}
	owner, found := l.Owner(side, uint64(x.ServiceID))
	return !found || owner == c.Peer
}
