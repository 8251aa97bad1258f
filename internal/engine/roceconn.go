// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/sys/udp"
)

// roceConn is a queue pair of RoCEv2: its packets go out in trains of datagrams
// from sockets of its own and come in over the port of their destination
// address, which finds it by its number.
type roceConn struct {
	Conn

	// guarded by mu
	packets roce.Machine      // Conn.machine
	acked   roce.Acknowledged // the same where it is one; else nil. Immutable
	sources []*source         // the sockets packets leave by, one a source address
	late    late

	// guarded by mu: of a connected queue pair whose peer may be on this host
	path     *roce.Path
	ring     *ringOut // packets leave by it; nil: by sockets
	tag      uint32   // what packets to the peer carry in a ring
	peerSlot int      // the process that packets may come from in a ring
	peerTag  uint32   // and what they carry
	question question
}

// NewConn makes a queue pair of RoCEv2. Its counters go to the account.
// makeMachine is called with its number; onEvent later, without locks, with each
// event.
func (e *Engine) NewConn(account *Account, makeMachine func(ib.QPN) roce.Machine, onEvent func(ib.EventType)) (*Conn, error) {
	c := &roceConn{}
	err := e.newConn(account, onEvent, &c.Conn, func(qpn ib.QPN) {
		c.packets = makeMachine(qpn)
		c.acked, _ = c.packets.(roce.Acknowledged)
		c.machine, c.way, c.roce = c.packets, c, c
	})
	if err != nil {
		return nil, err
	}
	return &c.Conn, nil
}

func (c *roceConn) modification(attr *ib.QPAttr, mask ib.QPAttrMask, src netip.Addr) (func(monotime.Time), error) {
	var path *roce.Path
	if mask&ib.QPAV != 0 {
		port, err := c.Bind(src)
		if err != nil {
			return nil, err
		}
		path = roce.NewPath(src.WithZone(""), port, &attr.AH.GRH)
	}
	var out *ringOut
	if path != nil && mask&ib.QPDestQPN != 0 {
		out = c.eng.local.to(src, path.Dst, attr.DestQPN)
	}
	return func(now monotime.Time) {
		c.locate(attr, mask, path, out)
		c.packets.Modify(now, attr, mask, path)
	}, nil
}

// locate notes where the peer is.
func (c *roceConn) locate(attr *ib.QPAttr, mask ib.QPAttrMask, path *roce.Path, out *ringOut) {
	if mask&ib.QPStateAttr != 0 && attr.State == ib.QPReset {
		c.path, c.ring = nil, nil
	}
	if mask&ib.QPDestQPN != 0 {
		c.peerSlot = c.eng.local.slotOf(attr.DestQPN)
	}
	if path != nil {
		c.path, c.ring, c.question = path, out, question{}
		c.tag, c.peerTag = pathTag(path.Src, path.Dst), pathTag(path.Dst, path.Src)
	}
}

// Bind makes a queue pair of RoCEv2 able to send from a local address and
// returns the UDP source port its packets will carry.
func (c *Conn) Bind(src netip.Addr) (uint16, error) {
	r := c.roce
	c.mu.Lock()
	s := r.sourceOf(src.WithZone(""))
	c.mu.Unlock()
	if s == nil {
		var err error
		if s, err = c.eng.source(src, c.qpn); err != nil {
			return 0, err
		}
		c.mu.Lock()
		closed := c.closed
		if !closed {
			r.sources = append(slices.Clip(r.sources), s)
		}
		c.mu.Unlock()
		if closed {
			c.eng.dropSource(s)
			return 0, net.ErrClosed
		}
	}
	return s.sock.LocalAddr().Port(), nil
}

// sourceOf returns the socket to send from an address; the caller holds mu.
func (c *roceConn) sourceOf(src netip.Addr) *source {
	for _, s := range c.sources {
		if s.addr == src {
			return s
		}
	}
	return nil
}

// pumper is the memory of one pump: the trains it fills and their form for
// the socket.
type pumper struct {
	bursts [trainsPerWrite]*roce.Burst
	out    [trainsPerWrite]udp.Datagrams
}

// trainsPerWrite is how many trains one sendmmsg carries: enough that a window
// of small messages goes out in one call, few enough that the peer gets to
// work while the rest is built.
const trainsPerWrite = 4

var pumpers = sync.Pool{New: func() any {
	p := &pumper{}
	for i := range p.bursts {
		p.bursts[i] = roce.NewBurst()
	}
	return p
}}

// drain writes trains until the machine has none. While it writes without the lock
// the queue pair may be modified, and then has another way to its peer.
func (c *roceConn) drain(now monotime.Time) {
	for !c.closed {
		o := c.ring
		switch {
		case o == nil:
			c.drainSockets(now)
		case c.drainRing(o, now) || c.ring != o:
		default:
			until, ended := o.mourned()
			if !ended || c.acked == nil {
				c.ring = nil
				continue
			}
			if now.Before(until) {
				c.retry = until
			} else {
				c.acked.PeerGone(now)
			}
		}
		if c.ring == o {
			return
		}
	}
}

// drainSockets writes trains until the machine has none, or a ring is there for them.
func (c *roceConn) drainSockets(now monotime.Time) {
	var p *pumper
	for !c.closed && len(c.sources) > 0 && c.ring == nil {
		limit := roce.MaxSegments
		if !c.sources[0].cuts() {
			limit = 1
		}
		n := 0
		for n < trainsPerWrite {
			if p == nil {
				p = pumpers.Get().(*pumper)
			}
			p.bursts[n].Limit(limit)
			p.bursts[n].Patient(c.late.waiting)
			if c.late.waiting {
				if _, ok := c.packets.Patient(); ok {
					break // Flush is to come: the application's answer goes out without it
				}
			}
			if !c.packets.PollOutput(now, p.bursts[n]) {
				break
			}
			n++
		}
		if n == 0 {
			break
		}
		sources := c.sources // replaced, never changed in place
		c.mu.Unlock()
		p.write(sources, n)
		c.mu.Lock()
	}
	if p != nil {
		pumpers.Put(p)
	}
}

// write sends n trains, each from the socket of its source address, in order.
func (p *pumper) write(sources []*source, n int) {
	for from := 0; from < n; {
		src := p.bursts[from].Path().Src
		to := from + 1
		for to < n && p.bursts[to].Path().Src == src {
			to++
		}
		for _, s := range sources {
			if s.addr == src {
				s.write(p.bursts[from:to], p.out[from:to])
				break
			}
		}
		for _, b := range p.bursts[from:to] {
			b.Reset()
		}
		from = to
	}
}

func (c *roceConn) posted() { c.late.posted() }

// settle sends an acknowledgement that was put off, and one that waits for the
// write of another thread: the peer of a message whose completion the application
// has seen must not be left without.
func (c *roceConn) settle(now monotime.Time) {
	for c.pumping && c.owesLast() { // that thread sends it next
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	if c.late.waiting && !c.pumping && len(c.sources) > 0 {
		c.late.waiting = false
		c.Conn.drain(now)
	}
}

// owesLast reports whether an acknowledgement is all that is to be sent.
func (c *roceConn) owesLast() bool {
	_, ok := c.packets.Patient()
	return ok && len(c.sources) > 0 && !c.closed
}

func (c *roceConn) end() (release func()) {
	sources := c.sources
	c.sources = nil
	return func() {
		for _, s := range sources {
			c.eng.dropSource(s)
		}
	}
}
