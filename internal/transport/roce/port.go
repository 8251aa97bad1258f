// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"verbena/ib"
	"verbena/internal/engine"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/udp"
	wire "verbena/internal/wire/roce"
)

// Port is the receive side of one local address.
type Port struct {
	// immutable after addPort
	roce *Transport
	addr netip.Addr      // of a framePort zero
	raw  *udp.Socket     // the poller waits for it
	sock faultcap.Socket // raw, or a tap around it; of a framePort the queue

	iface int // of a framePort the index of the interface, else 0

	group group // of a multicast port, else zero

	// division is that of the port of an address; see divide.go. Ports of its parts have none.
	division *division
	held     atomic.Bool // nothing is read yet

	// writers counts the threads that send after they have read. It rises under rxMu. So a thread
	// that holds rxMu and finds none knows that all earlier messages are answered.
	writers atomic.Int32

	rxMu sync.Mutex // held while reading; taken with TryLock except to close

	// guarded by rxMu
	rx          *udp.RxBatch
	pkt         wire.Packet
	meta        roce.Meta
	flows       [flowCache]flow
	mayDelayAck bool
	hint        uint16 // IPv4 identification expected of a foreign sender
	closed      bool
}

// flow is a remote sender whose pseudo header is known.
type flow struct {
	src    netip.AddrPort
	dst    netip.Addr
	pseudo wire.Pseudo

	// of a framePort: whether it receives the flow, as of these addresses
	received bool
	ours     *map[netip.Addr]bool
}

// flowCache is the number of senders whose pseudo headers a port keeps; more
// are computed again when they speak.
const flowCache = 64

// TryPoll implements engine.Input.
func (p *Port) TryPoll(mayDelayAck bool) int {
	if !p.rxMu.TryLock() {
		return engine.Busy
	}
	if !mayDelayAck && p.writers.Load() > 0 {
		p.rxMu.Unlock()
		return engine.Busy
	}
	return p.pollUnlock(mayDelayAck)
}

// pollUnlock handles one batch, and returns the number of messages. It releases rxMu.
func (p *Port) pollUnlock(mayDelayAck bool) int {
	if p.closed || p.held.Load() {
		p.rxMu.Unlock()
		return 0
	}
	p.mayDelayAck = mayDelayAck
	var send engine.Joint
	n, last := p.read(&send)
	if last == nil {
		send.Finish()
		p.rxMu.Unlock()
		return n
	}
	if !mayDelayAck {
		last.heard(send.Now)
		last.endTurnUnlock(&send, false)
		p.rxMu.Unlock()
		return n
	}
	// Sending takes as long as reading. Meanwhile a thread that polls may read on: it leaves the
	// output of these connections to this thread, which pumps.
	p.writers.Add(1)
	p.rxMu.Unlock()
	last.heard(send.Now)
	last.endTurnUnlock(&send, true)
	p.writers.Add(-1)
	return n
}

// read handles one batch. It returns the last connection that a message was for, locked: its output
// is to be pumped, and what send has is to be written. The caller holds rxMu.
func (p *Port) read(send *engine.Joint) (messages int, cur *Conn) {
	n, err := p.sock.ReadBatch(p.rx)
	if n == 0 {
		if err != nil {
			p.roce.eng.CountReadError()
		}
		return 0, nil
	}
	send.Now = monotime.Now()
	for i := 0; i < n; i++ {
		m := p.rx.Message(i)
		if elsewhere(m) {
			if cur != nil {
				p.leaveUnlock(cur, send)
				cur = nil
			}
			i += p.deliver(send.Now, p.rx.Messages()[i:], p.roce.seats) - 1
			continue
		}
		f := p.flow(m)
		if !p.receives(f) {
			p.roce.count.unknownQP.Add(1)
			continue
		}
		p.meta = roce.Meta{Src: m.Src.Addr(), Dst: m.Dst, SrcPort: m.Src.Port(), TOS: m.TOS}
		for j := range m.Segments() {
			cur = p.datagram(send, f, m.Segment(j), m.ID+uint16(j), cur)
		}
	}
	return n, cur
}

