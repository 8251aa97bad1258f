// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"bytes"
	"strings"
	"testing"

	"verbena/ib"
	"verbena/internal/testkit/talk"
	"verbena/internal/trace"
	"verbena/internal/wire/pcapread"
	"verbena/internal/wire/roce"
	"verbena/internal/wire/trp"
)

// TestBurstOfRoCE: a host's own capture shows as one frame the datagrams that its interface cuts.
// They are packets as others are, and of them the damaged one alone is bad.
func TestBurstOfRoCE(t *testing.T) {
	packet := func(o roce.Opcode, psn uint32, bytes int) roce.Packet {
		return roce.Packet{BTH: roce.BTH{Opcode: o, PSN: ib.NewPSN(psn)}, Payload: make([]byte, bytes)}
	}
	for damaged, want := range map[int]string{-1: "sent sent sent sent ack", 1: "sent sent bad sent ack"} {
		c := talk.New(t)
		c.Send(roce.RCRDMAWriteFirst, 0, 256)
		c.Comment = "qpn=0x000011 rtt_ns=20000 window_bytes=65536"
		c.Burst(damaged, packet(roce.RCRDMAWriteMiddle, 1, 256), packet(roce.RCRDMAWriteMiddle, 2, 256),
			packet(roce.RCRDMAWriteLast, 3, 100))
		c.Ack(3)
		tl := read(t, c.Bytes())
		if got := strings.Join(kinds(tl), " "); got != want || len(tl.Ops) != 1 || tl.Ops[0].Status != Done || len(tl.Samples) != 1 {
			t.Errorf("%s, want %s; %+v, %d samples", got, want, tl.Ops, len(tl.Samples))
		}
		if p := &tl.Packets; p.Length[1] != 20+8+12+256+4 || p.Length[3] != 20+8+12+100+4 {
			t.Errorf("lengths %v", p.Length)
		}
	}
}

// TestBurstOfTRP: so are those of TRP, while a payload that looks like a header is none.
func TestBurstOfTRP(t *testing.T) {
	c := talk.New(t)
	c.TRP(false, trp.Packet{Header: trp.Header{Opcode: trp.Request}})
	c.TRP(true, trp.Packet{Header: trp.Header{Opcode: trp.Accept}})
	c.TRP(false, talk.TRPWrite(0, 0, false, 500), talk.TRPWrite(1, 0, false, 500), talk.TRPWrite(2, 0, true, 70))
	p := talk.TRPWrite(3, 0, true, 500)
	p.Payload[103] = 4 // the next PSN in front of zeros
	c.TRP(false, p)
	c.TRP(true, talk.TRPAck(0, 4))
	tl := read(t, c.Bytes())
	if got := strings.Join(kinds(tl), " "); got != "setup setup sent sent sent sent ack" {
		t.Error(got)
	}
	if len(tl.Ops) != 2 || tl.Ops[0].Packets != 3 || tl.Ops[0].Bytes != 1070 || tl.Ops[1].Bytes != 500 || tl.Ops[1].Status != Done {
		t.Errorf("%+v", tl.Ops)
	}
}

// TestBurstIsBounded: no frame is cut into pieces of nothing, and few sizes are tried.
func TestBurstIsBounded(t *testing.T) {
	c := talk.New(t)
	c.Packet(false, roce.Packet{BTH: roce.BTH{Opcode: roce.RCSendOnly}, Payload: bytes.Repeat([]byte{0}, 60000)})
	b := c.Bytes()
	b[len(b)/2] ^= 1
	r, err := pcapread.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	d, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.Payload {
		d.Payload[i] = 7 // each place looks like a packet
	}
	if n := trace.CutRoCE(&d); n != 0 {
		t.Errorf("cut to %d bytes", n)
	}
	if got := kinds(read(t, b)); len(got) != 1 || got[0] != "bad" {
		t.Errorf("%v", got)
	}
}

// TestRETHsInAllPackets: a WRITE whose Middle and Last packets have a RETH is one operation, and
// the RETHs are no payload.
func TestRETHsInAllPackets(t *testing.T) {
	const mtu, total = 1024, 4*1024 - 100
	packet := func(o roce.Opcode, i int, bytes int) roce.Packet {
		at := uint64(i * mtu)
		return roce.Packet{BTH: roce.BTH{Opcode: o, PSN: ib.NewPSN(uint32(i)), AllRETH: i > 0},
			RETH:    roce.RETH{VA: 0x1000 + at, RKey: 7, DMALen: total - uint32(at)},
			Payload: make([]byte, bytes)}
	}
	for _, joined := range []bool{false, true} {
		c := talk.New(t)
		list := []roce.Packet{packet(roce.RCRDMAWriteFirst, 0, mtu), packet(roce.RCRDMAWriteMiddle, 1, mtu),
			packet(roce.RCRDMAWriteMiddle, 2, mtu), packet(roce.RCRDMAWriteLast, 3, mtu-100)}
		if joined {
			c.Burst(-1, list...)
		} else {
			for _, p := range list {
				c.Packet(false, p)
			}
		}
		c.Ack(3)
		tl := read(t, c.Bytes())
		if got := strings.Join(kinds(tl), " "); got != "sent sent sent sent ack" {
			t.Errorf("joined %v: %s", joined, got)
		}
		if len(tl.Ops) != 1 || tl.Ops[0].Bytes != total || tl.Ops[0].Packets != 4 || tl.Ops[0].Status != Done {
			t.Errorf("joined %v: %+v", joined, tl.Ops)
		}
		if p := tl.Packets.Payload; p[1] != mtu || p[3] != mtu-100 {
			t.Errorf("joined %v: payloads %v", joined, p)
		}
	}
}
