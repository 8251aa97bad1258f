// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"io"
	"net"
	"syscall"

	"verbena/ib"
	"verbena/internal/rstream"
	"verbena/verbs"
)

// The pieces of a Write grow: the first is on the wire while the next is copied, and a long
// transfer takes few messages. Those of a stream with large buffers are longer: there the peer
// still reads earlier ones.
const (
	firstPiece   = 4 << 10
	largestPiece = 64 << 10
	largePiece   = 256 << 10 // with large buffers, where the first is largestPiece
)

func (c *Conn) pieceSize(piece int) int {
	first, largest := firstPiece, largestPiece
	if len(c.sbuf) == largeSize {
		first, largest = largestPiece, largePiece
	}
	return min(first<<(2*min(piece, 2)), largest)
}

// Write sends b: net.Conn. It returns when b may be used again, before the peer has read it.
func (c *Conn) Write(b []byte) (int, error) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	c.one[0] = b
	n, err := c.write(c.one[:])
	c.one[0] = nil
	return int(n), c.fail("write", err)
}

// WriteBuffers sends several buffers as one: writev(2). It consumes them as net.Buffers.WriteTo
// does. That sends each buffer by a message of its own: package net lets only its own connections
// have buffers at once. So a program calls
//
//	c.WriteBuffers(&buffers) // instead of buffers.WriteTo(c)
func (c *Conn) WriteBuffers(b *net.Buffers) (int64, error) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	n, err := c.write(*b)
	consume(b, n)
	return n, c.fail("write", err)
}

// consume removes the first n bytes of b.
func consume(b *net.Buffers, n int64) {
	for len(*b) > 0 && n >= int64(len((*b)[0])) {
		n -= int64(len((*b)[0]))
		(*b)[0] = nil
		*b = (*b)[1:]
	}
	if n > 0 {
		(*b)[0] = (*b)[0][n:]
	}
}

// write sends buffers, which it leaves as they are. The caller holds writeMu.
func (c *Conn) write(buffers [][]byte) (total int64, err error) {
	from := cursor{buffers: buffers}
	for _, b := range buffers {
		from.left += len(b)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if from.left == 0 {
		return 0, c.check(&c.writer)
	}
	for piece := 0; from.left > 0; piece++ {
		if err := c.awaitRoom(); err != nil {
			return total, err
		}
		n := min(from.left, c.pieceSize(piece))
		if short := from.next(); n <= inlineSize && len(short) == n {
			if n = min(n, c.room()); n == len(short) {
				c.send(n, short)
				return total + int64(n), nil
			}
		}
		n = min(n, c.room())
		at, first, _ := c.stream.Free()
		c.mu.Unlock() // readers go on during the copy
		from.gather(c.sbuf[at:][:min(n, int(first))])
		from.gather(c.sbuf[:n-min(n, int(first))])
		c.mu.Lock()
		if !c.stream.MaySend() {
			return total, c.whyNot()
		}
		c.send(n, nil)
		total += int64(n)
	}
	return total, nil
}

// cursor is a position in buffers.
type cursor struct {
	buffers [][]byte
	offset  int // in the first
	left    int // bytes of all
}

// next returns the rest of the buffer at the cursor, which has bytes left.
func (f *cursor) next() []byte {
	for f.offset == len(f.buffers[0]) {
		f.buffers, f.offset = f.buffers[1:], 0
	}
	return f.buffers[0][f.offset:]
}

// gather fills b, for which there are bytes.
func (f *cursor) gather(b []byte) {
	for len(b) > 0 {
		n := copy(b, f.next())
		f.offset, f.left, b = f.offset+n, f.left-n, b[n:]
	}
}

// awaitRoom waits until something may be sent. The caller holds both locks.
func (c *Conn) awaitRoom() error {
	if err := c.check(&c.writer); err != nil {
		return err
	}
	if c.stream.MayGrowSend() && !c.gone {
		c.growSend()
	}
	if !c.stream.Writable() {
		if err := c.wait(&c.writer, c.writable); err != nil {
			return err
		}
	}
	if !c.stream.MaySend() {
		return c.whyNot()
	}
	return nil
}

// room returns the bytes that one message may have.
func (c *Conn) room() int {
	_, n, more := c.stream.Free()
	return int(n + more)
}

// whyNot returns why nothing may be sent any more.
func (c *Conn) whyNot() error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.stream.State() == rstream.Failed:
		return c.stream.Err()
	case c.mute:
		return syscall.EPIPE
	}
	return syscall.ECONNRESET
}

// send sends n bytes: those at the head of the send buffer, or inline ones. The caller holds mu.
func (c *Conn) send(n int, inline []byte) {
	at, first, _ := c.stream.Free()
	w := c.stream.Send(uint32(n), inline != nil)
	wr := verbs.SendWR{ID: w.Sent.ID(), RemoteAddr: w.To.Addr, RKey: w.To.Key}
	if inline != nil {
		wr.Flags, wr.Inline = ib.SendInline, inline
	} else {
		c.sges[0] = c.sbufMR.SGE(int(at), min(n, int(first)))
		wr.SGList = c.sges[:1]
		if n > int(first) {
			c.sges[1] = c.sbufMR.SGE(0, n-int(first))
			wr.SGList = c.sges[:2]
		}
	}
	c.post(wr, w.Message, w.Signal)
}

// ReadFrom sends the bytes that r reads, until its end: io.ReaderFrom. r reads to the memory that
// the device sends. Other writers wait.
func (c *Conn) ReadFrom(r io.Reader) (total int64, err error) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	for {
		n, err := c.passFrom(r)
		if total += int64(n); err == io.EOF {
			return total, nil
		} else if err != nil {
			return total, err
		}
	}
}

func (c *Conn) passFrom(r io.Reader) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.awaitRoom(); err != nil {
		return 0, c.fail("write", err)
	}
	at, n, _ := c.stream.Free()
	c.mu.Unlock()
	m, err := r.Read(c.sbuf[at:][:min(n, largestPiece)])
	c.mu.Lock()
	if m < 0 || m > int(n) {
		panic("rsocket: a Reader has read more than it had room for")
	}
	if m > 0 {
		if !c.stream.MaySend() {
			return 0, c.fail("write", c.whyNot())
		}
		c.send(m, nil)
	}
	return m, err
}
