// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"net/netip"

	"verbena/ib"
	"verbena/internal/iwarp/trp"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/simnet"
	wiretrp "verbena/internal/wire/trp"
)

// Ports of TRP ends: all servers listen on one, where their associations stay.
const (
	listenPort uint16 = 7174
	clientPort uint16 = 50000
)

// trpEnd is one end of an association, and at the server the listener.
type trpEnd struct {
	w        *world
	addr     netip.AddrPort
	server   netip.AddrPort // whither the client sends
	conn     *trp.Conn
	listener *trp.Listener
	region   *mem.Region
	table    *mem.Table
	burst    *trp.Burst
	timerAt  monotime.Time
	up       bool
	arrived  int64 // bytes
	failed   string
	peer     *trpEnd
}

func (w *world) newTRP(i int) flow {
	server := w.newTRPEnd(netip.AddrPortFrom(serverAddr(i), listenPort))
	client := w.newTRPEnd(netip.AddrPortFrom(clientAddr(i), clientPort))
	client.server, client.peer = server.addr, server
	var err error
	if server.listener, err = trp.NewListener(trp.Config{}, 0, 5); err != nil {
		panic(err)
	}
	client.table = mem.NewTable(w.net.Rand.Uint32)
	client.region, err = client.table.Register(domain, make([]byte, w.MTU.Bytes()), base, access)
	if err != nil {
		panic(err)
	}
	return client
}

func (w *world) newTRPEnd(addr netip.AddrPort) *trpEnd {
	e := &trpEnd{w: w, addr: addr, burst: trp.NewBurst(), timerAt: monotime.Never}
	w.net.Attach(addr.Addr(), e.deliver)
	return e
}

func (e *trpEnd) start() {
	var err error
	setup := wiretrp.Setup{IRD: 1, ORD: 1}
	if e.conn, err = trp.Dial(e.w.net.Now(), trp.Config{}, e, e.server, setup); err != nil {
		panic(err)
	}
	e.pump()
}

func (e *trpEnd) deliver(d *simnet.Datagram) {
	now, from := e.w.net.Now(), netip.AddrPortFrom(d.Src, d.SrcPort)
	if e.listener != nil {
		c, fresh, challenge := e.listener.HandleInput(now, from, d.Payload)
		if challenge != nil {
			challenge.PollOutput(now, e.burst)
			e.sendBurst(from.Addr())
		}
		if fresh {
			e.conn = c
			if err := c.Accept(now, e, wiretrp.Setup{IRD: 1, ORD: 1}); err != nil {
				panic(err)
			}
			e.pump()
			return
		}
	}
	if e.conn != nil {
		e.conn.HandleInput(now, from, d.Payload)
		e.pump()
	}
}

// pump does all that follows an event.
func (e *trpEnd) pump() {
	now := e.w.net.Now()
	for {
		ev, ok := e.conn.PollEvent()
		if !ok {
			break
		}
		switch ev.Kind {
		case trp.EventEstablished:
			e.up = true
		case trp.EventDisconnected:
			e.failed = ev.Reason.String()
		}
	}
	for e.fill(); e.conn.PollOutput(now, e.burst); e.fill() {
		e.sendBurst(e.burst.Dst().Addr())
	}
	e.burst.Reset()
	at := e.conn.NextTimeout()
	if at >= e.timerAt {
		return
	}
	e.timerAt = at
	e.w.net.At(at, func() {
		if e.timerAt != at {
			return
		}
		e.timerAt = monotime.Never
		e.conn.HandleTimeout(e.w.net.Now())
		e.pump()
	})
}

func (e *trpEnd) sendBurst(to netip.Addr) {
	b := e.burst
	b.Seal()
	d := simnet.Datagram{Src: e.addr.Addr(), Dst: to, SrcPort: e.addr.Port()}
	e.w.sendBurst(b.Iov(), b.Bytes(), b.SegmentBytes(), d)
	b.Reset()
}

// fill queues segments while there is room.
func (e *trpEnd) fill() {
	if e.listener != nil || !e.up || e.failed != "" {
		return
	}
	n := uint32(e.w.MTU.Bytes())
	for e.conn.Room() > 0 {
		s, _ := e.table.Local(domain, ib.SGE{Addr: base, Length: n, LKey: e.region.LKey()}, 0)
		e.conn.Send(nil, s)
	}
}

// HandleSegment implements trp.Upper.
func (e *trpEnd) HandleSegment(_ monotime.Time, _ uint64, segment []byte) bool {
	e.arrived += int64(len(segment))
	return true
}

// HandleInOrder implements trp.Upper.
func (e *trpEnd) HandleInOrder(monotime.Time, uint64) {}

// HandleAcked implements trp.Upper.
func (e *trpEnd) HandleAcked(monotime.Time, uint64) {}

func (e *trpEnd) bytes() int64 { return e.peer.arrived }

func (e *trpEnd) count(r *Result) {
	c := e.conn.Counters().By
	r.Repeated += c[trp.Retransmitted]
	r.Timeouts += c[trp.Timeouts]
	r.Missed += e.conn.PathState().Lost
	if e.failed != "" {
		r.Dead++
		r.Why = e.failed
	}
}
