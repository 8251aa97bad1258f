// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"net"
	"net/netip"
	"slices"
	"sync"

	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/engine"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/qp"
	"verbena/internal/roce"
	"verbena/internal/roce/rc"
	"verbena/internal/sys/portshare"
	"verbena/internal/sys/udp"
	"verbena/internal/transport/shm"
)

// Conn is a queue pair of RoCEv2. Its packets go out in bursts of datagrams from sockets of its
// own. They come in over the port of their destination address, which finds it by its number.
type Conn struct {
	engine.Conn
	roce *Transport // immutable

	// guarded by mu
	packets roce.Machine      // the machine
	acked   roce.Acknowledged // the same where it is one; else nil. Immutable
	each    roce.Datagrams    // the same where it is one; else nil. Immutable
	sources []*source         // the sockets packets leave by, one a source address
	ack     engine.DelayedAck

	// guarded by mu: of a connected queue pair whose peer may be on this host
	path     *roce.Path
	ring     *shm.Out // packets leave by it; nil: by sockets
	tag      uint32   // in a ring, packets to the peer carry it
	peerSlot int      // the process that packets may come from in a ring
	peerTag  uint32   // and the peer's packets carry it
	question question
	// guarded by mu: the path that the machine may change to, nil without one, and the one that the
	// next modification with QPAltPath loads
	alternate, prepared *roce.Path

	// guarded by mu: of a queue pair whose packets have a destination each
	to    destination // of the packets that ring is for
	offer func()      // makes the ring that datagrams to another could go by

	// guarded by mu: of an XRC target that passes requests on to other processes
	relays []*relay
	target *rc.QP   // the machine
	full   *shm.Out // had no room for a request; nil without
	passes *passes  // nil without relays

	// steeredTo is the share of the QPN of a connected queue pair's peer: the kernel of the peer's
	// host steers packets by it. Guarded by mu
	steeredTo portshare.Share

	came int // guarded by mu: bytes that sockets had of its last long message in this read

	log congestion.Log // guarded by mu: of the path, in a capture
}

// NewConn makes a queue pair of RoCEv2. Its counts go to counters.
// makeMachine is called with its number; onEvent later, without locks, with each
// event. lane is that of its completion queues.
func (t *Transport) NewConn(counters *engine.DeviceCounters, makeMachine func(ib.QPN) roce.Machine,
	onEvent func(ib.EventType), lane *engine.Lane) (*engine.Conn, error) {
	c := &Conn{roce: t}
	c.ack = engine.NewDelayedAck(&c.Conn, lane)
	o := engine.ConnOptions{Counters: counters, OnEvent: onEvent, Lane: lane}
	err := t.eng.NewConn(&c.Conn, c, o,
		func(qpn ib.QPN) qp.Machine {
			c.packets = makeMachine(qpn)
			c.Near.Beside(mem.LinesOf(c))
			if q, ok := c.packets.(*rc.QP); ok {
				c.Near.Beside(mem.LinesOf(q))
			}
			c.acked, _ = c.packets.(roce.Acknowledged)
			c.each, _ = c.packets.(roce.Datagrams)
			return c.packets
		})
	if err != nil {
		return nil, err
	}
	return &c.Conn, nil
}

// ConnOf returns the Conn of a queue pair of RoCEv2; ok is false for others.
func ConnOf(c *engine.Conn) (r *Conn, ok bool) {
	r, ok = c.Transport().(*Conn)
	return r, ok
}

// PrepareModify implements engine.Transport.
func (c *Conn) PrepareModify(attr *ib.QPAttr, mask ib.QPAttrMask,
	src netip.Addr) (func(monotime.Time), error) {
	var path *roce.Path
	if mask&ib.QPAV != 0 {
		c.Lock()
		share := c.steeredTo
		c.Unlock()
		if mask&ib.QPDestQPN != 0 {
			share = portshare.ShareOf(attr.DestQPN)
		}
		port, err := c.bind(src, c.flow(src, attr.AH.GRH.DGID.Addr(), share))
		if err != nil {
			return nil, err
		}
		path = roce.NewPath(src.WithZone(""), port, &attr.AH.GRH)
	}
	var out *shm.Out
	if path != nil && mask&ib.QPDestQPN != 0 {
		out = c.roce.ringTo(src, path.Dst, attr.DestQPN)
	}
	return func(now monotime.Time) {
		c.noteMigration()
		c.locate(attr, mask, path, out)
		if mask&ib.QPAltPath != 0 {
			c.alternate = c.prepared
			c.packets.SetAlternate(c.alternate)
		}
		c.packets.Modify(now, attr, mask, path)
	}, nil
}

