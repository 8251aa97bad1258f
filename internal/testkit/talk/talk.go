// SPDX-License-Identifier: BSD-2-Clause

// Package talk writes captures of made-up conversations, packet by packet, for tests of the tools
// that read them.
package talk

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/roce"
)

// Start is the time of a conversation's beginning.
var Start = time.Unix(1700000000, 0)

// The ends of a conversation, and the numbers of their queue pairs.
var (
	A = netip.MustParseAddrPort("192.0.2.1:50000")
	B = netip.MustParseAddrPort("192.0.2.2:50001")
)

// QPA and QPB are the queue pairs of A and B.
const (
	QPA ib.QPN = 0x11
	QPB ib.QPN = 0x22
)

// Capture is a capture being written. At is the time of the next packet, Mark and Comment are the
// next one's.
type Capture struct {
	At      time.Duration
	Marked  bool
	Comment string
	Twice   bool // each packet is there when it leaves, and when it arrives
	Told    bool // the capture says whether a packet leaves or arrives; without Twice, at A
	Travel  time.Duration

	t    testing.TB
	file bytes.Buffer
	w    *pcap.Writer
}

// New returns an empty capture.
func New(t testing.TB) *Capture {
	c := &Capture{t: t}
	c.w = pcap.NewWriter(&c.file, "test")
	return c
}

// Packet writes a packet of RoCEv2 to B or, if back, to A.
func (c *Capture) Packet(back bool, p roce.Packet) {
	c.t.Helper()
	src, dst, qp := A, B, QPB
	if back {
		src, dst, qp = B, A, QPA
	}
	p.MigReq, p.PKey = true, ib.DefaultPKey
	if p.DestQP == 0 {
		p.DestQP = qp
	}
	dst = netip.AddrPortFrom(dst.Addr(), roce.Port)
	d := pcap.Datagram{Time: Start.Add(c.At), Src: src, Dst: dst, Comment: c.Comment}
	if c.Marked {
		d.TrafficClass = 3
	}
	switch {
	case c.Told && back && !c.Twice:
		d.Direction = pcap.Inbound
	case c.Told:
		d.Direction = pcap.Outbound
	}
	pseudo := roce.NewPseudo(src.Addr(), dst.Addr(), src.Port(), dst.Port())
	if err := c.w.Write(&d, pseudo.Seal(p.Append(nil), 0)); err != nil {
		c.t.Fatal(err)
	}
	if c.Twice {
		d.Comment, d.Time = "", d.Time.Add(c.Travel)
		if c.Told {
			d.Direction = pcap.Inbound
		}
		if err := c.w.Write(&d, pseudo.Seal(p.Append(nil), 0)); err != nil {
			c.t.Fatal(err)
		}
	}
	c.Marked, c.Comment = false, ""
	c.At += time.Microsecond
}

// Send writes a packet with a payload from A to B.
func (c *Capture) Send(o roce.Opcode, psn uint32, bytes int) {
	c.t.Helper()
	p := roce.Packet{BTH: roce.BTH{Opcode: o, PSN: ib.NewPSN(psn), AckReq: o.Info().Last},
		Payload: make([]byte, bytes)}
	if o.Info().HasRETH {
		p.RETH.DMALen = uint32(bytes)
	}
	c.Packet(false, p)
}

// Read writes a READ of n bytes from A to B.
func (c *Capture) Read(psn, n uint32) {
	c.t.Helper()
	c.Packet(false, roce.Packet{BTH: roce.BTH{Opcode: roce.RCRDMAReadRequest, PSN: ib.NewPSN(psn)},
		RETH: roce.RETH{DMALen: n}})
}

// Answer writes an acknowledgement or a response from B to A.
func (c *Capture) Answer(o roce.Opcode, psn uint32, s roce.Syndrome, bytes int) {
	c.t.Helper()
	c.Packet(true, roce.Packet{BTH: roce.BTH{Opcode: o, PSN: ib.NewPSN(psn)},
		AETH: roce.AETH{Syndrome: s}, Payload: make([]byte, bytes)})
}

// Ack writes an acknowledgement of all up to a PSN.
func (c *Capture) Ack(psn uint32) {
	c.t.Helper()
	c.Answer(roce.RCAcknowledge, psn, roce.ACK(roce.CreditsInvalid), 0)
}

// Bytes ends the capture and returns it.
func (c *Capture) Bytes() []byte {
	c.t.Helper()
	if err := c.w.Close(); err != nil {
		c.t.Fatal(err)
	}
	return c.file.Bytes()
}

// Lossy returns a conversation in which everything goes wrong that can and is mended: a packet is
// lost, the receiver is not ready, the network marks; and at the end an access is refused.
func Lossy(t testing.TB) []byte {
	c := New(t)
	Story(c)
	return c.Bytes()
}

// Story writes the conversation of Lossy.
func Story(c *Capture) {
	c.Comment = "qpn=0x000011 rtt_ns=20000 min_rtt_ns=18000 window_bytes=65536 lost_packets=0"
	c.Send(roce.RCRDMAWriteFirst, 0xfffffe, 1024) // across the wrap of PSNs
	c.Send(roce.RCRDMAWriteMiddle, 0xffffff, 1024)
	c.Send(roce.RCRDMAWriteLast, 0, 100)
	c.At = 20 * time.Microsecond
	c.Answer(roce.RCAcknowledge, 0xffffff, roce.NAKPSNSequence, 0)
	c.Send(roce.RCRDMAWriteMiddle, 0xffffff, 1024)
	c.Send(roce.RCRDMAWriteLast, 0, 100)
	c.At = 40 * time.Microsecond
	c.Ack(0)
	c.Send(roce.RCSendOnly, 1, 64)
	c.At = 50 * time.Microsecond
	c.Answer(roce.RCAcknowledge, 1, roce.RNRNAK(1), 0)
	c.At = 65 * time.Microsecond
	c.Send(roce.RCSendOnly, 1, 64)
	c.Marked = true
	c.Answer(roce.CNP, 0, 0, 16)
	c.Ack(1)
	c.Read(2, 2048)
	c.At = 90 * time.Microsecond
	c.Answer(roce.RCRDMAReadResponseFirst, 2, roce.ACK(0), 1024)
	c.Answer(roce.RCRDMAReadResponseLast, 3, roce.ACK(0), 1024)
	c.Comment = "qpn=0x000011 rtt_ns=25000 min_rtt_ns=18000 window_bytes=32768 lost_packets=1"
	c.Send(roce.RCRDMAWriteOnly, 4, 512)
	c.At = 120 * time.Microsecond
	c.Answer(roce.RCAcknowledge, 4, roce.NAKRemoteAccess, 0)
}

// Call writes a verbs call. The next packet comes behind it.
func (c *Capture) Call(text string, failed bool) {
	c.t.Helper()
	call := pcap.Call{Time: Start.Add(c.At), Text: text, Failed: failed}
	if err := c.w.WriteCall(&call); err != nil {
		c.t.Fatal(err)
	}
	c.At += time.Microsecond
}
