// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"encoding/binary"
	"net/netip"

	"verbena/internal/congestion"
	"verbena/internal/monotime"
	"verbena/internal/simnet"
)

// tcpEnd is the sender of a model of TCP, or its receiver. TCP shares links with RDMA elsewhere.
// Every transmission has a number of its own, as in QUIC, and every packet is acknowledged. A
// packet is lost when one that was sent three later has arrived. There is no handshake.
//
// Source: RFC 9002, sections 5, 6.1.1 and 6.2, and 7.3.2 (one reduction a round trip).
type tcpEnd struct {
	w       *World
	flow    *Flow
	addr    netip.AddrPort
	to      netip.AddrPort
	control tcpControl
	segment int // payload bytes

	// the sender
	fresh     int64 // the next segment that was never sent
	lost      []int64
	sent      []tcpSent // outstanding, from number first
	first     uint64
	flying    int // packets
	delivered int64
	since     monotime.Time // of the newest delivery
	firstSent monotime.Time // that of the packet delivered last
	smoothed  monotime.Duration
	variance  monotime.Duration
	shortest  monotime.Duration
	recovered uint64 // a loss of packets before this number was counted
	paced     monotime.Time
	expires   monotime.Time
	backOff   uint
	timerAt   monotime.Time
	counts    Counts

	// the receiver
	newest  uint64    // number of a packet
	recent  [4]uint64 // bits of the 256 numbers before it
	any     bool
	next    int64 // the first segment that has not come
	beyond  map[int64]bool
	arrived int64 // bytes, each once
	total   int64 // bytes
}

// tcpControl decides how much a model of TCP sends.
type tcpControl interface {
	acked(now monotime.Time, e *tcpEnd, a tcpAcked)
	lost(now monotime.Time, e *tcpEnd) // once a round trip
	expired(e *tcpEnd)
	window() float64 // segments
	rate() float64   // segments a second; 0 is not paced
}

// tcpAcked is the news of an acknowledgement.
type tcpAcked struct {
	segments int
	trip     monotime.Duration
	rate     float64 // segments a second that were delivered; 0 is unknown
}

// tcpSent is a packet on its way, or one that has come or was lost.
type tcpSent struct {
	segment   int64
	at        monotime.Time
	delivered int64
	since     monotime.Time
	firstSent monotime.Time
	over      bool
}

// Bytes on the line that a segment has more than a datagram of UDP: TCP's header with time stamps
// is longer.
const tcpHeaderBytes = 32 - 8

// maxTCPFlying bounds the packets that are outstanding.
const maxTCPFlying = 1 << 16

func (w *World) newTCP(f *Flow, control tcpControl) machine {
	server := &tcpEnd{w: w, flow: f, beyond: map[int64]bool{}}
	server.addr = netip.AddrPortFrom(f.To, w.host(f.To).listen(server.receive))
	e := &tcpEnd{w: w, flow: f, control: control, to: server.addr, timerAt: monotime.Never,
		expires: monotime.Never, segment: f.MTU.Bytes()}
	e.addr = netip.AddrPortFrom(f.From, w.host(f.From).listen(e.acknowledge))
	server.to, server.segment = e.addr, e.segment
	return &tcpPair{e, server}
}

// tcpPair is both ends.
type tcpPair struct {
	*tcpEnd
	server *tcpEnd
}

func (e *tcpEnd) start() { e.pump() }

// more reports whether there is a segment to send.
func (e *tcpEnd) more() bool {
	return len(e.lost) > 0 || e.flow.left(e.fresh*int64(e.segment)) > 0
}

// pump sends as much as it may, and sets the timer.
func (e *tcpEnd) pump() {
	now := e.w.Net.Now()
	for e.more() && float64(e.flying) < e.control.window() && len(e.sent) < maxTCPFlying {
		if rate := e.control.rate(); rate > 0 {
			if now < e.paced {
				break
			}
			e.paced = max(e.paced, now).Add(monotime.Duration(1e9 / rate))
		}
		e.send(now)
	}
	at := monotime.Never
	if e.flying > 0 {
		at = e.expires
	}
	if e.more() && e.paced > now {
		at = min(at, e.paced)
	}
	if at == monotime.Never || at >= e.timerAt && e.timerAt > now {
		return
	}
	e.timerAt = at
	e.w.Net.At(at, func() {
		if e.timerAt != at {
			return
		}
		e.timerAt = monotime.Never
		e.timeout()
	})
}

func (e *tcpEnd) timeout() {
	if now := e.w.Net.Now(); e.flying > 0 && now >= e.expires {
		e.counts.Timeouts++
		e.backOff = min(e.backOff+1, 6)
		for i := range e.sent {
			e.drop(&e.sent[i])
		}
		e.recovered = e.first + uint64(len(e.sent))
		e.control.expired(e)
		e.arm(now)
	}
	e.pump()
}

func (e *tcpEnd) arm(now monotime.Time) {
	wait := monotime.Second
	if e.smoothed > 0 {
		wait = max(e.smoothed+4*e.variance, 10*monotime.Millisecond)
	}
	e.expires = now.Add(wait << e.backOff)
}

