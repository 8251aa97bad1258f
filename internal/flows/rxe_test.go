// SPDX-License-Identifier: BSD-2-Clause

package flows

import (
	"net/netip"
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/roce"
	"verbena/internal/simnet"
	wire "verbena/internal/wire/roce"
)

// rxeRequester models Linux's rxe, which sends WRITEs. It goes back to the PSN of a NAK, and
// ignores all further NAKs until an ACK has come. Without an answer it goes back after half a
// second.
type rxeRequester struct {
	w         *World
	flow      *Flow
	responder *rcEnd

	una, next    ib.PSN
	retrying     bool // a NAK was acted on, and no ACK has come since
	deadline     monotime.Time
	stalls, naks int
	done         int64 // packets
}

const (
	rxeUnacked    = 128 // PSNs at most
	rxeTimeout    = monotime.Second / 2
	rxeMessage    = 64 // packets
	rxePacketSize = 1024
)

func (r *rxeRequester) deliver(d *simnet.Datagram) {
	var p wire.Packet
	if p.Parse(d.Payload) != wire.WellFormed || p.Opcode != wire.RCAcknowledge {
		return
	}
	switch p.AETH.Syndrome.Kind() {
	case wire.KindACK:
		if !p.PSN.Before(r.una) {
			r.retrying = false
			r.acked(p.PSN.Add(1))
		}
	case wire.KindNAK:
		r.naks++
		if p.PSN.Before(r.una) {
			return
		}
		r.acked(p.PSN) // a NAK acknowledges all before
		if !r.retrying {
			r.retrying, r.next = true, r.una
		}
	}
	r.send()
}

func (r *rxeRequester) acked(psn ib.PSN) {
	if !psn.After(r.una) {
		return
	}
	r.done += int64(psn.Diff(r.una))
	r.una = psn
	if r.next.Before(psn) {
		r.next = psn
	}
	r.arm()
}

func (r *rxeRequester) arm() {
	at := r.w.Net.Now().Add(rxeTimeout)
	r.deadline = at
	r.w.Net.At(at, func() {
		if r.deadline == at {
			r.stalls++
			r.next, r.retrying = r.una, true
			r.arm()
			r.send()
		}
	})
}

// send sends as much as may be outstanding.
func (r *rxeRequester) send() {
	path := r.responder.peer
	for ; r.next.Diff(r.una) < rxeUnacked; r.next = r.next.Add(1) {
		at := uint32(r.next) % rxeMessage
		p := wire.Packet{Payload: make([]byte, rxePacketSize), BTH: wire.BTH{Opcode: wire.RCRDMAWriteMiddle,
			PKey: ib.DefaultPKey, DestQP: r.responder.qpn, PSN: r.next}}
		switch at {
		case 0:
			p.Opcode = wire.RCRDMAWriteFirst
			p.RETH = wire.RETH{VA: base, RKey: r.responder.region.RKey(), DMALen: rxeMessage * rxePacketSize}
		case rxeMessage - 1:
			p.Opcode, p.AckReq = wire.RCRDMAWriteLast, true
		}
		p.Info = p.Opcode.Info()
		pseudo := wire.NewPseudo(path.addr, r.responder.addr, r.flow.port, roce.UDPPort)
		r.w.Net.Send(simnet.Datagram{Src: path.addr, Dst: r.responder.addr, SrcPort: r.flow.port,
			DstPort: wire.Port, Payload: pseudo.Seal(p.Append(nil), 0)})
	}
}

// playRxe has a requester as rxe is write to a responder of Verbena.
func playRxe(s Scenario, took monotime.Duration) (*rxeRequester, simnet.LinkCounts) {
	s.Fill()
	w := NewWorld(s.Seed)
	there, back := s.link(), s.link()
	from, to := netip.MustParseAddr("10.1.0.0"), netip.MustParseAddr("10.2.0.0")
	w.Net.Route(from, to, there)
	w.Net.Route(to, from, back)
	f := &Flow{Spec: Spec{Kind: Write, From: from, To: to, MTU: s.MTU, Depth: 1, Reads: 1,
		Message: rxeMessage * rxePacketSize, GoBackN: s.GoBackN}, w: w, port: firstPort}
	server := w.newRCEnd(f, to)
	server.connect(&rcEnd{addr: from, qpn: firstQPN})
	r := &rxeRequester{w: w, flow: f, responder: server}
	w.Net.Attach(from, r.deliver)
	w.Net.At(0, func() { r.arm(); r.send() })
	w.Run(took)
	return r, there.Count
}

