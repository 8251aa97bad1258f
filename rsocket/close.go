// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"context"
	"net"
	"time"
)

const (
	// lingerTime bounds the wait of a closed stream for a peer that does not acknowledge. It is the
	// default of net.ipv4.tcp_fin_timeout.
	lingerTime = time.Minute
	// closeTime bounds the part of lingerTime for which Close blocks. Programs end after Close, and
	// bytes that have not arrived are lost then.
	closeTime = time.Second
)

// CloseWrite shuts the half that writes, as net.TCPConn does: the peer's Read returns io.EOF behind
// the bytes that were written. It may have to wait for the peer's device, until the deadline of
// Write at most. Then the peer learns of it by a later call.
func (c *Conn) CloseWrite() error {
	c.shutMu.Lock()
	defer c.shutMu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.fail("close", net.ErrClosed)
	}
	c.mute = true
	c.stream.ShutWrite()
	c.postControl()
	c.notify() // a Write fails
	if !c.stream.Told() {
		return c.fail("close", c.wait(&c.shutter, c.told))
	}
	return nil
}

// Close closes the stream: net.Conn. Calls that wait fail with net.ErrClosed. Close waits until all
// bytes have arrived at the peer's device, for a second at most. The peer need not read them.
func (c *Conn) Close() error {
	c.mu.Lock()
	if !c.waits.close() {
		c.mu.Unlock()
		return c.fail("close", net.ErrClosed)
	}
	c.setDeadline(&c.closer, time.Now().Add(lingerTime))
	c.stream.Close()
	c.postControl()
	c.mu.Unlock()

	done := make(chan struct{})
	go func() {
		c.end()
		close(done)
		c.freeLarge() // behind a Writer that has bytes of WriteTo
	}()
	t := time.NewTimer(closeTime)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
	return nil
}

// end ends the connection once everything sent has arrived.
func (c *Conn) end() {
	c.mu.Lock()
	if !c.stream.Settled() {
		_ = c.wait(&c.closer, c.settled) // the peer has had lingerTime
	}
	c.closer.timer.Stop()
	deadline := c.closer.deadline
	c.gone = true
	c.mu.Unlock()
	if c.stream.BySend {
		// Over TCP everything sent has left, and may not have arrived. A socket that closes before
		// it has read the peer's last messages resets the stream, and the peer's kernel drops ours.
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		_ = c.cm.ID.Disconnect() // the peer may have done so
		_ = c.cm.Wait(ctx)
		cancel()
	}
	_ = c.cm.Close() // it was established, and closes once
}
