// SPDX-License-Identifier: BSD-2-Clause

package talk

import (
	"net/netip"
	"testing"
	"time"

	"verbena/internal/wire/iwarp"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/trp"
)

// TRPServer is the address of B in conversations of TRP.
var TRPServer = netip.AddrPortFrom(B.Addr(), 7174)

// TRP writes datagrams of TRP as one frame from A to B or, if back, to A. More than one are a burst
// that an interface cuts.
func (c *Capture) TRP(back bool, burst ...trp.Packet) {
	c.t.Helper()
	d := pcap.Datagram{Time: Start.Add(c.At), Src: A, Dst: TRPServer, Comment: c.Comment}
	c.Comment = ""
	if back {
		d.Src, d.Dst = d.Dst, d.Src
	}
	var b []byte
	for _, p := range burst {
		b = p.Append(b)
	}
	if err := c.w.Write(&d, b); err != nil {
		c.t.Fatal(err)
	}
	c.At += time.Microsecond
}

// TRPWrite returns a datagram with a segment of an RDMA WRITE.
func TRPWrite(psn, ack trp.PSN, last bool, bytes int) trp.Packet {
	h := iwarp.Header{Control: iwarp.NewControl(iwarp.RDMAWrite, last), STag: 7}
	return trp.Packet{Header: trp.Header{PSN: psn, AckPSN: ack, Opcode: trp.Data},
		Payload: append(h.Append(nil), make([]byte, bytes)...)}
}

// TRPAck returns a datagram that acknowledges all before ack.
func TRPAck(psn, ack trp.PSN) trp.Packet {
	return trp.Packet{Header: trp.Header{PSN: psn, AckPSN: ack, Opcode: trp.Data}}
}

// LossyTRP returns a conversation over TRP of three WRITEs of three segments. The second loses a
// segment, for which B asks. The third loses its last, which A sends again by its timer.
func LossyTRP(t testing.TB) []byte {
	c := New(t)
	setUp := func(o trp.Opcode) trp.Packet { return trp.Packet{Header: trp.Header{Opcode: o}} }
	c.TRP(false, setUp(trp.Request))
	c.TRP(true, setUp(trp.Accept))
	for psn := range trp.PSN(9) {
		c.TRP(false, TRPWrite(psn, 0, psn%3 == 2, 1000))
		switch psn {
		case 2:
			c.At += 20 * time.Microsecond
			c.TRP(true, TRPAck(0, 3))
		case 5:
			c.At += 20 * time.Microsecond
			c.TRP(true, trp.Packet{Header: trp.Header{PSN: 4, AckPSN: 5, Opcode: trp.SACK}})
			c.TRP(false, TRPWrite(4, 0, false, 1000))
			c.At += 20 * time.Microsecond
			c.TRP(true, TRPAck(0, 6))
		}
	}
	c.At += time.Millisecond
	c.TRP(false, TRPWrite(8, 0, true, 1000))
	c.At += 20 * time.Microsecond
	c.TRP(true, TRPAck(0, 9))
	return c.Bytes()
}