// LoadAlternate prepares the path that the next modification has as QPAltPath. src is the local
// address of its GID index.
func (c *Conn) LoadAlternate(attr *ib.QPAttr, mask ib.QPAttrMask, src netip.Addr) error {
	c.Lock()
	slot := c.steeredTo
	c.Unlock()
	if mask&ib.QPDestQPN != 0 {
		slot = portshare.ShareOf(attr.DestQPN)
	}
	port, err := c.bind(src, c.flow(src, attr.AltAH.GRH.DGID.Addr(), slot))
	if err != nil {
		return err
	}
	c.Lock()
	c.prepared = roce.NewPath(src.WithZone(""), port, &attr.AltAH.GRH)
	c.Unlock()
	return nil
}

// noteMigration takes over the path to which the machine has changed.
func (c *Conn) noteMigration() {
	if c.alternate == nil || c.path == nil {
		return
	}
	p := c.packets.CurrentPath()
	if p != nil && (p.Src != c.path.Src || p.Dst != c.path.Dst) {
		c.path, c.alternate, c.question = c.alternate, nil, question{}
		c.tag, c.peerTag = pathTag(c.path.Src, c.path.Dst), pathTag(c.path.Dst, c.path.Src)
	}
}

// locate notes where the peer is.
func (c *Conn) locate(attr *ib.QPAttr, mask ib.QPAttrMask, path *roce.Path, out *shm.Out) {
	if mask&ib.QPStateAttr != 0 && attr.State == ib.QPReset {
		c.path, c.ring, c.alternate = nil, nil, nil
	}
	if mask&ib.QPDestQPN != 0 {
		c.peerSlot = c.roce.slotOf(attr.DestQPN)
		c.steeredTo = portshare.ShareOf(attr.DestQPN)
	}
	if path != nil {
		c.path, c.ring, c.question = path, out, question{}
		c.tag, c.peerTag = pathTag(path.Src, path.Dst), pathTag(path.Dst, path.Src)
	}
	if mask&ib.QPAltPath != 0 {
		c.ring = nil // packets of a ring have one path
	}
}

// Migration returns the state of path migration, and whether an alternate path is loaded. The
// caller holds the lock.
func (c *Conn) Migration() (s ib.MigState, loaded bool) {
	var a ib.QPAttr
	c.packets.Query(&a)
	return a.PathMigState, a.AltAH.IsGlobal
}

// Bind makes a queue pair reachable at a local address and able to send from it. It returns the UDP
// source port of its packets.
func (c *Conn) Bind(src netip.Addr) (uint16, error) { return c.bind(src, uint32(c.QPN())) }

// flow returns the flow of a connected queue pair, whose packets may leave with those of others:
// see together.go. Those of a flow go from one Lane to one part of a process of Verbena. Devices
// join datagrams of one source port, and the peer's kernel steers what they joined as one.
func (c *Conn) flow(src, dst netip.Addr, share portshare.Share) uint32 {
	return pathTag(src, dst) + uint32(int(share)*engine.MaxLanes+c.ack.Lane().Number())
}

// bind is Bind for packets of a flow.
func (c *Conn) bind(src netip.Addr, flow uint32) (uint16, error) {
	if err := c.roce.open(src); err != nil {
		return 0, err
	}
	c.Lock()
	s := c.sourceOf(src.WithZone(""))
	c.Unlock()
	if s == nil {
		var err error
		if s, err = c.roce.source(src, flow); err != nil {
			return 0, err
		}
		c.Lock()
		closed := c.Closed()
		if !closed {
			c.sources = append(slices.Clip(c.sources), s)
		}
		c.Unlock()
		if closed {
			c.roce.dropSource(s)
			return 0, net.ErrClosed
		}
	}
	return s.sock.LocalAddr().Port(), nil
}

// sourceOf returns the socket to send from an address; the caller holds mu.
func (c *Conn) sourceOf(src netip.Addr) *source {
	for _, s := range c.sources {
		if s.addr == src {
			return s
		}
	}
	return nil
}

// pumper is the memory of one pump: the bursts it fills and their form for
// the socket.
type pumper struct {
	bursts [engine.BurstsPerWrite]*roce.Burst
	out    [engine.BurstsPerWrite]udp.Datagrams

	// of a group: see NewGroup
	sources [engine.BurstsPerWrite]*source         // of the bursts
	shares  [engine.BurstsPerWrite]portshare.Share // of the bursts: Conn.steeredTo
	n       int                                    // bursts in use
}

var pumpers = sync.Pool{New: func() any {
	p := &pumper{}
	for i := range p.bursts {
		p.bursts[i] = roce.NewBurst()
	}
	return p
}}

// FlushOutput implements engine.Transport: it writes bursts until the machine has none. While it
// writes without the lock the queue pair may be modified, and then has another way to its peer.
func (c *Conn) FlushOutput(now monotime.Time) {
	if c.each != nil {
		c.flushDatagrams(now)
		return
	}
	c.noteMigration()
	if p := c.passes; p != nil {
		p.retry()
		defer p.await()
		c.flushAll(now)
		for p.fetch() {
			c.flushAll(now)
		}
		return
	}
	c.flushAll(now)
}

