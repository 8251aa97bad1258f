// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"net/netip"

	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/iwarp/trp"
	"verbena/internal/mem"
	"verbena/internal/monotime"
	"verbena/internal/simnet"
	wiretrp "verbena/internal/wire/trp"
)

// trpEnd is one end of an association, and at the server the listener.
type trpEnd struct {
	w        *World
	flow     *Flow
	addr     netip.AddrPort
	server   netip.AddrPort // whither the client sends
	conn     *trp.Conn
	listener *trp.Listener
	region   *mem.Region
	table    *mem.Table
	timerAt  monotime.Time
	up       bool
	posted   int64 // bytes
	arrived  int64 // bytes
	failed   string
	peer     *trpEnd
}

func (w *World) newTRP(f *Flow) machine {
	server, client := w.newTRPEnd(f, f.To), w.newTRPEnd(f, f.From)
	client.server, client.peer = server.addr, server
	var err error
	if server.listener, err = trp.NewListener(trp.Config{}, 0, 5); err != nil {
		panic(err)
	}
	client.table = mem.NewTable(w.Net.Rand.Uint32)
	client.region, err = client.table.Register(domain, w.bytes(f.MTU.Bytes()), base, access)
	if err != nil {
		panic(err)
	}
	return client
}

func (w *World) newTRPEnd(f *Flow, host netip.Addr) *trpEnd {
	e := &trpEnd{w: w, flow: f, timerAt: monotime.Never}
	e.addr = netip.AddrPortFrom(host, w.host(host).listen(e.deliver))
	return e
}

func (e *trpEnd) start() {
	var err error
	setup := wiretrp.Setup{IRD: 1, ORD: 1}
	if e.conn, err = trp.Dial(e.w.Net.Now(), trp.Config{}, e, e.server, setup); err != nil {
		panic(err)
	}
	e.pump()
}

func (e *trpEnd) deliver(d *simnet.Datagram) {
	now, from := e.w.Net.Now(), netip.AddrPortFrom(d.Src, d.SrcPort)
	if e.listener != nil {
		c, fresh, challenge := e.listener.HandleInput(now, from, d.Payload)
		if challenge != nil {
			challenge.PollOutput(now, e.w.segments)
			e.sendBurst(from)
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
	if e.w.reading {
		e.w.pending = append(e.w.pending, e.pump)
		return
	}
	now := e.w.Net.Now()
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
	for e.fill(); e.conn.PollOutput(now, e.w.segments); e.fill() {
		e.sendBurst(e.w.segments.Dst())
	}
	e.w.segments.Reset()
	at := e.conn.NextTimeout()
	if at >= e.timerAt {
		return
	}
	e.timerAt = at
	e.w.Net.At(at, func() {
		if e.timerAt != at {
			return
		}
		e.timerAt = monotime.Never
		e.conn.HandleTimeout(e.w.Net.Now())
		e.pump()
	})
}

func (e *trpEnd) sendBurst(to netip.AddrPort) {
	b := e.w.segments
	b.Seal()
	d := simnet.Datagram{Src: e.addr.Addr(), Dst: to.Addr(), SrcPort: e.addr.Port(),
		DstPort: to.Port(), Drops: &e.flow.Drops}
	e.w.sendBurst(b.Iov(), b.Bytes(), b.SegmentBytes(), d, func([]byte) {})
	b.Reset()
}

// fill queues segments while there is room.
func (e *trpEnd) fill() {
	if e.listener != nil || !e.up || e.failed != "" {
		return
	}
	single := e.flow.Message <= e.flow.MTU.Bytes() // a message is a segment
	for e.conn.Room() > 0 && !(single && e.conn.Outstanding() >= e.flow.Depth) {
		n := min(e.flow.next(e.posted), uint32(e.flow.MTU.Bytes()))
		if n == 0 {
			return
		}
		s, _ := e.table.Local(domain, ib.SGE{Addr: base, Length: n, LKey: e.region.LKey()}, 0)
		e.conn.Send(nil, s)
		e.posted += int64(n)
	}
}

// HandleSegment implements trp.Upper.
func (e *trpEnd) HandleSegment(_ monotime.Time, _ uint64, segment []byte) bool {
	e.arrived += int64(len(segment))
	e.flow.progress(e.arrived)
	return true
}

// HandleInOrder implements trp.Upper.
func (e *trpEnd) HandleInOrder(monotime.Time, uint64) {}

// HandleAcked implements trp.Upper.
func (e *trpEnd) HandleAcked(monotime.Time, uint64) {}

func (e *trpEnd) bytes() int64 { return e.peer.arrived }

func (e *trpEnd) received() int64 { return e.peer.arrived }

func (e *trpEnd) path() congestion.Path {
	if e.conn == nil {
		return congestion.Path{}
	}
	return e.conn.PathState()
}

func (e *trpEnd) count(c *Counts) {
	if e.conn == nil {
		return
	}
	n := e.conn.Counters().By
	c.Repeated += n[trp.Retransmitted]
	c.Timeouts += n[trp.Timeouts]
	c.Missed += e.path().Lost
}

func (e *trpEnd) failure() string { return e.failed }
