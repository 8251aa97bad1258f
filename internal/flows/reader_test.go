// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/simnet"
	wire "verbena/internal/wire/roce"
)

// reader models the READs of an adapter. It has several outstanding, whatever the path carries, and
// answers marks with CNPs. It drops responses after a gap, and asks again for all from there on,
// once until the missing one has come. Without a response it does so after a tenth of a second.
type reader struct {
	w         *World
	flow      *Flow
	responder *rcEnd
	notifies  bool // sends CNPs

	una, next ib.PSN
	retrying  bool
	deadline  monotime.Time
	cnpAt     monotime.Time // none is sent before
	stalls    int
	done      int64 // packets
}

const (
	readerReads   = 16 // outstanding
	readerPackets = 64 // of a READ
	readerTimeout = monotime.Second / 10
	readerCNPs    = 50 * monotime.Microsecond
)

func (r *reader) deliver(d *simnet.Datagram) {
	var p wire.Packet
	if p.Parse(d.Payload) != wire.WellFormed || p.Info.Operation != wire.OpReadResponse {
		return
	}
	now := r.w.Net.Now()
	if d.TOS&3 == 3 && r.notifies && !now.Before(r.cnpAt) {
		r.cnpAt = now.Add(readerCNPs)
		r.sendPacket(&wire.Packet{BTH: wire.BTH{Opcode: wire.CNP, BECN: true},
			Payload: make([]byte, 16)})
	}
	switch diff := p.PSN.Diff(r.una); {
	case diff == 0:
		r.retrying = false
		r.una = r.una.Add(1)
		r.done++
		r.arm()
		r.send()
	case diff > 0 && !r.retrying:
		r.goBack()
	}
}

func (r *reader) goBack() {
	r.retrying, r.next = true, r.una
	r.send()
}

func (r *reader) arm() {
	at := r.w.Net.Now().Add(readerTimeout)
	r.deadline = at
	r.w.Net.At(at, func() {
		if r.deadline == at {
			r.stalls++
			r.arm()
			r.goBack()
		}
	})
}

// send asks for as much as may be outstanding. The first READ after going back is the rest of one.
func (r *reader) send() {
	end := r.una.Add(readerReads * readerPackets)
	for {
		n := readerPackets - uint32(r.next)%readerPackets
		if r.next.Add(n).After(end) {
			return
		}
		p := wire.Packet{BTH: wire.BTH{Opcode: wire.RCRDMAReadRequest, PSN: r.next, AckReq: true}}
		p.RETH = wire.RETH{VA: base, RKey: r.responder.region.RKey(), DMALen: n * rxePacketSize}
		r.sendPacket(&p)
		r.next = r.next.Add(n)
	}
}

func (r *reader) sendPacket(p *wire.Packet) {
	p.PKey, p.DestQP, p.Info = ib.DefaultPKey, r.responder.qpn, p.Opcode.Info()
	from, to := r.responder.peer.addr, r.responder.addr
	pseudo := wire.NewPseudo(from, to, r.flow.port, roce.UDPPort)
	r.w.Net.Send(simnet.Datagram{Src: from, Dst: to, SrcPort: r.flow.port, DstPort: wire.Port,
		Payload: pseudo.Seal(p.Append(nil), 0)})
}

// playReaders has readers with responders of Verbena on the path of a scenario. It counts packets
// of the time that is measured, and time-outs of all the time.
func playReaders(s Scenario, notify bool) (result Result, stalls int) {
	s.Kind = Read
	s.Fill()
	w := NewWorld(s.Seed)
	there, back := s.link(), s.link()
	var list []*reader
	for i := range s.Flows {
		from := netip.AddrFrom4([4]byte{10, 1, 0, byte(i)})
		to := netip.AddrFrom4([4]byte{10, 2, 0, byte(i)})
		w.Net.Route(from, to, there)
		w.Net.Route(to, from, back)
		f := &Flow{Spec: Spec{Kind: Read, From: from, To: to, MTU: s.MTU, Depth: 1, Reads: readerReads,
			Message: readerPackets * rxePacketSize}, w: w, port: firstPort + uint16(i)}
		server := w.newRCEnd(f, to)
		server.connect(&rcEnd{addr: from, qpn: firstQPN})
		r := &reader{w: w, flow: f, responder: server, notifies: notify}
		w.Net.Attach(from, r.deliver)
		w.Net.At(monotime.Time(i)*monotime.Time(137*monotime.Microsecond), func() {
			r.arm()
			r.send()
		})
		list = append(list, r)
	}
	w.Run(s.Warm)
	begun := make([]int64, s.Flows)
	for i, r := range list {
		begun[i] = r.done
	}
	before := back.Count
	w.Run(s.Measured)
	for i, r := range list {
		stalls += r.stalls
		each := float64((r.done-begun[i])*rxePacketSize) / s.Measured.Seconds()
		result.Each = append(result.Each, each)
		result.Goodput += each
	}
	c := back.Count
	c.Passed, c.Dropped = c.Passed-before.Passed, c.Dropped-before.Dropped
	c.Marked, c.Queued = c.Marked-before.Marked, c.Queued-before.Queued
	result.Data = c
	return result, stalls
}

// CNPs of foreign requesters slow the responses to their READs. Else a switch drops nine of ten.
func TestForeignReaders(t *testing.T) {
	for _, c := range []struct {
		flows   int
		us      monotime.Duration
		used    float64 // of the link, at least
		dropped float64 // at most
	}{
		{1, 100, 0.8, 0}, {8, 100, 0.75, 0.0001},
		{1, 1000, 0.6, 0}, {8, 1000, 0.55, 0.005},
		{1, 10_000, 0.5, 0}, {8, 10_000, 0.05, 0.6},
	} {
		if testing.Short() && (c.flows > 1 || c.us > 100) {
			t.Logf("%d READs over %d µs are left out: run without -short", c.flows, c.us)
			continue
		}
		for _, notify := range []bool{false, true} {
			s := markedScenario(Read, c.flows, c.us, congestion.DeliveryRate)
			if !notify {
				s.Warm, s.Measured = 0, 0 // nothing settles
			}
			r, stalls := playReaders(s, notify)
			t.Logf("%d %v, CNPs %v: %.3g of the link, %.3g %% dropped, a queue of %v, fairness %.3g, %d time-outs",
				c.flows, &s, notify, r.Goodput/linkMTU1024, dropped(&r)*100,
				r.Data.Queued/monotime.Duration(r.Data.Passed), Jain(r.Each), stalls)
			if notify && (r.Goodput < c.used*linkMTU1024 || dropped(&r) > c.dropped) {
				t.Errorf("%d %v: want %g of the link, %g %% dropped", c.flows, &s, c.used, c.dropped*100)
			}
		}
	}
}
