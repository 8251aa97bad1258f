// SPDX-License-Identifier: BSD-2-Clause

package frames

import (
	"net"
	"net/netip"
	"sync"

	"verbena/internal/engine"
	"verbena/internal/monotime"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/portshare"
	"verbena/internal/sys/udp"
	"verbena/internal/sys/xsk"
)

// Set holds the seats of an engine. Its methods may be called concurrently after Open.
type Set struct {
	engine.BaseComponent

	// immutable after Open
	eng    *engine.Engine
	member portshare.Member
	lookUp xsk.LookUp
	seats  map[int]*xsk.Socket // by index of the interface

	takers sync.Map // place: Taker
}

// place is a port at an interface: several may have one link-local address.
type place struct {
	iface int
	port  netip.AddrPort // without zone
}

// Taker takes the datagrams of a port. The caller holds the lock of the ring that it reads.
type Taker interface {
	TakeFrames(now monotime.Time, m []udp.Message)
}

// Of returns the engine's Set, which is empty unless Open was called.
func Of(e *engine.Engine) *Set {
	return engine.ComponentOf(e, func(e *engine.Engine) *Set { return &Set{eng: e} })
}

// Open takes seats at interfaces. lookUp is nil for the kernel's tables. Close ends it, also after
// an error.
func (s *Set) Open(m portshare.Member, lookUp xsk.LookUp, list []portshare.Interface) error {
	s.member, s.lookUp, s.seats = m, lookUp, map[int]*xsk.Socket{}
	for _, i := range list {
		sock, err := m.Frames(i)
		if err != nil {
			return err
		}
		s.seats[sock.Interface()] = sock
	}
	return nil
}

// Sockets returns the seats, by index of the interface.
func (s *Set) Sockets() map[int]*xsk.Socket {
	all := map[int]*xsk.Socket{}
	for i, at := range s.seats {
		all[i] = at
	}
	return all
}

// Close implements engine.Component. Nobody sends or reads any more.
func (s *Set) Close() error {
	for _, at := range s.seats {
		at.Close()
	}
	return nil
}

// Counters returns the sum of the counts.
func (s *Set) Counters() (sum xsk.Counters) {
	for _, at := range s.seats {
		sum.Add(at.Counters())
	}
	return sum
}

// at returns the seat at the interface of an address, nil if there is none.
func (s *Set) at(a netip.Addr) *xsk.Socket {
	if len(s.seats) == 0 {
		return nil
	}
	return s.seats[InterfaceOf(a)]
}

// Source has datagrams from a socket's address and port leave by the frames of the address's
// interface. They have UDP checksums if fill says so. It is nil if that interface has no seat.
func (s *Set) Source(addr netip.Addr, sock *udp.Socket, fill bool) faultcap.Socket {
	at := s.at(addr)
	if at == nil {
		return nil
	}
	return at.Source(sock, s.lookUp, fill)
}

// Steer has datagrams to a socket's address and port go to t, where they come by frames. The
// function that it returns ends that. It is to be called before the socket is closed, and is nil
// where all datagrams come by the socket.
func (s *Set) Steer(addr netip.Addr, sock *udp.Socket, t Taker) (end func()) {
	at := s.at(addr)
	if at == nil {
		return nil
	}
	own := sock.LocalAddr()
	key := place{at.Interface(), netip.AddrPortFrom(own.Addr().Unmap().WithZone(""), own.Port())}
	s.takers.Store(key, t)
	if err := s.member.SteerPort(at.Interface(), sock); err != nil {
		s.takers.Delete(key) // the port is steered no more, or the table is full
		return nil
	}
	return func() {
		if s.eng.Closed() == nil { // else all ports go with the seat
			s.member.UnsteerPort(at.Interface(), own)
		}
		s.takers.CompareAndDelete(key, t)
	}
}

// Deliver gives datagrams that came by an interface, to one port, to its Taker. It reports false if
// there is none.
func (s *Set) Deliver(now monotime.Time, iface int, m []udp.Message) bool {
	t, ok := s.takers.Load(place{iface, netip.AddrPortFrom(m[0].Dst, m[0].Port)})
	if ok {
		t.(Taker).TakeFrames(now, m)
	}
	return ok
}

// InterfaceOf returns the index of the interface that has an address, 0 if none has.
func InterfaceOf(a netip.Addr) int {
	ifs, err := net.Interfaces()
	if err != nil {
		return 0
	}
	for _, i := range ifs {
		addrs, err := i.Addrs()
		if err != nil || a.Zone() != "" && a.Zone() != i.Name {
			continue
		}
		for _, n := range addrs {
			if p, err := netip.ParsePrefix(n.String()); err == nil && p.Addr() == a.WithZone("") {
				return i.Index
			}
		}
	}
	return 0
}
