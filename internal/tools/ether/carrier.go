// SPDX-License-Identifier: BSD-2-Clause

package ether

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"verbena/internal/sys/tun"
	transportntb "verbena/internal/transport/ntb"
)

// carrier takes frames from an interface to a link and back.
type carrier struct {
	tap   *tun.TAP
	link  *transportntb.Device
	count counts
	stuck bool // the peer has had no room for a while

	mu      sync.Mutex
	stopped bool // guarded by mu: the interface may be closed
}

// counts are read when all is over.
type counts struct {
	sent, sentBytes         uint64
	received, receivedBytes atomic.Uint64
	noRoom                  uint64 // dropped: the peer has no room
	refused                 atomic.Uint64
}

func (c *counts) String() string {
	return fmt.Sprintf("sent %d frames, %d bytes; received %d frames, %d bytes; dropped %d for "+
		"which the peer had no room, %d that the kernel did not take",
		c.sent, c.sentBytes, c.received.Load(), c.receivedBytes.Load(), c.noRoom, c.refused.Load())
}

// start carries frames until tap.Stop. The error that ends it earlier is sent on
// the channel, which is then closed.
//
// Errors: backend.ErrInUse if another process does.
func (c *carrier) start() (ended chan error, err error) {
	err = c.link.OnFrame(func(frame []byte) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.stopped || c.tap.Write(frame) != nil { // it is down, say
			c.count.refused.Add(1)
			return
		}
		c.count.received.Add(1)
		c.count.receivedBytes.Add(uint64(len(frame)))
	})
	if err != nil {
		return nil, err
	}
	ended = make(chan error, 1)
	go func() {
		defer close(ended)
		if err := c.send(); !errors.Is(err, tun.ErrStopped) {
			ended <- err
		}
	}()
	return ended, nil
}

// stop ends the goroutines of start; the interface is not used any more.
func (c *carrier) stop() {
	_ = c.link.OnFrame(nil) // it only gives up
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
}

// send sends the kernel's frames. It holds the kernel back while the peer has no room, because TCP
// takes lost frames for a narrow network.
func (c *carrier) send() error {
	buf := make([]byte, 1<<16+ethernetHeader)
	for {
		n, err := c.tap.Read(buf)
		if err != nil {
			return err
		}
		if !c.awaitRoom(n) || !c.link.SendFrame(buf[:n]) {
			c.count.noRoom++
			continue
		}
		c.count.sent++
		c.count.sentBytes += uint64(n)
	}
}

// The time that a frame waits for room, and the interval of its looks. A peer that takes nothing
// for so long has no reader.
const (
	roomPatience = 100 * time.Millisecond
	roomPause    = 20 * time.Microsecond
)

func (c *carrier) awaitRoom(n int) bool {
	for from := time.Now(); !c.link.FrameFits(n); time.Sleep(roomPause) {
		if longest, err := c.link.MaxFrame(); err != nil || n > longest || c.stuck {
			return false
		}
		if time.Since(from) > roomPatience {
			c.stuck = true
			return false
		}
	}
	c.stuck = false
	return true
}
