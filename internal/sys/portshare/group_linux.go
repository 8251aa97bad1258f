// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"net/netip"

	"verbena/internal/sys/udp"
)

// unownedBytes is the receive buffer of a socket nobody reads: what arrives for
// a slot without owner must not fill the system's memory.
const unownedBytes = 1

// maxStale bounds the datagrams a new owner throws away, should they arrive as
// fast as they are read.
const maxStale = 1 << 14

// group is the sockets of one address, by index. It only grows: a socket that left would
// have the last one take its index.
type group struct {
	addr    netip.Addr    // immutable
	mads    *udp.Socket   // immutable: the keeper's
	sockets []*udp.Socket // guarded by keeper.create
}

// newGroup binds the keeper's socket of addr.
func newGroup(addr netip.Addr, d *Duty) (*group, error) {
	// A socket that does not share tells whether anybody has the port: another
	// user's processes, the kernel, or a program of ours that would share it
	// but is not of this group.
	probe, err := udp.Listen(addr, Port, udp.Options{})
	if err != nil {
		return nil, &PortError{Addr: addr, Err: err}
	}
	if err := probe.Close(); err != nil {
		return nil, &PortError{Addr: addr, Err: err}
	}
	s, err := udp.Listen(addr, Port, udp.Options{ReusePort: true})
	if err != nil {
		return nil, &PortError{Addr: addr, Err: err}
	}
	g := &group{addr: addr, mads: s, sockets: []*udp.Socket{s}}
	if err := errors.Join(s.Steer(steering(1)), s.Filter(management(d))); err != nil {
		g.close()
		return nil, &PortError{Addr: addr, Err: err}
	}
	return g, nil
}

// extend binds sockets up to n in all, has each of them kept before it is steered to, and
// then steers to them.
func (g *group) extend(n int, keep func(first int, s []*udp.Socket) error) error {
	var more []*udp.Socket
	fail := func(err error) error {
		closeSockets(more)
		return &PortError{Addr: g.addr, Err: err}
	}
	for len(g.sockets)+len(more) < n {
		s, err := udp.Listen(g.addr, Port, udp.Options{ReusePort: true})
		if err != nil {
			return fail(err)
		}
		more = append(more, s)
		if err := errors.Join(s.SetReceiveBuffer(unownedBytes), s.Filter(nothing)); err != nil {
			return fail(err)
		}
	}
	if err := keep(len(g.sockets), more); err != nil {
		return fail(err)
	}
	g.sockets = append(g.sockets, more...)
	if err := g.mads.Steer(steering(len(g.sockets))); err != nil {
		return &PortError{Addr: g.addr, Err: err}
	}
	return nil
}

// own readies a slot's socket for its new owner. Nothing comes before that one is to
// read it.
func own(s *udp.Socket, bytes int) {
	s.Filter(nothing)
	s.SetReceiveBuffer(bytes)
	b := udp.NewRxBatch()
	for stale := 0; stale < maxStale; {
		n, err := s.ReadBatch(b)
		if n == 0 || err != nil {
			return
		}
		stale += n
	}
}

// disown readies a slot's socket, if there is one, for nobody.
func (g *group) disown(slot int) {
	if i := indexOf(slot); i < len(g.sockets) {
		g.sockets[i].Filter(nothing)
		g.sockets[i].SetReceiveBuffer(unownedBytes)
	}
}

// pass has a slot's socket take what is for some numbers, or everything.
func pass(s *udp.Socket, n *Numbers) {
	if n == nil || s.Filter(n.filter()) != nil {
		s.Filter(nil) // without memory for a filter too: what is for somebody comes
	}
}

// close gives up this process's descriptors.
func (g *group) close() { closeSockets(g.sockets) }

func closeSockets(all []*udp.Socket) {
	for _, s := range all {
		s.Close()
	}
}