func (e *tcpEnd) send(now monotime.Time) {
	s := tcpSent{at: now, delivered: e.delivered, since: e.since, firstSent: e.firstSent}
	if e.flying == 0 {
		s.since, s.firstSent = now, now
		e.since, e.firstSent = now, now
		e.arm(now)
	}
	if n := len(e.lost); n > 0 {
		s.segment, e.lost = e.lost[0], e.lost[1:]
		e.counts.Repeated++
	} else {
		s.segment = e.fresh
		e.fresh++
	}
	bytes := int(min(e.flow.left(s.segment*int64(e.segment)), uint32(e.segment)))
	b := make([]byte, max(bytes+tcpHeaderBytes, 24))
	binary.BigEndian.PutUint64(b, e.first+uint64(len(e.sent)))
	binary.BigEndian.PutUint64(b[8:], uint64(s.segment))
	binary.BigEndian.PutUint64(b[16:], uint64(bytes))
	e.sent = append(e.sent, s)
	e.flying++
	e.transmit(b)
}

func (e *tcpEnd) transmit(b []byte) {
	e.w.Net.Send(simnet.Datagram{Src: e.addr.Addr(), Dst: e.to.Addr(), SrcPort: e.addr.Port(),
		DstPort: e.to.Port(), Payload: b, Drops: &e.flow.Drops})
}

// receive takes a segment and acknowledges it.
func (e *tcpEnd) receive(d *simnet.Datagram) {
	number := binary.BigEndian.Uint64(d.Payload)
	segment := int64(binary.BigEndian.Uint64(d.Payload[8:]))
	bytes := int64(binary.BigEndian.Uint64(d.Payload[16:]))
	e.total += bytes
	if segment >= e.next && !e.beyond[segment] {
		e.arrived += bytes
		e.beyond[segment] = true
		for ; e.beyond[e.next]; e.next++ {
			delete(e.beyond, e.next)
		}
		e.flow.progress(e.arrived)
	}
	e.note(number)
	b := make([]byte, 0, 40)
	b = binary.BigEndian.AppendUint64(b, e.newest)
	for _, word := range e.recent {
		b = binary.BigEndian.AppendUint64(b, word)
	}
	e.transmit(b)
}

// note marks the number of a packet as come.
func (e *tcpEnd) note(number uint64) {
	switch {
	case !e.any:
		e.newest, e.any = number, true
		return
	case number > e.newest:
		old := e.newest
		for range min(number-old, 256) {
			for i := 3; i > 0; i-- {
				e.recent[i] = e.recent[i]<<1 | e.recent[i-1]>>63
			}
			e.recent[0] <<= 1
		}
		e.newest = number
		number = old
	}
	if back := e.newest - number; back > 0 && back <= 256 {
		e.recent[(back-1)/64] |= 1 << ((back - 1) % 64)
	}
}

// acknowledge takes an acknowledgement: which packets have come.
func (e *tcpEnd) acknowledge(d *simnet.Datagram) {
	now := e.w.Net.Now()
	newest := binary.BigEndian.Uint64(d.Payload)
	var a tcpAcked
	come := func(number uint64) {
		if number < e.first || number-e.first >= uint64(len(e.sent)) {
			return
		}
		s := &e.sent[number-e.first]
		if s.over {
			return
		}
		s.over = true
		e.flying--
		e.delivered++
		e.since = now
		a.segments++
		if number == newest {
			a.trip = now.Sub(s.at)
			e.sample(a.trip)
		}
		e.firstSent = s.at
		interval := max(s.at.Sub(s.firstSent), now.Sub(s.since))
		if n := e.delivered - s.delivered; interval > 0 && interval >= e.shortest {
			a.rate = max(a.rate, float64(n)/interval.Seconds())
		}
	}
	for back := min(newest-min(e.first, newest), 256); back > 0; back-- {
		word := binary.BigEndian.Uint64(d.Payload[8+8*((back-1)/64):])
		if word>>((back-1)%64)&1 != 0 {
			come(newest - back)
		}
	}
	come(newest)
	if a.segments == 0 {
		return
	}
	e.backOff = 0
	e.arm(now)
	loss := false
	const threshold = 3
	for i := range e.sent {
		number := e.first + uint64(i)
		if number+threshold > newest {
			break
		}
		if s := &e.sent[i]; !s.over {
			e.drop(s)
			loss = loss || number >= e.recovered
		}
	}
	if loss {
		e.recovered = e.first + uint64(len(e.sent))
		e.control.lost(now, e)
	}
	for len(e.sent) > 0 && e.sent[0].over {
		e.sent = e.sent[1:]
		e.first++
	}
	e.control.acked(now, e, a)
	e.pump()
}

// drop has a packet's segment sent again, unless it has come.
func (e *tcpEnd) drop(s *tcpSent) {
	if !s.over {
		s.over = true
		e.flying--
		e.lost = append(e.lost, s.segment)
		e.counts.Missed++
	}
}

func (e *tcpEnd) sample(trip monotime.Duration) {
	if e.smoothed == 0 {
		e.smoothed, e.variance, e.shortest = trip, trip/2, trip
		return
	}
	e.shortest = min(e.shortest, trip)
	e.variance += (max(e.smoothed-trip, trip-e.smoothed) - e.variance) / 4
	e.smoothed += (trip - e.smoothed) / 8
}

func (p *tcpPair) bytes() int64    { return p.server.arrived }
func (p *tcpPair) received() int64 { return p.server.total }
func (p *tcpPair) failure() string { return "" }

func (p *tcpPair) path() congestion.Path {
	return congestion.Path{RTT: p.smoothed, RTTVar: p.variance, MinRTT: p.shortest,
		WindowBytes: int64(p.control.window() * float64(p.segment)),
		PaceRate:    int64(p.control.rate() * float64(p.segment)),
		InFlight:    int64(p.flying * p.segment)}
}

func (p *tcpPair) count(c *Counts) {
	c.Repeated += p.counts.Repeated
	c.Timeouts += p.counts.Timeouts
	c.Missed += p.counts.Missed
}
