// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"verbena/ib"
	"verbena/internal/core"
	"verbena/internal/mem"
	"verbena/internal/rstream"
	wire "verbena/internal/wire/rsocket"
	"verbena/rdmacm"
	"verbena/verbs"
)

// The sizes are the defaults of librdmacm.
const (
	bufferSize = 128 << 10
	queueSize  = 384
	inlineSize = 64
)

// Parameters of connections: a lost acknowledgement does not break one, nor does a receiver that is
// slow to post receives.
const (
	retryCount      = 7
	rnrRetryForever = 7
)

func config(kind rdmacm.Kind) rstream.Config {
	return rstream.Config{
		SendBuffer: bufferSize, ReceiveBuffer: bufferSize,
		SendQueue: queueSize, ReceiveQueue: queueSize,
		BySend: kind == rdmacm.IWARP || kind == rdmacm.TRP,
	}
}

// options returns those by which rdmacm makes the queue pair and calls prepare.
func (c *Conn) options() *rdmacm.Options {
	param := &rdmacm.ConnParam{FlowControl: true, RetryCount: retryCount,
		RNRRetryCount: rnrRetryForever}
	if c.stream.BySend { // iWARP may begin a connection with a READ
		param.InitiatorDepth, param.ResponderResources = 1, 1
	}
	o := &rdmacm.Options{Kind: c.kind, OneCQ: true, Param: param}
	o.QP.Cap = ib.QPCap{MaxSendWR: queueSize, MaxRecvWR: uint32(c.stream.Receives()),
		MaxSendSGE: 2, MaxRecvSGE: 1, MaxInlineData: inlineSize}
	o.Prepare = func(cm *rdmacm.Conn) error {
		data, err := c.prepare(cm)
		param.PrivateData = data.Append(nil)
		return err
	}
	return o
}

// prepare registers the buffers and posts the receives, before the peer can send. The memory that
// the peer writes is
//
//	receive buffer │ table │ a word for each receive, if messages are SENDs
func (c *Conn) prepare(cm *rdmacm.Conn) (d wire.ConnData, err error) {
	receives := c.stream.Receives()
	c.qp, c.cq = cm.QP(), cm.RecvCQ
	(*core.QP)(c.qp).Beside(mem.LinesOf(c))
	c.sbuf = make([]byte, bufferSize)
	written := make([]byte, bufferSize+rstream.TableSize+receives*wire.MessageSize)
	c.rbuf, written = written[:bufferSize], written[:cap(written)]
	c.table = written[bufferSize:][:rstream.TableSize]
	c.words = written[bufferSize+rstream.TableSize:]
	if c.sbufMR, err = cm.RegMR(c.sbuf, 0); err != nil {
		return d, err
	}
	c.rbufMR, err = cm.RegMR(written, ib.AccessLocalWrite|ib.AccessRemoteWrite)
	if err != nil {
		return d, err
	}
	c.owed = receives
	if err := c.postReceives(); err != nil {
		return d, err
	}
	table := wire.Window{Addr: c.rbufMR.Addr() + bufferSize, Key: c.rbufMR.RKey()}
	return c.stream.Local(c.window(), table), nil
}

// window returns the receive buffer as the peer names it.
func (c *Conn) window() wire.Window {
	return wire.Window{Addr: c.rbufMR.Addr(), Key: c.rbufMR.RKey()}
}

// parsePeer returns the private data of a peer with which a stream can be made.
func parsePeer(private []byte) (wire.ConnData, bool) {
	d, _, ok := wire.ParseConnData(private)
	return d, ok && rstream.Acceptable(d)
}

// start begins the stream of a connection that is established.
func (c *Conn) start(cm *rdmacm.Conn, peer wire.ConnData) {
	c.cm = cm
	c.local = &Addr{c.kind, cm.ID.LocalAddr()}
	c.remote = &Addr{c.kind, cm.ID.PeerAddr()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream.Start(peer, c.window(), c.table)
	c.postControl() // grants the second half
}

// receiveID marks the number of a receive, which counts words.
const receiveID = 1 << 63

// postReceives posts the receives that are owed. They have no memory unless messages are SENDs: the
// immediate data counts. The caller holds mu.
func (c *Conn) postReceives() error {
	for c.owed > 0 {
		n := min(c.owed, len(c.recvs))
		for i := range n {
			c.recvs[i] = verbs.RecvWR{ID: receiveID | uint64(c.nextWord)}
			if c.stream.BySend {
				at := bufferSize + rstream.TableSize + c.nextWord*wire.MessageSize
				c.recvSGEs[i] = c.rbufMR.SGE(at, wire.MessageSize)
				c.recvs[i].SGList = c.recvSGEs[i : i+1]
			}
			c.nextWord = (c.nextWord + 1) % c.stream.Receives()
		}
		if _, err := c.qp.PostRecv(c.recvs[:n]...); err != nil {
			return err
		}
		c.owed -= n
	}
	return nil
}
