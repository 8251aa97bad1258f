// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"verbena/ib"
	"verbena/internal/rstream"
	wire "verbena/internal/wire/rsocket"
	"verbena/verbs"
)

// batches bounds the completions that one call takes, for the sake of callers that wait for mu.
const batches = 256

// progress takes completions, and sends control messages that are due. The caller holds mu.
func (c *Conn) progress() {
	if c.gone {
		return
	}
	c.postControl()
	s := takeScratch()
	defer s.put()
	for range batches {
		n, err := c.cq.Take(s.wc[:])
		if err != nil {
			c.stream.Fail(err)
			break
		}
		for i := range n {
			c.complete(&s.wc[i])
		}
		if c.stream.BySend || c.owed >= receiveBatch {
			c.renewReceives()
		}
		if n < len(s.wc) {
			break
		}
	}
	c.postControl()
	c.notify()
}

// failed notes that the completion queue has failed. The caller holds mu.
func (c *Conn) failed(err error) {
	if !c.gone {
		c.stream.Fail(err)
	}
}

func (c *Conn) complete(wc *ib.WC) {
	switch {
	case wc.Status == ib.WCWRFlushErr:
		c.stream.HandleGone()
	case wc.Status != ib.WCSuccess:
		c.stream.Fail(statusError(wc.Status))
	case wc.WRID&receiveID == 0:
		c.stream.HandleSent(rstream.SentOf(wc.WRID))
	default:
		c.owed++
		switch at := int(wc.WRID&^receiveID) * wire.MessageSize; {
		case wc.Flags&ib.WCWithImm != 0:
			c.stream.HandleImmediate(wc.ImmData)
		case c.stream.BySend:
			c.stream.HandleSend(c.words[at : at+int(wc.ByteLen)])
		}
	}
}

// try notes the error of a call that posts.
func (c *Conn) try(err error) {
	if err != nil {
		c.stream.Fail(err)
	}
}

// postControl sends control messages that are due. The caller holds mu.
func (c *Conn) postControl() {
	if c.stream.MayGrowReceive() && !c.gone {
		c.growReceive()
	}
	if c.gone || !c.stream.HasControl() {
		return
	}
	s := takeScratch()
	defer s.put()
	for !c.gone && c.stream.PollControl(&s.control) {
		c.renewReceives() // the message may grant them
		wr := verbs.SendWR{ID: s.control.Sent.ID()}
		if s.control.HasEntry {
			wr.Flags, wr.Inline = ib.SendInline, s.control.Entry[:]
			wr.RemoteAddr, wr.RKey = s.control.To.Addr, s.control.To.Key
		}
		c.post(s, wr, s.control.Message, true)
	}
}

// renewReceives posts the receives that messages have taken. The caller holds mu.
func (c *Conn) renewReceives() {
	if c.stream.State() == rstream.Connected {
		c.try(c.postReceives())
	}
}

// post posts a WRITE and its message. Over iWARP the message is a SEND behind it. The caller holds
// mu.
func (c *Conn) post(s *scratch, wr verbs.SendWR, message uint32, signal bool) {
	var signaled ib.SendFlags
	if signal {
		signaled = ib.SendSignaled
	}
	if !c.stream.BySend {
		wr.Opcode, wr.ImmData = ib.WRRDMAWriteWithImm, message
		wr.Flags |= signaled
		s.sends[0] = wr
		c.postSends(s.sends[:1])
		return
	}
	wire.PutSend(s.word[:], message)
	s.sends[1] = verbs.SendWR{ID: wr.ID, Opcode: ib.WRSend, Inline: s.word[:],
		Flags: ib.SendInline | signaled}
	if len(wr.SGList) == 0 && len(wr.Inline) == 0 {
		c.postSends(s.sends[1:])
		return
	}
	wr.Opcode = ib.WRRDMAWrite
	s.sends[0] = wr
	c.postSends(s.sends[:])
}

func (c *Conn) postSends(wrs []verbs.SendWR) {
	_, err := c.qp.PostSend(wrs...)
	c.try(err)
	clear(wrs) // the caller's bytes are not kept
}
