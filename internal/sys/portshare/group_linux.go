// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"net/netip"

	"verbena/internal/sys/udp"
)

// unownedBytes is the receive buffer of a socket nobody reads: datagrams for a slot without owner
// must not fill the system's memory.
const unownedBytes = 1

// maxStale bounds the datagrams a new owner throws away, should they arrive as
// fast as they are read.
const maxStale = 1 << 14

// group is the sockets of one address, by index: the keeper's, and one for each slot whose
// owner has asked for it. It only grows: a socket that left would have the last one take its
// index. The next owner of a slot has the last one's socket.
type group struct {
	addr    netip.Addr          // immutable
	mads    *udp.Socket         // immutable: the keeper's
	sockets []*udp.Socket       // guarded by keeper.create
	of      map[int]*udp.Socket // guarded by keeper.create: by slot
	table   steeringTable       // guarded by keeper.create
}

// newGroupOf makes a group of the keeper's socket.
func newGroupOf(addr netip.Addr, mads *udp.Socket) *group {
	return &group{addr: addr, mads: mads, sockets: []*udp.Socket{mads}, of: map[int]*udp.Socket{}}
}

// add puts the next socket into the group, a slot's.
func (g *group) add(slot int, s *udp.Socket) {
	g.table.set(slot, len(g.sockets))
	g.sockets = append(g.sockets, s)
	g.of[slot] = s
}

// steer has the kernel steer to all sockets.
func (g *group) steer() error { return g.mads.Steer(g.table.steering()) }

// newGroup binds the keeper's socket of addr.
func newGroup(addr netip.Addr, d *MADRules) (*group, error) {
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
	g := newGroupOf(addr, s)
	if err := errors.Join(g.steer(), s.Filter(management(d))); err != nil {
		g.close()
		return nil, &PortError{Addr: addr, Err: err}
	}
	return g, nil
}

// extend binds a slot's socket, has it kept before it is steered to, and then steers to it.
func (g *group) extend(slot int, keep func(*udp.Socket) error) error {
	s, err := udp.Listen(g.addr, Port, udp.Options{ReusePort: true})
	if err != nil {
		return &PortError{Addr: g.addr, Err: err}
	}
	if err = errors.Join(s.SetReceiveBuffer(unownedBytes), s.Filter(nothing)); err == nil {
		err = keep(s)
	}
	if err != nil {
		s.Close()
		return &PortError{Addr: g.addr, Err: err}
	}
	g.add(slot, s)
	if err := g.steer(); err != nil {
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
	if s := g.of[slot]; s != nil {
		s.Filter(nothing)
		s.SetReceiveBuffer(unownedBytes)
	}
}

// pass makes a slot's socket take datagrams for some numbers, or all.
func pass(s *udp.Socket, n *Numbers) {
	if n == nil || s.Filter(n.filter()) != nil {
		s.Filter(nil) // there is no memory for a filter either: the owner's datagrams come
	}
}

// close gives up this process's descriptors.
func (g *group) close() { closeSockets(g.sockets) }

func closeSockets(all []*udp.Socket) {
	for _, s := range all {
		s.Close()
	}
}
