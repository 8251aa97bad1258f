// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"syscall"

	"verbena/internal/sys/udp"
)

// unownedBytes is the receive buffer of a socket nobody reads: datagrams for a slot without owner
// must not fill the system's memory.
const unownedBytes = 1

// maxStale bounds the datagrams a new owner throws away, should they arrive as
// fast as they are read.
const maxStale = 1 << 14

// group is the sockets of one address, by index: the keeper's, and one for each slot, and part of
// a slot, whose owner has asked for it. It only grows: a socket that left would have the last one
// take its index. The next owner of a slot has the last one's sockets.
type group struct {
	addr    netip.Addr          // immutable
	mads    *udp.Socket         // immutable: the keeper's
	sockets []*udp.Socket       // guarded by keeper.create
	of      map[int]*udp.Socket // guarded by keeper.create: by slot
	table   steeringTable       // guarded by keeper.create

	parts map[Share]int // guarded by keeper.create: indices of the parts' sockets
	// guarded by keeper.create: the parts that are steered to these, in order. The owner of the
	// slot reads them
	steered []steeredPart
}

// newGroupOf makes a group of the keeper's socket.
func newGroupOf(addr netip.Addr, mads *udp.Socket) *group {
	return &group{addr: addr, mads: mads, sockets: []*udp.Socket{mads}, of: map[int]*udp.Socket{},
		parts: map[Share]int{}}
}

// add puts the next socket into the group, a slot's.
func (g *group) add(slot int, s *udp.Socket) {
	g.table.set(slot, len(g.sockets))
	g.sockets = append(g.sockets, s)
	g.of[slot] = s
}

// steer has the kernel steer to all sockets.
func (g *group) steer() error { return g.mads.Steer(g.table.steering(g.steered)) }

// addPart puts the next socket into the group, that of a part. Nothing is steered to it yet.
func (g *group) addPart(share Share, s *udp.Socket) {
	g.parts[share] = len(g.sockets)
	g.sockets = append(g.sockets, s)
}

// steerPart has datagrams for a part go to its socket.
func (g *group) steerPart(share Share) error {
	if _, ok := g.parts[share]; !ok {
		return syscall.EINVAL
	}
	i, found := slices.BinarySearchFunc(g.steered, share, func(p steeredPart, s Share) int {
		return cmp.Compare(p.share, s)
	})
	if !found {
		g.steered = append(g.steered, steeredPart{})
		copy(g.steered[i+1:], g.steered[i:])
		g.steered[i] = steeredPart{share, g.parts[share]}
	}
	return g.steer()
}

// steersPart reports whether datagrams for a part go to its socket.
func (g *group) steersPart(share Share) bool {
	return slices.ContainsFunc(g.steered, func(p steeredPart) bool { return p.share == share })
}

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
	s, err := g.bind(keep)
	if err != nil {
		return err
	}
	g.add(slot, s)
	if err := g.steer(); err != nil {
		return &PortError{Addr: g.addr, Err: err}
	}
	return nil
}

// bind binds the next socket, which takes nothing, and has it kept.
func (g *group) bind(keep func(*udp.Socket) error) (*udp.Socket, error) {
	s, err := udp.Listen(g.addr, Port, udp.Options{ReusePort: true})
	if err != nil {
		return nil, &PortError{Addr: g.addr, Err: err}
	}
	if err = errors.Join(s.SetReceiveBuffer(unownedBytes), s.Filter(nothing)); err == nil {
		err = keep(s)
	}
	if err != nil {
		s.Close()
		return nil, &PortError{Addr: g.addr, Err: err}
	}
	return s, nil
}

// openPart returns the socket of a part, which takes all that is steered to it. It is bound and
// kept if need be.
func (g *group) openPart(share Share, keep func(*udp.Socket) error) (*udp.Socket, error) {
	i, ok := g.parts[share]
	if !ok {
		s, err := g.bind(keep)
		if err != nil {
			return nil, err
		}
		i = len(g.sockets)
		g.addPart(share, s)
	}
	s := g.sockets[i]
	if g.steersPart(share) { // the owner has it
		return s, nil
	}
	own(s, 0)
	pass(s, nil)
	return s, nil
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

// disown readies a slot's sockets, if there are any, for nobody.
func (g *group) disown(slot int) {
	if s := g.of[slot]; s != nil {
		s.Filter(nothing)
		s.SetReceiveBuffer(unownedBytes)
	}
	before := len(g.steered)
	g.steered = slices.DeleteFunc(g.steered, func(p steeredPart) bool {
		return p.share.slot() == slot
	})
	if len(g.steered) == before {
		return
	}
	_ = g.steer() // a smaller program than the one there is
	for part := range Parts {
		if i, ok := g.parts[shareOf(slot, part)]; ok {
			g.sockets[i].Filter(nothing)
			g.sockets[i].SetReceiveBuffer(unownedBytes)
		}
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
