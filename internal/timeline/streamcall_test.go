// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"verbena/ib"
	"verbena/internal/testkit/talk"
	"verbena/internal/wire/iwarp"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/roce"
	"verbena/internal/wire/trp"
)

// shapes describes the operations of A.
func shapes(tl *Timeline) string {
	var list []string
	for _, o := range tl.Ops {
		if !o.OfB {
			list = append(list, fmt.Sprintf("%s of %d in %d", o.Title(), o.Bytes, o.Packets))
		}
	}
	return strings.Join(list, ", ")
}

// Operations over TRP have their calls. A segment that comes late belongs to its own operation.
func TestCallsOverTRP(t *testing.T) {
	const write = " opcode=RDMA_WRITE bytes=3000"
	setUp := func(o trp.Opcode) trp.Packet { return trp.Packet{Header: trp.Header{Opcode: o}} }
	for name, o := range map[string]struct {
		segments            []trp.PSN
		want, wantOfPackets string
	}{
		"in order":    {[]trp.PSN{0, 1, 2, 3, 4, 5, 6, 7, 8}, "7/7 8/8 9/9", "WRITE #1 of 3000 in 3, WRITE #2 of 3000 in 3, WRITE #3 of 3000 in 3"},
		"late":        {[]trp.PSN{0, 1, 3, 5, 6, 7, 8, 4, 2}, "7/7 8/8 9/9", "WRITE #1 of 3000 in 3, WRITE #2 of 3000 in 3, WRITE #3 of 3000 in 3"},
		"one is lost": {[]trp.PSN{0, 1, 2, 3, 5, 6, 7, 8}, "7/7 8/8 -/- -/-", "WRITE #1 of 3000 in 3, WRITE #2 of 1000 in 1, WRITE #3 of 1000 in 1, WRITE #4 of 3000 in 3"},
	} {
		c := talk.New(t)
		c.Call("msg=ibv_create_qp qp.qpn=0x000011 qp.type=RC", false)
		c.Comment = "qpn=0x000011 rtt_ns=1"
		c.TRP(false, setUp(trp.Request))
		c.TRP(true, setUp(trp.Accept))
		posted(c, false, "wr_id=7"+write, "wr_id=8"+write, "wr_id=9"+write)
		for _, psn := range o.segments {
			c.TRP(false, talk.TRPWrite(psn, 0, psn%3 == 2, 1000))
		}
		c.TRP(true, talk.TRPAck(0, slices.Max(o.segments)+1))
		for _, id := range []string{"7", "8", "9"} {
			completed(c, "wr_id="+id+" status=success opcode=RDMA_WRITE", false)
		}
		tl := read(t, c.Bytes())
		if got := calls(tl); got != o.want {
			t.Errorf("%s: %s, want %s", name, got, o.want)
		}
		if got := shapes(tl); got != o.wantOfPackets {
			t.Errorf("%s: %s, want %s", name, got, o.wantOfPackets)
		}
	}
}

// A server's challenge, a Request to its client, belongs to the client's connection.
func TestChallengeOfTRP(t *testing.T) {
	c := talk.New(t)
	ask := trp.Packet{Header: trp.Header{Opcode: trp.Request}}
	c.TRP(false, ask)
	c.TRP(true, ask)
	c.TRP(false, ask)
	if tl := read(t, c.Bytes()); len(tl.Conns) != 1 || tl.Conns[0].A.Packets != 2 || tl.Conns[0].B.Packets != 1 {
		t.Errorf("%d connections, the first %+v", len(tl.Conns), tl.Conns[0])
	}
}

// Segments that wait for one that never comes are bounded.
func TestHeldSegmentsAreBounded(t *testing.T) {
	c := talk.New(t)
	c.TRP(false, trp.Packet{Header: trp.Header{Opcode: trp.Request}})
	c.TRP(false, talk.TRPWrite(0, 0, true, 10))
	for i := range trp.PSN(3 * maxHeld) {
		c.TRP(false, talk.TRPWrite(2*i+2, 0, true, 10))
	}
	tl := read(t, c.Bytes())
	if len(tl.Ops) != 3*maxHeld+1 || !tl.Ops[1].hole {
		t.Errorf("%d operations", len(tl.Ops))
	}
}

func untagged(o iwarp.Opcode, qn uint32, payload ...byte) []byte {
	h := iwarp.Header{Control: iwarp.NewControl(o, true), QN: qn, MSN: 1}
	return append(h.Append(nil), payload...)
}

func readOf(size uint32) []byte {
	return untagged(iwarp.ReadRequest, iwarp.QNRequest, iwarp.ReadReq{Size: size}.Append(nil)...)
}

func response(bytes int) []byte {
	h := iwarp.Header{Control: iwarp.NewControl(iwarp.ReadResponse, true)}
	return append(h.Append(nil), make([]byte, bytes)...)
}

