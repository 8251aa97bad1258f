// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"io"
	"net"
	"syscall"

	"verbena/internal/rstream"
)

// Read reads bytes that have come, and waits while there are none: net.Conn. It returns io.EOF once
// the peer has shut its half.
func (c *Conn) Read(b []byte) (int, error) {
	c.readMu.Lock()
	defer c.readMu.Unlock()
	n, err := c.read(b)
	return n, c.fail("read", err)
}

func (c *Conn) read(b []byte) (total int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(b) == 0 {
		return 0, c.check(&c.reader)
	}
	at, n, err := c.awaitReady()
	if err != nil {
		return 0, err
	}
	for n > 0 && total < len(b) {
		n = min(n, uint32(len(b)-total))
		from := c.received(at, n)
		c.mu.Unlock() // writers go on during the copy
		total += copy(b[total:], from)
		c.mu.Lock()
		c.stream.Consume(n)
		c.postControl()
		at, n = c.stream.Ready()
	}
	return total, nil
}

// awaitReady waits for bytes to read: n at an offset of rbuf. The caller holds both locks.
func (c *Conn) awaitReady() (at, n uint32, err error) {
	if err := c.check(&c.reader); err != nil {
		return 0, 0, err
	}
	if !c.stream.Readable() {
		if err := c.wait(&c.reader, c.readable); err != nil {
			return 0, 0, err
		}
	}
	if at, n = c.stream.Ready(); n == 0 {
		return 0, 0, c.whyNothing()
	}
	return at, n, nil
}

// whyNothing returns why there is nothing to read and never will be.
func (c *Conn) whyNothing() error {
	switch {
	case c.stream.State() == rstream.Failed:
		return c.stream.Err()
	case c.stream.Ended() || c.deaf:
		return io.EOF
	}
	return syscall.ECONNRESET
}

// WriteTo writes received bytes to w, until the peer has shut its half: io.WriterTo. w reads the
// memory that the peer has written.
func (c *Conn) WriteTo(w io.Writer) (total int64, err error) {
	c.readMu.Lock()
	defer c.readMu.Unlock()
	for {
		n, err := c.passTo(w)
		if total += int64(n); err == io.EOF {
			return total, nil
		} else if err != nil {
			return total, err
		}
	}
}

func (c *Conn) passTo(w io.Writer) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, n, err := c.awaitReady()
	if err != nil {
		return 0, c.fail("read", err)
	}
	from := c.received(at, n)
	c.mu.Unlock()
	m, err := w.Write(from)
	c.mu.Lock()
	if m < 0 || m > int(n) {
		panic("rsocket: a Writer has written more than it was given")
	}
	if err == nil && m < int(n) {
		err = io.ErrShortWrite
	}
	c.stream.Consume(uint32(m))
	c.postControl()
	return m, err
}

// CloseRead shuts the half that reads: Read returns io.EOF behind the bytes that have come. The
// peer may write until the buffer is full.
func (c *Conn) CloseRead() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.fail("close", net.ErrClosed)
	}
	c.deaf = true
	c.stream.ShutRead()
	c.postControl()
	c.notify()
	return nil
}
