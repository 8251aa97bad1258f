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

// group is the sockets of one address. Its set is fixed for its life.
type group struct {
	addr    netip.Addr
	sockets [Slots]*udp.Socket
}

// newGroup binds the sockets of addr in the order of their slots.
func newGroup(addr netip.Addr, all *Options) (*group, error) {
	o := all.Socket
	// A socket that does not share tells whether anybody has the port: another
	// user's processes, the kernel, or a program of ours that would share it
	// but is not of this group.
	o.ReusePort = false
	probe, err := udp.Listen(addr, Port, o)
	if err != nil {
		return nil, &PortError{Addr: addr, Err: err}
	}
	if err := probe.Close(); err != nil {
		return nil, &PortError{Addr: addr, Err: err}
	}
	o.ReusePort = true
	g := &group{addr: addr}
	for i := range g.sockets {
		s, err := udp.Listen(addr, Port, o)
		if err == nil && i == 0 {
			g.sockets[0] = s
			if err = s.Steer(steering); err == nil {
				err = s.Filter(management(all))
			}
		} else if err == nil && i > 0 {
			err = errors.Join(s.SetReceiveBuffer(unownedBytes), s.Filter(nothing))
		}
		if s != nil {
			g.sockets[i] = s
		}
		if err != nil {
			g.close()
			return nil, &PortError{Addr: addr, Err: err}
		}
	}
	return g, nil
}

// own readies a slot's socket for its new owner. Nothing comes before that one is to
// read it.
func (g *group) own(slot, bytes int) {
	s := g.sockets[slot]
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

// disown readies it for nobody.
func (g *group) disown(slot int) {
	g.sockets[slot].Filter(nothing)
	g.sockets[slot].SetReceiveBuffer(unownedBytes)
}

// pass has a slot's socket take what is for some numbers, or everything.
func (g *group) pass(slot int, n *Numbers) {
	s := g.sockets[slot]
	if n == nil || s.Filter(n.filter()) != nil {
		s.Filter(nil) // without memory for a filter too: what is for somebody comes
	}
}

// sendWill sends a dead member's datagram.
func (g *group) sendWill(w Will) { sendWill(g.sockets[0], w) }

func sendWill(s *udp.Socket, w Will) {
	s.WriteBatch([]udp.Datagrams{{Dst: w.Dst, Iov: [][]byte{w.Datagram}}})
}

// close gives up this process's descriptors.
func (g *group) close() {
	for _, s := range g.sockets {
		if s != nil {
			s.Close()
		}
	}
}
