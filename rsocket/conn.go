// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"net"
	"sync"
	"time"

	"verbena/ib"
	"verbena/internal/rstream"
	"verbena/rdmacm"
	"verbena/verbs"
)

// Conn is a stream: a net.Conn.
type Conn struct {
	// immutable after start
	kind          rdmacm.Kind
	cm            *rdmacm.Conn
	qp            *verbs.QP
	local, remote *Addr
	rbuf          []byte
	table, words  []byte // the peer writes them, as rbuf
	rbufMR        *verbs.MR
	// conditions of wait
	readable, writable, told, settled func() bool

	readMu  sync.Mutex // serialises readers
	writeMu sync.Mutex // serialises writers
	shutMu  sync.Mutex // serialises CloseWrite

	waits  // its mu guards the rest; cq is that of both queues
	stream rstream.Stream
	gone   bool // the queue pair may be destroyed: nothing is posted or polled
	deaf   bool // CloseRead was called
	mute   bool // CloseWrite was called

	sbuf   []byte // changed by a writer only, which holds writeMu too
	sbufMR *verbs.MR
	large  []byte  // the receive buffer behind rbuf; nil before growReceive
	keeps  [2]bool // its small receive and send buffer: there was no memory

	reader, writer, shutter waiter

	owed     int // receives to post
	nextWord int
	one      [1][]byte // of Write; guarded by writeMu
	control  rstream.Control
	wc       [16]ib.WC
	sends    [2]verbs.SendWR
	sges     [2]ib.SGE
	word     [4]byte // of a SEND
	recvs    [16]verbs.RecvWR
	recvSGEs [16]ib.SGE
}

var (
	_ net.Conn     = (*Conn)(nil)
	_ net.Listener = (*Listener)(nil)
)

func newConn(kind rdmacm.Kind) *Conn {
	c := &Conn{kind: kind}
	c.stream.Config = config(kind)
	c.readable, c.writable = c.stream.Readable, c.stream.Writable
	c.told, c.settled = c.stream.Told, c.stream.Settled
	c.init(c.progress, c.failed, &c.reader, &c.writer, &c.shutter)
	return c
}

// LocalAddr returns the local address: an *Addr.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the peer's address: an *Addr.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// RDMA returns the connection of package rdmacm, to look at. Its queue pair and completion queue
// belong to the stream.
func (c *Conn) RDMA() *rdmacm.Conn { return c.cm }

// SetDeadline sets both deadlines: net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.fail("set", c.setDeadlines(t, &c.reader, &c.writer, &c.shutter))
}

// SetReadDeadline sets the time from which Read fails with os.ErrDeadlineExceeded. Zero means
// never.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.fail("set", c.setDeadlines(t, &c.reader))
}

// SetWriteDeadline sets the time from which Write fails with os.ErrDeadlineExceeded. Some of its
// bytes may have been sent then. Zero means never.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.fail("set", c.setDeadlines(t, &c.writer, &c.shutter))
}