// datagram checks one datagram and gives it to its connection, which it
// returns locked.
func (p *Port) datagram(send *engine.Joint, f *flow, b []byte, id uint16, cur *Conn) *Conn {
	w := &p.roce.count
	v := p.pkt.Parse(b)
	if v != wire.WellFormed && v != wire.BadOpcode {
		w.malformed[v].Add(1)
		return cur
	}
	if !p.verify(f, b, id) {
		w.badICRC.Add(1)
		return cur
	}
	if v != wire.WellFormed {
		w.malformed[v].Add(1)
	}
	q := p.pkt.DestQP
	if cur == nil || cur.QPN() != q {
		if cur != nil {
			p.leaveUnlock(cur, send)
		}
		cur = nil
		if q == ib.QP1 {
			p.roce.gsi.mu.Lock()
			handler := p.roce.gsi.handler
			p.roce.gsi.mu.Unlock()
			p.roce.management(&p.pkt, &p.meta, handler)
			return nil
		}
		if q == ib.QPMulticast {
			if !p.roce.groups.deliver(send.Now, p.group, &p.pkt, &p.meta) {
				w.unknownQP.Add(1)
			}
			return nil
		}
		if cur = p.roce.lock(q); cur == nil {
			return nil
		}
	}
	cur.packets.HandleInput(send.Now, &p.pkt, &p.meta)
	cur.noteMessage(p.pkt.Info, len(b))
	return cur
}

// noteMessage notes a datagram that came for a connection, by the length of its message.
func (c *Conn) noteMessage(place *wire.OpInfo, bytes int) {
	switch {
	case place.Only(): // a short one, or no message
		return
	case place.First:
		c.came = 0
	}
	c.came += bytes
	c.Engine().NoteMessage(c.came)
}

// lock returns the connection of a queue pair number, locked, or counts a packet without one.
func (t *Transport) lock(q ib.QPN) *Conn {
	if found := t.eng.Find(q); found != nil {
		if c, ok := found.Transport().(*Conn); ok {
			c.Lock()
			if !c.Closed() {
				return c
			}
			c.Unlock()
		}
	}
	t.count.unknownQP.Add(1)
	return nil
}

// leaveUnlock ends a connection's turn, and releases its lock. Its output may be left to send.
func (p *Port) leaveUnlock(c *Conn, send *engine.Joint) {
	c.heard(send.Now)
	if !c.delayUnlock(send.Now, p.mayDelayAck) {
		send.PumpUnlock(&c.Conn)
	}
}

// heard ends the input of a read for a connection.
func (c *Conn) heard(now monotime.Time) {
	c.Heard(now)
	c.came = 0
}

// endTurnUnlock is leaveUnlock for the last connection of a batch: all output is written.
func (c *Conn) endTurnUnlock(send *engine.Joint, mayDelayAck bool) {
	switch {
	case send.Empty():
		c.leaveUnlock(send.Now, mayDelayAck)
		return
	case !c.delayUnlock(send.Now, mayDelayAck):
		send.PumpUnlock(&c.Conn)
	}
	send.Finish()
}

// leaveUnlock pumps a connection that packets came for, or, with mayDelayAck, delays its
// acknowledgement. It releases the lock.
func (c *Conn) leaveUnlock(now monotime.Time, mayDelayAck bool) {
	if !c.delayUnlock(now, mayDelayAck) {
		c.PumpUnlock(now)
	}
}

// delayUnlock delays the acknowledgement, with mayDelayAck, and releases the lock. It reports
// false, and keeps the lock, if the connection is to be pumped.
func (c *Conn) delayUnlock(now monotime.Time, mayDelayAck bool) bool {
	if mayDelayAck && c.After() == nil {
		if psn, ok := c.packets.AckMayWait(); ok && c.ack.DelayUnlock(now, psn) {
			return true
		}
	}
	c.ack.Stop() // the acknowledgement has waited long enough
	return false
}

// verify checks the ICRC. Verbena sends identification i as segment i of a burst. Other senders
// count it up, so the one that worked last is tried with the next.
func (p *Port) verify(f *flow, b []byte, id uint16) bool {
	if f.pseudo.VerifyWithID(b, id) {
		return true
	}
	got, ok := f.pseudo.Verify(b, p.hint)
	if ok {
		p.hint = got + 1
	}
	return ok
}

// flow returns the pseudo header of a message's sender.
func (p *Port) flow(m *udp.Message) *flow {
	a := m.Src.Addr().As16()
	h := uint32(a[12])<<24 | uint32(a[13])<<16 | uint32(a[14])<<8 | uint32(a[15])
	h = (h ^ uint32(m.Src.Port())) * 2654435761
	f := &p.flows[h>>(32-6)]
	if f.src != m.Src || f.dst != m.Dst {
		*f = flow{src: m.Src, dst: m.Dst,
			pseudo: wire.NewPseudo(m.Src.Addr(), m.Dst, m.Src.Port(), roce.UDPPort)}
	}
	return f
}

// Stop implements engine.Input. The socket stays its owner's.
func (p *Port) Stop() {
	p.roce.eng.Poller().Remove(p.raw)
	p.rxMu.Lock()
	p.closed = true
	p.rxMu.Unlock()
	engine.Untap(p.sock)
}