// A requester as rxe is waits for its time-out only where a packet that it repeats is lost, too:
// it ignores the NAK then. Where a gap has healed the responder acknowledges at once, also if it
// has no memory to keep packets after a gap. So the next NAK counts.
func TestRequesterAsRxeIsNotHeldUp(t *testing.T) {
	losses, memories, seconds := []int{1000, 10_000}, []bool{false, true}, 10
	if testing.Short() {
		losses, memories, seconds = losses[1:], memories[1:], 1
	}
	for _, loss := range losses {
		for _, noMemory := range memories {
			s := Scenario{Rate: 1e9, MTU: ib.MTU1024, RTT: monotime.Millisecond, Loss: loss,
				GoBackN: noMemory}
			r, there := playRxe(s, monotime.Duration(seconds)*monotime.Second)
			lost := float64(there.Lost)
			again := lost * float64(loss) / 1e6 // lost when repeated
			t.Logf("loss %g %%, no memory %v: %.3g MB/s, %g packets lost, %d NAKs, %d time-outs", float64(loss)/1e4,
				noMemory, float64(r.done*rxePacketSize)/float64(seconds)/1e6, lost, r.naks, r.stalls)
			if float64(r.stalls) > 1.5*again+5 || r.done == 0 {
				t.Errorf("%d time-outs, about %.1f packets were lost twice", r.stalls, again)
			}
		}
	}
}

// A network that is late costs a requester that goes back N what it repeats, and never a time-out:
// the responder keeps packets that came early, and acknowledges all when the late one comes.
func TestReorderingOfForeignRequester(t *testing.T) {
	notShort(t)
	for _, late := range []monotime.Duration{ms / 20, ms / 5} {
		s := Scenario{Rate: 1e9, MTU: ib.MTU1024, RTT: ms, Reorder: 1000, Late: late}
		r, there := playRxe(s, monotime.Second)
		share := float64(r.done*rxePacketSize) * 8 / 1e9
		t.Logf("up to %v late: %.3g of the link, %d late, %d NAKs, %d time-outs", late, share,
			there.Late, r.naks, r.stalls)
		if share < 0.6 || r.stalls > 0 || r.naks > there.Late {
			t.Errorf("up to %v late: %.3g of the link, %d late, %d NAKs, %d time-outs", late, share,
				there.Late, r.naks, r.stalls)
		}
	}
}

// A responder that goes back N drops the packets after a late one: the requester has to go back.
// It does so once for each, without a time-out. So it does for READ responses.
func TestReorderingTowardsForeignResponder(t *testing.T) {
	notShort(t)
	for _, kind := range []Kind{Write, Send, Read} {
		for _, late := range []monotime.Duration{ms / 20, ms / 5} {
			s := Scenario{Kind: kind, Rate: 1e9, MTU: ib.MTU1024, RTT: ms, Reorder: 1000, Late: late,
				GoBackN: true, Measured: monotime.Second}
			r := Run(s)
			trip := float64(s.Rate) / 8 * s.RTT.Seconds() / 1024 // packets of a round trip
			t.Logf("%v, up to %v late: %.3g of the link, %d late, %d repeated", &s, late,
				r.Goodput*8/1e9, r.Data.Late, r.Repeated)
			if r.Goodput*8/1e9 < 0.75 || r.Timeouts > 0 || r.Dead > 0 ||
				float64(r.Repeated) > 2*trip*float64(r.Data.Late) {
				t.Errorf("%v, up to %v late: %.3g of the link, %d late, %d repeated, %d time-outs",
					&s, late, r.Goodput*8/1e9, r.Data.Late, r.Repeated, r.Timeouts)
			}
		}
	}
}