func (c *Conn) flushAll(now monotime.Time) {
	for !c.Closed() {
		o := c.ring
		switch {
		case o == nil:
			c.flushSockets(now)
		case c.flushRing(o, now) != shm.Gone || c.ring != o:
		default:
			died, ended := o.Ended()
			until := died.Add(willTimeout)
			if !ended || c.acked == nil {
				c.ring = nil
				continue
			}
			if now.Before(until) {
				c.RetryAt(until)
			} else {
				c.acked.PeerGone(now)
			}
		}
		if c.ring == o {
			return
		}
	}
}

// flushSockets writes bursts until the machine has none, or a ring is there for the next.
func (c *Conn) flushSockets(now monotime.Time) {
	var p *pumper
	for !c.Closed() && len(c.sources) > 0 && c.nextRing() == nil {
		limit := roce.MaxSegments
		if !c.sources[0].cuts() {
			limit = 1
		}
		n := 0
		for n < engine.BurstsPerWrite && (n == 0 || c.nextRing() == nil) {
			if p == nil {
				p = pumpers.Get().(*pumper)
			}
			p.bursts[n].Limit(limit)
			p.bursts[n].PlaceAck(c.ackPlace())
			if c.ack.Waiting() {
				if _, ok := c.packets.AckMayWait(); ok {
					break // Flush is to come: the application's answer goes out without it
				}
			}
			if !c.packets.PollOutput(now, p.bursts[n]) {
				break
			}
			c.Engine().NoteMessage(p.bursts[n].Longest())
			n++
		}
		if n == 0 {
			break
		}
		sources, offer := c.sources, c.offer // sources: replaced, never changed in place
		c.offer = nil
		comment := ""
		if c.Engine().Capture() != nil && c.log.Due(now) {
			comment = engine.Comment(now, &c.log, c.QPN(), c.packets.PathState())
		}
		c.Unlock()
		p.write(sources, n, comment)
		if offer != nil {
			offer()
		}
		c.Lock()
	}
	if p != nil {
		pumpers.Put(p)
	}
}

// ackPlace returns where an acknowledgement goes that the next burst may carry.
func (c *Conn) ackPlace() roce.AckPlace {
	switch {
	case c.ack.Waiting():
		return roce.AckLater
	case c.ack.ComesFirst():
		return roce.AckBefore
	}
	return roce.AckBehind
}

// write sends n bursts, each from the socket of its source address, in order. A capture has the
// comment with the first packet.
func (p *pumper) write(sources []*source, n int, comment string) {
	for from := 0; from < n; {
		src := p.bursts[from].Path().Src
		to := from + 1
		for to < n && p.bursts[to].Path().Src == src {
			to++
		}
		for _, s := range sources {
			if s.addr == src {
				s.write(p.bursts[from:to], p.out[from:to], comment)
				break
			}
		}
		for _, b := range p.bursts[from:to] {
			b.Reset()
		}
		from, comment = to, ""
	}
}

// NotePost implements engine.Transport. Two frames need one system call, and the peer has the
// answer, the first of them, before the kernel begins with the other.
func (c *Conn) NotePost() {
	c.ack.NotePost(c.ring == nil && len(c.sources) > 0 && c.sources[0].frames)
}

// FlushDelayedAck implements engine.Transport: it sends an acknowledgement that was delayed,
// and one that waits for the write of another thread. The peer of a message whose completion
// the application has seen must not be left without.
func (c *Conn) FlushDelayedAck(now monotime.Time) {
	// the pumping thread sends it next
	c.AwaitUnless(func() bool { return !c.Pumping() || !c.owesLast() })
	if c.ack.Waiting() && !c.Pumping() && len(c.sources) > 0 {
		c.ack.Stop()
		c.Flush(now)
	}
}

// HeldUp implements engine.Queue.
func (c *Conn) HeldUp() bool { return c.ring != nil && c.ring.HeldUp() }

// owesLast reports whether an acknowledgement is all that is to be sent.
func (c *Conn) owesLast() bool {
	_, ok := c.packets.AckMayWait()
	return ok && len(c.sources) > 0 && !c.Closed()
}

// Route implements engine.Transport.
func (c *Conn) Route() engine.Route {
	if len(c.sources) == 0 {
		return engine.Route{}
	}
	r := engine.Route{Via: engine.ViaUDP}
	if c.path != nil {
		r.Local = netip.AddrPortFrom(c.path.Src, c.path.SrcPort)
		r.Peer = netip.AddrPortFrom(c.path.Dst, roce.UDPPort)
		if c.ring != nil { // nothing on the way that could be measured
			r.Via = engine.ViaSharedMemory
			return r
		}
	}
	p := c.packets.PathState()
	r.Path = &p
	return r
}

// Detach implements engine.Transport.
func (c *Conn) Detach() (release func()) {
	sources := c.sources
	c.sources = nil
	if c.acked != nil {
		c.acked.Discard()
	}
	return func() {
		for _, s := range sources {
			c.roce.dropSource(s)
		}
	}
}
