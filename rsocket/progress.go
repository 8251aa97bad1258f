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
	for range batches {
		n, err := c.cq.Take(c.wc[:])
		if err != nil {
			c.stream.Fail(err)
			break
		}
		for i := range n {
			c.complete(&c.wc[i])
		}
		if c.stream.State() == rstream.Connected {
			c.try(c.postReceives())
		}
		if n < len(c.wc) {
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
	for !c.gone && c.stream.PollControl(&c.control) {
		wr := verbs.SendWR{ID: c.control.Sent.ID()}
		if c.control.HasEntry {
			wr.Flags, wr.Inline = ib.SendInline, c.control.Entry[:]
			wr.RemoteAddr, wr.RKey = c.control.To.Addr, c.control.To.Key
		}
		c.post(wr, c.control.Message, true)
	}
}

// post posts a WRITE and its message. Over iWARP the message is a SEND behind it. The caller holds
// mu.
func (c *Conn) post(wr verbs.SendWR, message uint32, signal bool) {
	var signaled ib.SendFlags
	if signal {
		signaled = ib.SendSignaled
	}
	if !c.stream.BySend {
		wr.Opcode, wr.ImmData = ib.WRRDMAWriteWithImm, message
		wr.Flags |= signaled
		c.sends[0] = wr
		c.postSends(c.sends[:1])
		return
	}
	wire.PutSend(c.word[:], message)
	c.sends[1] = verbs.SendWR{ID: wr.ID, Opcode: ib.WRSend, Inline: c.word[:],
		Flags: ib.SendInline | signaled}
	if len(wr.SGList) == 0 && len(wr.Inline) == 0 {
		c.postSends(c.sends[1:])
		return
	}
	wr.Opcode = ib.WRRDMAWrite
	c.sends[0] = wr
	c.postSends(c.sends[:])
}

func (c *Conn) postSends(wrs []verbs.SendWR) {
	_, err := c.qp.PostSend(wrs...)
	c.try(err)
	clear(c.sends[:]) // the caller's bytes are not kept
}
