// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/testkit/talk"
	"verbena/internal/wire/cm"
	"verbena/internal/wire/roce"
	"verbena/internal/wire/trp"
)

// The first finding names the cause: the memory that was refused, since when a peer is silent, and
// that it never answered.
func TestFindingsNameTheCause(t *testing.T) {
	write := func(psn uint32) roce.Packet {
		return roce.Packet{BTH: roce.BTH{Opcode: roce.RCRDMAWriteOnly, PSN: ib.NewPSN(psn), AckReq: true},
			RETH: roce.RETH{VA: 0x5000, RKey: 0x77, DMALen: 64}, Payload: make([]byte, 64)}
	}
	for name, test := range map[string]struct {
		story func(c *talk.Capture)
		want  string
	}{
		"wrong key": {func(c *talk.Capture) {
			c.Packet(false, write(1))
			c.At = 20 * time.Microsecond
			c.Answer(roce.RCAcknowledge, 1, roce.NAKRemoteAccess, 0)
		}, "WRITE #1 of A failed at 20µs: Remote Access Error, for 64 bytes at 0x5000 by R_Key 0x00000077."},
		"silence": {func(c *talk.Capture) {
			c.Packet(false, write(1))
			c.At = 20 * time.Microsecond
			c.Ack(1)
			c.At = 50 * time.Microsecond
			c.Packet(false, write(2))
			c.Packet(false, write(2))
		}, "WRITE #2 of A has no answer: 1 packet sent again; B sent nothing after 20µs."},
		"no server": {func(c *talk.Capture) {
			for range 3 {
				c.TRP(false, trp.Packet{Header: trp.Header{Opcode: trp.Request}})
				c.At += 10 * time.Millisecond
			}
		}, "B has not answered: 3 packets of A to set up the connection."},
	} {
		c := talk.New(t)
		test.story(c)
		conn := read(t, c.Bytes()).Conns[0]
		if len(conn.Findings) == 0 || conn.Findings[0].Text != test.want || conn.Grade() != "bad" {
			t.Errorf("%s: %s, %+v, want %q", name, conn.Grade(), conn.Findings, test.want)
		}
	}
}

// Only a request for a connection lacks an answer. A capture that begins late, as a ring does, may
// have one end's last packet alone.
func TestFindingsOfOneEnd(t *testing.T) {
	for a, bad := range map[cm.Attribute]bool{cm.AttrREQ: true, cm.AttrSIDRREQ: true, cm.AttrREP: false, cm.AttrRTU: false, cm.AttrDREQ: false, cm.AttrDREP: false} {
		c := talk.New(t)
		c.Packet(false, roce.Packet{BTH: roce.BTH{Opcode: roce.UDSendOnly, DestQP: ib.QP1},
			DETH: roce.DETH{SrcQP: ib.QP1}, Payload: append(cm.NewHeader(a, 1).Append(nil), make([]byte, cm.DataSize)...)})
		if conn := read(t, c.Bytes()).Conns[0]; (conn.Grade() == "bad") != bad {
			t.Errorf("%v: %s, %+v", a, conn.Grade(), conn.Findings)
		}
	}
}