// Operations over iWARP have their calls: a READ of two buffers is two requests, a WRITE with
// immediate data two messages, and nobody has posted the ready-to-receive message.
func TestCallsOverIWARP(t *testing.T) {
	write := func(bytes int) []byte { return talk.TRPWrite(0, 0, true, bytes).Payload }
	for _, rtr := range []iwarp.Enhanced{{}, {PeerToPeer: true, WriteRTR: true}, {PeerToPeer: true, ReadRTR: true}} {
		c := talk.New(t)
		c.Call("msg=ibv_create_qp qp.qpn=0x000011 qp.type=RC", false)
		s := c.Stream(iwarp.MPAFrame{CRC: true, Revision: 2, IsEnhanced: true, Enhanced: rtr},
			iwarp.MPAFrame{Reply: true, CRC: true, Revision: 2, IsEnhanced: true, Enhanced: rtr})
		posted(c, false, "wr_id=1 opcode=RDMA_READ bytes=30", "wr_id=2 opcode=LOCAL_INV bytes=0", "wr_id=3 opcode=RDMA_WRITE_WITH_IMM bytes=5",
			"wr_id=4 opcode=SEND bytes=4", "wr_id=5 opcode=RDMA_WRITE bytes=0", "wr_id=6 opcode=RDMA_READ bytes=0")
		c.Comment = "qpn=0x000011"
		switch {
		case rtr.WriteRTR:
			s.FPDUs(false, write(0))
		case rtr.ReadRTR:
			s.FPDUs(false, readOf(0))
			s.FPDUs(true, response(0))
		}
		s.FPDUs(false, readOf(10), readOf(20), write(5), untagged(iwarp.Immediate, iwarp.QNSend, make([]byte, 8)...))
		s.FPDUs(false, untagged(iwarp.Send, iwarp.QNSend, 1, 2, 3, 4), write(0), readOf(0))
		s.FPDUs(true, response(10))
		s.FPDUs(true, response(20))
		s.FPDUs(true, response(0))
		for _, text := range []string{"1 status=success opcode=RDMA_READ", "2 status=success opcode=LOCAL_INV", "3 status=success opcode=RDMA_WRITE", "4 status=success opcode=SEND", "5 status=success opcode=RDMA_WRITE", "6 status=success opcode=RDMA_READ"} {
			completed(c, "wr_id="+text, false)
		}
		tl := read(t, c.Bytes())
		if got := calls(tl); got != "1/1 1/1 3/3 4/4 5/5 6/6" {
			t.Errorf("%+v: %s", rtr, got)
		}
		if want := "READ #1 of 10 in 2, READ #2 of 20 in 2, WRITE #3 of 5 in 1, SEND #4 of 4 in 1, WRITE #5 of 0 in 1, READ #6 of 0 in 2"; shapes(tl) != want {
			t.Errorf("%+v: %s", rtr, shapes(tl))
		}
		for _, o := range tl.Ops {
			if o.Status != Done {
				t.Errorf("%+v", o)
			}
		}
	}
}

// All segments of a message belong to its operation over iWARP, which begins with the first.
func TestSegmentsOfAnOperation(t *testing.T) {
	c := talk.New(t)
	s := c.Stream(iwarp.MPAFrame{CRC: true, Revision: 1}, iwarp.MPAFrame{Reply: true, CRC: true, Revision: 1})
	cut := func(back bool, ddp []byte) {
		fpdu := iwarp.AppendFPDU(nil, ddp, true)
		s.Segment(back, pcap.Segment{}, fpdu[:1000])
		if !back {
			s.Segment(back, pcap.Segment{Seq: 21}, fpdu[:1000]) // behind the MPA Request
		}
		s.Segment(back, pcap.Segment{}, fpdu[1000:2000])
		s.Segment(back, pcap.Segment{}, fpdu[2000:])
	}
	cut(false, talk.TRPWrite(0, 0, true, 2500).Payload)
	s.FPDUs(false, readOf(2500))
	cut(true, response(2500))
	tl := read(t, c.Bytes())
	if got, want := shapes(tl), "WRITE #1 of 2500 in 4, READ #2 of 2500 in 4"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	if o := tl.Ops[0]; o.Start != tl.Packets.Time[2] || o.Repeated != 1 {
		t.Errorf("%+v, want its start at %v", o, tl.Packets.Time[2])
	}
	if got := strings.Join(kinds(tl)[2:], " "); got != "sent lost repeated sent sent sent response response response" {
		t.Error(got)
	}
}

// Datagrams of one queue pair to two peers find their calls by the PSN, also behind a missing one.
func TestCallsOfDatagrams(t *testing.T) {
	for name, o := range map[string]struct {
		modify string
		psns   []uint32
		want   string
	}{
		"all":         {" sq_psn=16777214", []uint32{0xfffffe, 0xffffff, 0, 1}, "1/1 3/3 2/2 4/4"},
		"one is lost": {" sq_psn=16777214", []uint32{0xffffff, 0, 1}, "2/2 4/4 3/3"},
		"no PSN":      {"", []uint32{0xfffffe, 0xffffff, 0, 1}, "-/- -/- -/- -/-"},
		"another":     {" sq_psn=3", []uint32{0xfffffe, 0xffffff, 0, 1}, "-/- -/- -/- -/-"},
		"nonsense":    {" sq_psn=99999999", []uint32{0xfffffe, 0xffffff}, "-/- -/-"},
	} {
		c := talk.New(t)
		c.Call("msg=ibv_create_qp qp.qpn=0x000011 qp.type=UD", false)
		c.Call("msg=ibv_modify_qp qp.qpn=0x000011 qp.state=RTS"+o.modify, false)
		for i := range 4 {
			posted(c, false, fmt.Sprintf("wr_id=%d opcode=SEND bytes=100", i+1))
		}
		for i, psn := range o.psns {
			p := roce.Packet{BTH: roce.BTH{Opcode: roce.UDSendOnly, PSN: ib.NewPSN(psn), DestQP: ib.QPN(0x22 + i%2)}, Payload: make([]byte, 100)}
			p.DETH.SrcQP = talk.QPA
			c.Packet(false, p)
		}
		for i := range 4 {
			completed(c, fmt.Sprintf("wr_id=%d status=success opcode=SEND", i+1), false)
		}
		tl := read(t, c.Bytes())
		if got := calls(tl); got != o.want {
			t.Errorf("%s: %s, want %s", name, got, o.want)
		}
		for _, op := range tl.Ops {
			if op.Posted != None && tl.Calls[op.Posted].Conn < 0 {
				t.Errorf("%s: a call of no connection", name)
			}
		}
	}
}
